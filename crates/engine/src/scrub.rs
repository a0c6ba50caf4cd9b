//! The scrub: a thread of the database that reads what nobody reads and compares it with its checksums, so that damage is found
//! while there is a copy to restore from. Also [`Damage`], the list of what was found by it or by a merge in the background.
//!
//! Invariants: it reads at most as many bytes a second as it may; it pins a generation for one step only, so that no space is kept from
//! writers; it verifies again what was verified before, and queries do not wait for it. It ends before the last handle of the database.
//!
//! It reads steps of at most 1 MiB, and rests a minute after each pass.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use halocline_pool::{ExtentRef, ObjectKind, Pool, PoolError};

use crate::database::Shared;

/// Bytes that are read at once at most.
const STEP: usize = 1 << 20;
/// Steps in a second at least, so that it reads evenly.
const STEPS: u64 = 8;
/// Rest after a pass over everything.
const REST: Duration = Duration::from_secs(60);

/// Damage that was found in the background, as sentences, each once.
#[derive(Debug, Default)]
pub(crate) struct Damage(Mutex<BTreeSet<String>>);

impl Damage {
    fn list(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sentence and warns, unless it is known.
    pub(crate) fn add(&self, what: String) {
        let mut list = self.list();
        if !list.contains(&what) {
            tracing::warn!("{what}");
            list.insert(what);
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.list().iter().cloned().collect()
    }
}

/// What a database knows of its scrub.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes a second; none: it is off.
    rate: Option<u64>,
    /// Passes that were finished.
    passes: u64,
    over: bool,
    thread: Option<JoinHandle<()>>,
}

impl Scrub {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches it on, at so many bytes a second, or off.
    pub(crate) fn set(shared: &Arc<Shared>, rate: Option<u64>) {
        let scrub = &shared.scrub;
        let mut state = scrub.state();
        state.rate = rate;
        if rate.is_some() && state.thread.is_none() && !state.over {
            let shared = Arc::clone(shared);
            match std::thread::Builder::new()
                .name("scrub".into())
                .spawn(move || run(&shared))
            {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => tracing::warn!("no scrub: {error}"),
            }
        }
        drop(state);
        scrub.changed.notify_all();
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.over = true;
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        if let Some(thread) = thread {
            // One that has panicked is over, too.
            let _ = thread.join();
        }
    }

    /// Waits until it is switched on; false at the end.
    fn wait(&self) -> bool {
        let off = |state: &mut State| !state.over && state.rate.is_none();
        let state = self.changed.wait_while(self.state(), off);
        !state.unwrap_or_else(PoisonError::into_inner).over
    }

    /// Waits; false at the end, or if it was switched off.
    fn pause(&self, time: Duration) -> bool {
        let on = |state: &mut State| !state.over && state.rate.is_some();
        let waited = self.changed.wait_timeout_while(self.state(), time, on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        on(&mut state)
    }

    /// Waits as long as these bytes take at the rate; false at the end, or if it was switched off.
    fn pay(&self, bytes: u64) -> bool {
        let rate = self.state().rate.unwrap_or(1).max(1);
        self.pause(Duration::from_secs_f64(bytes as f64 / rate as f64))
    }

    /// Bytes of a step.
    fn step(&self) -> usize {
        let rate = self.state().rate.unwrap_or(1);
        usize::try_from(rate / STEPS).unwrap_or(STEP).clamp(1 << 16, STEP)
    }

    /// Waits until everything was read so many times, or the thread has ended.
    #[cfg(test)]
    pub(crate) fn wait_for_passes(&self, least: u64) {
        let fewer = |state: &mut State| state.passes < least && !state.over;
        drop(self.changed.wait_while(self.state(), fewer));
    }
}

fn run(shared: &Arc<Shared>) {
    let scrub = &shared.scrub;
    while scrub.wait() {
        match pass(shared) {
            Ok(true) => {
                scrub.state().passes += 1;
                scrub.changed.notify_all();
                scrub.pause(REST);
            }
            Ok(false) => {}
            Err(error) => {
                shared.damage.add(format!("scrub: {error}"));
                scrub.pause(REST);
            }
        }
    }
}

/// Reads everything that the newest generation names, as long as it is still named when its turn comes; false if it was ended.
fn pass(shared: &Shared) -> Result<bool, PoolError> {
    let snapshot = shared.pool.snapshot()?;
    let immutable = |kind| kind != ObjectKind::LOG && kind != ObjectKind::SLAB;
    let objects = snapshot.objects().filter(|object| immutable(object.kind()));
    let extents: Vec<(String, usize, ExtentRef)> = objects
        .flat_map(|object| {
            let name = object.name().to_owned();
            let all = (0..object.extent_count()).map(move |i| (name.clone(), i, object.extent_ref(i)));
            all.collect::<Vec<_>>()
        })
        .collect();
    drop(snapshot);
    for (name, index, extent) in &extents {
        let mut at = 0;
        while at < extent.len as usize {
            let end = match extent.sums {
                true => (extent.len as usize).min(at + shared.scrub.step()),
                // Without sums of its blocks it is verified as a whole.
                false => extent.len as usize,
            };
            match verify(&shared.pool, name, *index, extent, at..end)? {
                Verified::Intact => {}
                Verified::Gone => break,
                Verified::Damaged(what) => shared.damage.add(what),
            }
            if !shared.scrub.pay((end - at) as u64) {
                return Ok(false);
            }
            at = end;
        }
    }
    Ok(true)
}

enum Verified {
    Intact,
    /// The extent is not the object's any more.
    Gone,
    Damaged(String),
}

fn verify(
    pool: &Pool,
    name: &str,
    index: usize,
    extent: &ExtentRef,
    range: std::ops::Range<usize>,
) -> Result<Verified, PoolError> {
    let snapshot = pool.snapshot()?;
    let object = snapshot.get(name);
    let same = |object: &halocline_pool::Object| {
        index < object.extent_count() && object.extent_ref(index) == *extent
    };
    let Some(object) = object.filter(same) else {
        return Ok(Verified::Gone);
    };
    let damaged = |what: String| {
        let advice = "run `halocline check` for all damage, and restore the object from a copy";
        Verified::Damaged(format!("scrub: {what}; {advice}"))
    };
    let found = match extent.sums {
        true => match object.extent(index) {
            Ok(bytes) => bytes.verify_range_again(range).map_err(|block| {
                format!(
                    "the {} bytes at {} of {} do not match their checksum",
                    block.len, block.offset, block.object
                )
            }),
            Err(error) => Err(error.to_string()),
        },
        false => match object.extent_verified(index) {
            Ok(bytes) => bytes
                .verify_range_again(range)
                .map_err(|_| format!("extent {index} of '{name}' does not match its checksum")),
            Err(PoolError::ChecksumMismatch { .. }) => {
                Err(format!("extent {index} of '{name}' does not match its checksum"))
            }
            Err(error) => return Err(error),
        },
    };
    Ok(found.map_or_else(damaged, |()| Verified::Intact))
}
