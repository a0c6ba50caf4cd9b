//! Small pools with known objects: the steps of a workload, and the states that must be found after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_explore::{Crash, Tracked};
use halocline_media::MediumAccess;

use crate::layout::{DATA_START, SLOT_SIZE};
use crate::pool::PoolGeometry;
use crate::{ExtentRef, ObjectKind, Pool, PoolError, Txn};

/// Pools that start with four blocks and grow by four.
pub(crate) const SMALL_POOL: PoolGeometry = PoolGeometry {
    initial_len: DATA_START + (16 << 10),
    growth: 16 << 10,
    worth: 8 << 10,
    reserve: 0,
};

/// Pools of the same size with a reserve.
pub(crate) const RESERVED_POOL: PoolGeometry = PoolGeometry {
    reserve: 8 << 10,
    ..SMALL_POOL
};

/// The boot of all tests, and the one after it.
pub(crate) const BOOT: [u8; 16] = [1; 16];
pub(crate) const NEXT_BOOT: [u8; 16] = [2; 16];

/// The only log of these pools. Its records are derived from this seed like the extents of other objects.
pub(crate) const LOG: &str = "log";
pub(crate) const LOG_SEED: u8 = 0x1C;

/// Objects by name, with their seeds and the lengths of their extents.
pub(crate) type ExpectedObjects = BTreeMap<&'static str, (u8, Vec<usize>)>;

/// A step of a workload. Each but `Append`, `Sync`, `Rollback`, `Pin`, `Unpin`, `Vacuum` and `Turn` publishes
/// a generation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PoolStep {
    Put(&'static str, u8, &'static [usize]),
    Remove(&'static str),
    /// Drops a transaction with an extent of this length that is neither finished nor published.
    Rollback(usize),
    Sync,
    /// Creates an empty log of this capacity in bytes.
    Log(u64),
    /// Appends a record of this length to the log.
    Append(usize),
    /// Moves the contents of the log to an object, and empties the log.
    Fold(&'static str, u8),
    /// Creates an object without extents, and a log that begins with the records of the previous one.
    Carry(&'static str, u8),
    /// Takes a snapshot and keeps it.
    Pin,
    Unpin,
    Vacuum,
    /// Lets another handle write from now on, alternating with the first one.
    Turn,
}

/// Returns the states after each step, starting with the empty one.
pub(crate) fn states(steps: &[PoolStep]) -> Vec<ExpectedObjects> {
    let mut states = vec![ExpectedObjects::new()];
    for step in steps {
        let mut state = states.last().cloned().unwrap_or_default();
        match *step {
            PoolStep::Put(name, seed, lens) => drop(state.insert(name, (seed, lens.to_vec()))),
            PoolStep::Remove(name) => drop(state.remove(name)),
            PoolStep::Log(_) => drop(state.insert(LOG, (LOG_SEED, Vec::new()))),
            PoolStep::Append(len) => state.get_mut(LOG).expect("a log").1.push(len),
            PoolStep::Fold(name, seed) => {
                let (_, lens) = state.insert(LOG, (LOG_SEED, Vec::new())).expect("a log");
                state.insert(name, (seed, lens));
            }
            PoolStep::Carry(name, seed) => drop(state.insert(name, (seed, Vec::new()))),
            PoolStep::Rollback(_)
            | PoolStep::Sync
            | PoolStep::Pin
            | PoolStep::Unpin
            | PoolStep::Vacuum
            | PoolStep::Turn => {}
        }
        states.push(state);
    }
    states
}

/// Performs the steps, calling `begun` and `done` for each.
pub(crate) fn run(pool: &Pool, steps: &[PoolStep], begun: impl Fn(u64), done: impl Fn(u64)) {
    let mut pinned = None;
    let mut handles = (pool.clone(), None);
    for (number, step) in steps.iter().enumerate() {
        begun(number as u64);
        let pool = &handles.0.clone();
        match *step {
            PoolStep::Put(name, seed, lens) => {
                let txn = pool.begin().unwrap();
                let extents = lens
                    .iter()
                    .enumerate()
                    .map(|(index, len)| write(&txn, &contents(seed, index, *len)));
                txn.put(name, ObjectKind::TABLE, &[seed; 20], extents.collect())
                    .unwrap();
                txn.commit().unwrap();
            }
            PoolStep::Remove(name) => {
                let txn = pool.begin().unwrap();
                txn.remove(name).unwrap();
                txn.commit().unwrap();
            }
            PoolStep::Rollback(len) => {
                let txn = pool.begin().unwrap();
                txn.alloc(len as u64)
                    .unwrap()
                    .write_at(0, &contents(0xEE, 0, len));
            }
            PoolStep::Log(capacity) => {
                let txn = pool.begin().unwrap();
                txn.put_log(LOG, capacity).unwrap();
                txn.commit().unwrap();
            }
            PoolStep::Append(len) => append(pool, len).unwrap(),
            PoolStep::Fold(name, seed) => fold(pool, name, seed).unwrap(),
            PoolStep::Carry(name, seed) => {
                let txn = pool.begin().unwrap();
                let records = txn.log_records(LOG, 0).unwrap().records;
                txn.put(name, ObjectKind::TABLE, &[seed; 20], Vec::new()).unwrap();
                txn.put_log_with(LOG, 64, records.into_iter().map(Vec::from).collect())
                    .unwrap();
                txn.commit().unwrap();
            }
            PoolStep::Sync => pool.sync().unwrap(),
            PoolStep::Pin => pinned = Some((pool.snapshot().unwrap(), read(pool).unwrap())),
            PoolStep::Unpin => pinned = None,
            PoolStep::Vacuum => drop(pool.vacuum().unwrap()),
            PoolStep::Turn => {
                let inner = &pool.inner;
                let open = || Pool::open_with(inner.medium.clone(), inner.geometry, inner.boot_id).unwrap();
                let next = handles.1.take().unwrap_or_else(open);
                handles.1 = Some(std::mem::replace(&mut handles.0, next));
            }
        }
        if let Some((snapshot, then)) = &pinned {
            assert_eq!(
                &read_snapshot(snapshot).unwrap(),
                then,
                "what is pinned stays as it was"
            );
        }
        done(number as u64);
    }
}

/// Appends the record that comes next.
pub(crate) fn append(pool: &Pool, len: usize) -> Result<(), PoolError> {
    let txn = pool.begin()?;
    let index = txn.log_records(LOG, 0)?.records.len();
    txn.log_append(LOG, &contents(LOG_SEED, index, len)).map(drop)
}

fn fold(pool: &Pool, name: &str, seed: u8) -> Result<(), PoolError> {
    let txn = pool.begin()?;
    let records = txn.log_records(LOG, 0)?.records;
    let records = records.iter().enumerate();
    let extents = records.map(|(index, record)| write(&txn, &contents(seed, index, record.len())));
    txn.put(name, ObjectKind::TABLE, &[seed; 20], extents.collect())?;
    txn.put_log(LOG, 4096)?;
    txn.commit().map(drop)
}

pub(crate) fn write(txn: &Txn, bytes: &[u8]) -> ExtentRef {
    let mut writer = txn.alloc(bytes.len() as u64).unwrap();
    writer.append(bytes);
    writer.finish(bytes.len() as u64).unwrap()
}

pub(crate) fn contents(seed: u8, index: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| seed.wrapping_mul(31) ^ (at as u8) ^ ((at >> 8) as u8) ^ (index as u8).wrapping_mul(77))
        .collect()
}

/// Reads the newest state completely and verifies every byte.
pub(crate) fn read(pool: &Pool) -> Result<BTreeMap<String, (u8, Vec<usize>)>, String> {
    read_snapshot(&pool.snapshot().map_err(|error| error.to_string())?)
}

pub(crate) fn read_snapshot(
    snapshot: &crate::Snapshot,
) -> Result<BTreeMap<String, (u8, Vec<usize>)>, String> {
    let mut found = BTreeMap::new();
    for object in snapshot.objects() {
        if object.kind() == ObjectKind::LOG {
            let records = snapshot.log_records(object.name(), 0);
            let records = records.map_err(|error| error.to_string())?.records;
            for (index, record) in records.iter().enumerate() {
                if **record != *contents(LOG_SEED, index, record.len()) {
                    return Err(format!("record {index} is wrong"));
                }
            }
            let lens = records.iter().map(|record| record.len()).collect();
            found.insert(object.name().to_owned(), (LOG_SEED, lens));
            continue;
        }
        let seed = object.meta()[0];
        if object.meta() != [seed; 20] {
            return Err(format!("metadata of {} is wrong", object.name()));
        }
        let mut lens = Vec::new();
        for index in 0..object.extent_count() {
            let bytes = object.extent_verified(index).map_err(|error| error.to_string())?;
            if *bytes != *contents(seed, index, bytes.len()) {
                return Err(format!("bytes of {} are wrong", object.name()));
            }
            lens.push(bytes.len());
        }
        found.insert(object.name().to_owned(), (seed, lens));
    }
    Ok(found)
}

/// Returns the index of the state between `first` and `last` that the pool holds.
pub(crate) fn find(
    pool: &Pool,
    states: &[ExpectedObjects],
    first: usize,
    last: usize,
) -> Result<usize, String> {
    let found = read(pool)?;
    let same = |state: &ExpectedObjects| {
        state.len() == found.len()
            && state
                .iter()
                .zip(&found)
                .all(|(a, b)| *a.0 == b.0.as_str() && a.1 == b.1)
    };
    let candidates = states.iter().enumerate().take(last + 1).skip(first);
    let position = candidates
        .filter(|(_, state)| same(state))
        .map(|(index, _)| index)
        .next_back();
    position.ok_or_else(|| format!("found {found:?}, which is no state from {first} to {last}"))
}

/// Returns a check of crash images, opened in boot `boot`: the pool holds a state from `before` to `after`,
/// and `after` once a step was acknowledged.
pub(crate) fn holds_acknowledged(
    states: &[ExpectedObjects],
    boot: [u8; 16],
    (before, after): (usize, usize),
) -> impl Fn(Arc<Tracked>, &Crash<'_>) -> Result<(), String> {
    move |medium, crash| {
        let first = if crash.acknowledged.is_empty() {
            before
        } else {
            after
        };
        let pool = Pool::open_with(medium, SMALL_POOL, boot).map_err(|error| error.to_string())?;
        find(&pool, states, first, after).map(drop)
    }
}

/// Checks that the log's count covers all records of the state but the last `but`.
pub(crate) fn counts(pool: &Pool, state: &ExpectedObjects, but: usize) -> Result<(), String> {
    let records = state.get(LOG).map_or(0, |(_, lens)| lens.len());
    let report = pool.check(|_| ()).map_err(|error| error.to_string())?;
    if report.counted_records as usize + but >= records {
        Ok(())
    } else {
        Err(format!(
            "{} of {records} records are counted",
            report.counted_records
        ))
    }
}

/// Checks that work can continue after a crash: space is found again, a publish succeeds, and nothing else is
/// harmed.
pub(crate) fn goes_on(pool: &Pool, states: &[ExpectedObjects], at: usize) -> Result<(), String> {
    const NEW: (u8, [usize; 2]) = (0x77, [100, 5000]);
    let fail = |error: PoolError| error.to_string();
    let mut state = states[at].clone();
    if let Some((_, lens)) = state.get_mut(LOG) {
        append(pool, 30).map_err(fail)?;
        lens.push(30);
        find(pool, std::slice::from_ref(&state), 0, 0)?;
        fold(pool, "folded", 0x78).map_err(fail)?;
        let (seed, lens) = state.insert(LOG, (LOG_SEED, Vec::new())).expect("a log");
        assert_eq!(seed, LOG_SEED);
        state.insert("folded", (0x78, lens));
    }
    let txn = pool.begin().map_err(fail)?;
    let extents = NEW
        .1
        .iter()
        .enumerate()
        .map(|(index, len)| write(&txn, &contents(NEW.0, index, *len)))
        .collect();
    txn.put("zz", ObjectKind::INDEX, &[NEW.0; 20], extents)
        .map_err(fail)?;
    txn.commit().map_err(fail)?;
    state.insert("zz", (NEW.0, NEW.1.to_vec()));
    find(pool, &[state], 0, 0)?;
    let report = pool.check(|_| ()).map_err(fail)?;
    if report.is_intact() {
        Ok(())
    } else {
        Err(format!("{report:?}"))
    }
}

/// Runs `look` with one superblock copy made unreadable.
pub(crate) fn without_copy<T>(medium: &impl MediumAccess, slot: usize, look: impl FnOnce() -> T) -> T {
    let checksum = slot as u64 * SLOT_SIZE + 120;
    let before = medium.load_u64(checksum);
    medium.store_u64(checksum, !before);
    let result = look();
    medium.store_u64(checksum, before);
    result
}
