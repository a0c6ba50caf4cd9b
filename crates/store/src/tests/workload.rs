//! Small workloads whose every crash is explored.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use halocline_explore::{Crash, Explorer, MutantReport, Report, Tracked, Violation};
use halocline_media::Medium;
use halocline_pool::{ObjectKind, Pool};

use crate::layout;
use crate::moves::CopiedRecords;
use crate::room::SegmentClaim;
use crate::{Store, StoreSnapshot, Stores, StoresOptions, WriteBatch};

/// A step of a workload. Keys are numbers, which several shapes of keys stand for.
#[derive(Debug, Clone)]
pub(crate) enum StoreStep {
    /// Sets a key to a value of this many bytes.
    Put(u32, usize),
    Delete(u32),
    /// Puts of all these keys, and deletions of the others, in two stores.
    Batch(Vec<u32>, Vec<u32>),
    DeleteRange(u32, u32),
    /// As `DeleteRange`, and leaves the keys hidden that are more than are deleted at once.
    HideRange(u32, u32),
    /// Deletes some keys of hidden ranges.
    DeleteSome,
    /// A transaction that moves the value of a key to another one.
    Move(u32, u32),
    /// A transaction that sets keys of both stores, committed with one of the pool that sets an object.
    Together(Vec<u32>),
    Expire(u32, u64),
    Checkpoint,
    /// Makes deferred commits durable.
    Flush,
    Reclaim,
    /// Gives unused space back to the pool.
    GiveBack,
    /// Drops the second store, and creates it again.
    DropSecond,
    /// As `Put`, between the copies of the records that are needed of segments and the change of their
    /// pointers.
    PutAmidMoves(u32, usize),
    /// Takes a snapshot, which is held until the next one is taken.
    Snapshot,
    /// Lets the time pass.
    Time(u64),
}

/// The contents of both stores, and of an object of the pool: key, value, time of expiry.
pub(crate) type Contents = [BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>; 3];

/// The pairs that a reader of both stores and the object sees.
pub(crate) type Visible = [BTreeMap<Vec<u8>, Vec<u8>>; 3];

/// The name of the object.
const OBJECT: &str = "object";

pub(crate) const NAMES: [&str; 2] = ["a", "b"];

pub(crate) fn key(number: u32) -> Vec<u8> {
    format!(
        "tenant-{}/document-with-a-long-common-name/{number:05}",
        number % 2
    )
    .into_bytes()
}

fn value(step: usize, len: usize) -> Vec<u8> {
    vec![step as u8 + 1; len]
}

/// Returns options with small limits, so that short workloads reach checkpoints, splits and emptied segments.
pub(crate) fn options(clock: &Arc<std::sync::atomic::AtomicU64>) -> StoresOptions {
    let clock = Arc::clone(clock);
    StoresOptions::default()
        .with_background(false)
        .with_pending_records(1000)
        .with_pending_bytes(1 << 30)
        .with_garbage_percent(20)
        .with_deleted_at_once(3)
        .with_clock(Arc::new(move || clock.load(std::sync::atomic::Ordering::Relaxed)))
}

/// Open stores and what their steps need.
pub(crate) struct Running {
    pool: Pool,
    pub(crate) stores: Stores,
    pub(crate) open: [Store; 2],
    snapshot: Option<StoreSnapshot>,
    clock: Arc<std::sync::atomic::AtomicU64>,
}

impl Running {
    pub(crate) fn open(pool: &Pool) -> Result<Running, String> {
        Running::open_with(pool, |options| options)
    }

    /// Opens with changed options.
    pub(crate) fn open_with(
        pool: &Pool,
        change: impl Fn(StoresOptions) -> StoresOptions,
    ) -> Result<Running, String> {
        let clock = Arc::default();
        let stores = Stores::open_with(pool, change(options(&clock))).map_err(|error| error.to_string())?;
        let open = |name| stores.store(name).map_err(|error| error.to_string());
        Ok(Running {
            pool: pool.clone(),
            open: [open(NAMES[0])?, open(NAMES[1])?],
            stores,
            snapshot: None,
            clock,
        })
    }

    /// Opens for reading, as a handle does that cannot end a commit because another one has the stores.
    fn read_beside(pool: &Pool) -> Result<Running, String> {
        let text = |error: crate::StoreError| error.to_string();
        let other = pool.open_slab(layout::OBJECT, layout::OWNER);
        let other = other.map_err(|error| error.to_string())?;
        let clock = Arc::default();
        let stores = Stores::open_reader_with(pool, &options(&clock)).map_err(text)?;
        drop(other);
        let open = |name| stores.existing(name).map_err(text);
        Ok(Running {
            pool: pool.clone(),
            open: [open(NAMES[0])?, open(NAMES[1])?],
            stores,
            snapshot: None,
            clock,
        })
    }

    pub(crate) fn step(&mut self, number: usize, step: &StoreStep) -> crate::Result<()> {
        if matches!(step, StoreStep::DropSecond) {
            self.stores.drop_store(NAMES[1])?;
            self.open[1] = self.stores.store(NAMES[1])?;
        }
        let [a, b] = &self.open;
        match step {
            StoreStep::DropSecond => Ok(()),
            StoreStep::GiveBack => self.stores.give_back(std::time::Duration::ZERO).map(drop),
            StoreStep::Put(number_of_key, len) => a.put(key(*number_of_key), value(number, *len)),
            StoreStep::Delete(number) => a.delete(key(*number)),
            StoreStep::Batch(puts, deletes) => {
                let mut batch = WriteBatch::new();
                for put in puts {
                    batch.put(a, key(*put), value(number, 40))?;
                    batch.put(b, key(*put), value(number, 9))?;
                }
                for delete in deletes {
                    batch.delete(a, key(*delete))?;
                    batch.delete(b, key(*delete))?;
                }
                self.stores.write(batch)
            }
            StoreStep::DeleteRange(from, to) => a.delete_range(key(*from)..key(*to)),
            StoreStep::HideRange(from, to) => {
                let mut batch = WriteBatch::new();
                batch.delete_range(a, key(*from)..key(*to))?;
                self.stores
                    .handle
                    .state
                    .commit_batch(batch.ops, None, SegmentClaim::Deletions)
                    .map(drop)
            }
            StoreStep::DeleteSome => self.stores.handle.state.delete_step(&a.state).map(drop),
            StoreStep::Move(from, to) => {
                let mut transaction = self.stores.begin();
                let value = transaction.get(a, key(*from))?.unwrap_or_default();
                transaction.delete(a, key(*from))?;
                transaction.put(b, key(*to), value)?;
                transaction.commit()
            }
            StoreStep::Together(keys) => {
                let mut transaction = self.stores.begin();
                for at in keys {
                    transaction.put(a, key(*at), value(number, 40))?;
                    transaction.put(b, key(*at), value(number, 9))?;
                }
                let txn = self.pool.begin()?;
                transaction.commit_with(|batch| {
                    batch.put_into(&txn)?;
                    txn.put(OBJECT, ObjectKind(77), &value(number, 1), vec![])?;
                    txn.commit()?;
                    Ok(())
                })
            }
            StoreStep::Expire(number_of_key, ms) => a.put_with_ttl(
                key(*number_of_key),
                value(number, 20),
                std::time::Duration::from_millis(*ms),
            ),
            StoreStep::Checkpoint => self.stores.checkpoint(),
            StoreStep::Flush => self.stores.flush(),
            StoreStep::Reclaim => self.stores.reclaim(),
            StoreStep::PutAmidMoves(number_of_key, len) => {
                let state = &self.stores.handle.state;
                let mut copied = CopiedRecords::default();
                state.copy_needed(&state.segments_to_empty(u64::MAX), &mut copied)?;
                a.put(key(*number_of_key), value(number, *len))?;
                state.move_copied(copied).map(drop)
            }
            StoreStep::Snapshot => {
                self.snapshot = Some(self.stores.snapshot());
                Ok(())
            }
            StoreStep::Time(ms) => {
                self.clock.fetch_add(*ms, std::sync::atomic::Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Returns what both stores hold.
    pub(crate) fn contents(&self) -> Result<Visible, String> {
        let of = |store: &Store| -> Result<BTreeMap<_, _>, String> {
            let pairs: Result<Vec<_>, _> = store.scan::<Vec<u8>>(..).collect();
            let pairs = pairs.map_err(|error| error.to_string())?;
            for (key, value) in &pairs {
                let found = store.get(key).map_err(|error| error.to_string())?;
                if found.as_ref() != Some(value) {
                    return Err(format!("get of {} found {found:?}", key.escape_ascii()));
                }
            }
            Ok(pairs.into_iter().collect())
        };
        let snapshot = self.pool.snapshot().map_err(|error| error.to_string())?;
        let object = snapshot.get(OBJECT).map(|object| object.meta().to_vec());
        let object = object.map(|meta| (OBJECT.into(), meta)).into_iter().collect();
        Ok([of(&self.open[0])?, of(&self.open[1])?, object])
    }
}

/// Applies a step to the model.
pub(crate) fn model_step(model: &mut Contents, now: &mut u64, number: usize, step: &StoreStep) {
    match step {
        StoreStep::Put(at, len) | StoreStep::PutAmidMoves(at, len) => {
            model[0].insert(key(*at), (value(number, *len), None));
        }
        StoreStep::Delete(at) => {
            model[0].remove(&key(*at));
        }
        StoreStep::Batch(puts, deletes) => {
            for put in puts {
                model[0].insert(key(*put), (value(number, 40), None));
                model[1].insert(key(*put), (value(number, 9), None));
            }
            for delete in deletes {
                model[0].remove(&key(*delete));
                model[1].remove(&key(*delete));
            }
        }
        StoreStep::DeleteRange(from, to) | StoreStep::HideRange(from, to) => {
            let (from, to) = (key(*from), key(*to));
            model[0].retain(|key, _| *key < from || *key >= to);
        }
        StoreStep::Move(from, to) => {
            let value = model[0]
                .remove(&key(*from))
                .map(|(value, _)| value)
                .unwrap_or_default();
            model[1].insert(key(*to), (value, None));
        }
        StoreStep::Together(keys) => {
            for at in keys {
                model[0].insert(key(*at), (value(number, 40), None));
                model[1].insert(key(*at), (value(number, 9), None));
            }
            model[2].insert(OBJECT.into(), (value(number, 1), None));
        }
        StoreStep::Expire(at, ms) => {
            model[0].insert(key(*at), (value(number, 20), Some(*now + ms)));
        }
        StoreStep::Time(ms) => *now += ms,
        StoreStep::DropSecond => model[1].clear(),
        StoreStep::Checkpoint
        | StoreStep::Flush
        | StoreStep::Reclaim
        | StoreStep::GiveBack
        | StoreStep::Snapshot
        | StoreStep::DeleteSome => {}
    }
}

/// Returns the contents after each number of steps.
pub(crate) fn states(steps: &[StoreStep]) -> Vec<Visible> {
    let (mut model, mut now) = (Contents::default(), 0);
    let visible = |model: &Contents, now: u64| {
        let of = |contents: &BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>| {
            let alive = contents
                .iter()
                .filter(|(_, (_, expires))| expires.is_none_or(|expires| expires > now));
            alive
                .map(|(key, (value, _))| (key.clone(), value.clone()))
                .collect()
        };
        [of(&model[0]), of(&model[1]), of(&model[2])]
    };
    let mut states = vec![visible(&model, now)];
    for (number, step) in steps.iter().enumerate() {
        model_step(&mut model, &mut now, number, step);
        states.push(visible(&model, now));
    }
    states
}

/// Accepts an image that holds what was acknowledged, and the step in flight wholly or not at all, and in
/// which work can go on.
fn check(
    medium: Arc<Tracked>,
    crash: &Crash<'_>,
    steps: &[StoreStep],
    done: usize,
    states: &[Visible],
) -> Result<(), String> {
    let (first, last) = crash.completed(done);
    let now: u64 = steps[..first]
        .iter()
        .map(|step| match step {
            StoreStep::Time(ms) => *ms,
            _ => 0,
        })
        .sum();
    let pool = Pool::open_on(Arc::clone(&medium)).map_err(|error| error.to_string())?;
    let is_together = |step: &StoreStep| matches!(step, StoreStep::Together(_));
    let read = if steps.iter().any(is_together) {
        Some(Running::read_beside(&pool)?.contents()?)
    } else {
        None
    };
    let running = Running::open(&pool)?;
    running.clock.store(now, std::sync::atomic::Ordering::Relaxed);
    let found = running.contents()?;
    if read.is_some_and(|read| read != found) {
        return Err("a reader that cannot write saw something else".to_owned());
    }
    if found != states[first] && found != states[last] {
        let names = |contents: &Visible| {
            let of = |contents: &BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<String> {
                let pairs = contents.iter();
                pairs
                    .map(|(key, value)| format!("{}={}x{:?}", key.escape_ascii(), value.len(), value.first()))
                    .collect()
            };
            [of(&contents[0]), of(&contents[1]), of(&contents[2])]
        };
        return Err(format!(
            "found {:?} instead of {:?}",
            names(&found),
            names(&states[last])
        ));
    }
    check_counters(&running, steps, &found)?;
    goes_on(&pool, running, now, &found)
}

/// Compares the counters of keys with what is there. Expired keys count until they are removed: where keys
/// expire, a check compares the counters with the entries.
fn check_counters(running: &Running, steps: &[StoreStep], found: &Visible) -> Result<(), String> {
    if steps.iter().any(|step| matches!(step, StoreStep::Expire(..))) {
        let report = running.stores.check(&mut |_| ControlFlow::Continue(()));
        let report = report.map_err(|error| error.to_string())?;
        return match report.problems.first() {
            Some(problem) => Err(problem.to_string()),
            None => Ok(()),
        };
    }
    let keys: Vec<u64> = running.open.iter().map(Store::len).collect();
    let stored: Vec<u64> = found[..2].iter().map(|contents| contents.len() as u64).collect();
    if keys == stored {
        Ok(())
    } else {
        Err(format!("{keys:?} keys are counted, {stored:?} are there"))
    }
}

/// Checks that work goes on: what is there stays, across a checkpoint, an emptied segment, and a restart.
pub(crate) fn goes_on(pool: &Pool, mut running: Running, now: u64, found: &Visible) -> Result<(), String> {
    let text = |error: crate::StoreError| error.to_string();
    for number in 0..3 {
        running
            .step(200 + number, &StoreStep::Put(900 + number as u32, 30))
            .map_err(text)?;
    }
    running.step(0, &StoreStep::Reclaim).map_err(text)?;
    running.step(210, &StoreStep::Put(901, 7)).map_err(text)?;
    drop(running);
    let running = Running::open(pool)?;
    running.clock.store(now, std::sync::atomic::Ordering::Relaxed);
    let mut again = running.contents()?;
    for number in 900..903 {
        again[0]
            .remove(&key(number))
            .ok_or("a key of the second run is missing")?;
    }
    if again == *found {
        Ok(())
    } else {
        Err(format!(
            "{} and {} keys became {} and {}",
            found[0].len(),
            found[1].len(),
            again[0].len(),
            again[1].len()
        ))
    }
}

/// Tracked memory itself, with durable fences.
pub(crate) const ON_DAX: MediumOf = |medium| Medium::from(medium);

/// The medium that a workload uses of tracked memory.
pub(crate) type MediumOf = fn(&Arc<Tracked>) -> Medium;

fn prepare(on: MediumOf, steps: &[StoreStep]) -> impl Fn(&Arc<Tracked>) {
    move |medium| {
        let pool = Pool::create_on(on(medium)).unwrap();
        let mut running = Running::open(&pool).unwrap();
        for (number, step) in steps.iter().enumerate() {
            running.step(number, step).unwrap();
        }
    }
}

fn work(on: MediumOf, done: usize, steps: &[StoreStep]) -> impl Fn(&Arc<Tracked>) {
    move |medium| {
        let pool = Pool::open_on(on(medium)).unwrap();
        let mut running = Running::open(&pool).unwrap();
        for (at, step) in steps.iter().enumerate() {
            medium.begin(at as u64);
            running.step(done + at, step).unwrap();
            medium.acknowledge(at as u64);
        }
        // Whatever closing does is no part of the workload.
        std::mem::forget(running);
    }
}

pub(crate) fn explorer() -> Explorer {
    Explorer {
        limit: 200,
        ..Explorer::default()
    }
}

/// Explores the steps on stores after the steps of the setup.
pub(crate) fn explore(setup: &[StoreStep], steps: &[StoreStep]) -> Result<Report, Box<Violation>> {
    explore_on(ON_DAX, setup, steps)
}

/// Explores the steps on a medium, on stores after the steps of the setup.
pub(crate) fn explore_on(
    on: MediumOf,
    setup: &[StoreStep],
    steps: &[StoreStep],
) -> Result<Report, Box<Violation>> {
    let all = [setup, steps].concat();
    let states = states(&all);
    let (prepare, work) = (prepare(on, setup), work(on, setup.len(), steps));
    explorer().run(prepare, work, |medium, crash| {
        check(medium, crash, &all, setup.len(), &states)
    })
}

/// Explores the steps with every flush and fence left out in turn.
pub(crate) fn mutants(setup: &[StoreStep], steps: &[StoreStep]) -> MutantReport {
    mutants_on(ON_DAX, setup, steps)
}

/// Explores the steps on a medium with every flush and fence left out in turn.
pub(crate) fn mutants_on(on: MediumOf, setup: &[StoreStep], steps: &[StoreStep]) -> MutantReport {
    let all = [setup, steps].concat();
    let states = states(&all);
    let (prepare, work) = (prepare(on, setup), work(on, setup.len(), steps));
    let report = explorer().mutants(prepare, work, |medium, crash| {
        check(medium, crash, &all, setup.len(), &states)
    });
    report.unwrap_or_else(|violation| panic!("{violation}"))
}
