//! The thread of the scrub: reads data that queries may not read for long and compares it with its checksums,
//! so that damage is found while there is a copy to restore from.
//!
//! Invariants: it keeps to the set rate; it pins a generation for one step only, so that writers can reuse
//! space; it verifies again what was verified before; queries do not wait for it; it ends before the last
//! handle of the database is gone.

use std::sync::Arc;
use std::time::Duration;

use halocline_catalog::context::EngineContext;
use halocline_pool::{ExtentRef, ObjectKind, Pool, PoolError};

/// Rest after a pass over everything.
const PASS_PAUSE: Duration = Duration::from_secs(60);

/// Sets the rate in bytes per second, and starts the thread if it does not run yet; none switches the scrub
/// off.
pub(crate) fn set_scrub(engine: &Arc<EngineContext>, rate: Option<u64>) {
    engine.scrub.set(rate, || {
        let engine = Arc::clone(engine);
        let thread = std::thread::Builder::new().name("scrub".into());
        thread.spawn(move || run(&engine))
    });
}

fn run(engine: &Arc<EngineContext>) {
    let scrub = &engine.scrub;
    while scrub.wait() {
        match pass(engine) {
            Ok(true) => {
                scrub.count_pass();
                scrub.pause(PASS_PAUSE);
            }
            Ok(false) => {}
            Err(error) => {
                engine.damage.add(format!("scrub: {error}"));
                scrub.pause(PASS_PAUSE);
            }
        }
    }
}

/// Verifies all extents of the newest generation, skipping those that are gone when their turn comes. Returns
/// false if the scrub was ended.
fn pass(engine: &EngineContext) -> Result<bool, PoolError> {
    let snapshot = engine.pool.snapshot()?;
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
            let end = if extent.sums {
                (extent.len as usize).min(at + engine.scrub.step_bytes())
            } else {
                // An extent without checksums of its blocks can only be verified as a whole.
                extent.len as usize
            };
            match verify(&engine.pool, name, *index, extent, at..end)? {
                ScrubOutcome::Intact => {}
                ScrubOutcome::Gone => break,
                ScrubOutcome::Damaged(what) => engine.damage.add(what),
            }
            if !engine.scrub.throttle((end - at) as u64) {
                return Ok(false);
            }
            at = end;
        }
    }
    Ok(true)
}

/// Result of verifying a part of an extent.
enum ScrubOutcome {
    Intact,
    /// The extent no longer belongs to the object.
    Gone,
    Damaged(String),
}

/// Verifies a range of bytes of an extent, pinning the newest generation for this time only.
fn verify(
    pool: &Pool,
    name: &str,
    index: usize,
    extent: &ExtentRef,
    range: std::ops::Range<usize>,
) -> Result<ScrubOutcome, PoolError> {
    let snapshot = pool.snapshot()?;
    let object = snapshot.get(name);
    let same = |object: &halocline_pool::Object| {
        index < object.extent_count() && object.extent_ref(index) == *extent
    };
    let Some(object) = object.filter(same) else {
        return Ok(ScrubOutcome::Gone);
    };
    let damaged = |what: String| {
        let advice = "run `halocline check` for all damage, and restore the object from a copy";
        ScrubOutcome::Damaged(format!("scrub: {what}; {advice}"))
    };
    let found = if extent.sums {
        match object.extent(index) {
            Ok(bytes) => bytes.verify_range_again(range).map_err(|block| {
                format!(
                    "the {} bytes at {} of {} do not match their checksum",
                    block.len, block.offset, block.object
                )
            }),
            Err(error) => Err(error.to_string()),
        }
    } else {
        match object.extent_verified(index) {
            Ok(bytes) => bytes
                .verify_range_again(range)
                .map_err(|_| format!("extent {index} of '{name}' does not match its checksum")),
            Err(PoolError::ChecksumMismatch { .. }) => {
                Err(format!("extent {index} of '{name}' does not match its checksum"))
            }
            Err(error) => return Err(error),
        }
    };
    Ok(found.map_or_else(damaged, |()| ScrubOutcome::Intact))
}
