//! Small pools whose objects are known: what a workload does, and what must be found after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_media::Medium;

use crate::layout::{DATA_START, SLOT_SIZE};
use crate::pool::Geometry;
use crate::{ExtentRef, ObjectKind, Pool, PoolError, Txn};

/// Pools that start with four blocks and grow by four.
pub(crate) const SMALL: Geometry = Geometry {
    initial_len: DATA_START + (16 << 10),
    growth: 16 << 10,
    worth: 8 << 10,
};

/// The boot of all tests, and the one after it.
pub(crate) const BOOT: [u8; 16] = [1; 16];
pub(crate) const NEXT_BOOT: [u8; 16] = [2; 16];

/// Objects by name: the lengths of their extents; what is in them follows from the seed.
pub(crate) type State = BTreeMap<&'static str, (u8, Vec<usize>)>;

/// One thing to do. Each but `Sync`, `Rollback`, `Pin` and `Unpin` publishes a generation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Put(&'static str, u8, &'static [usize]),
    Remove(&'static str),
    /// An extent that is neither finished nor published.
    Rollback(usize),
    Sync,
    /// Takes a snapshot and keeps it.
    Pin,
    Unpin,
}

/// The states after each step, the empty one first.
pub(crate) fn states(steps: &[Step]) -> Vec<State> {
    let mut states = vec![State::new()];
    for step in steps {
        let mut state = states.last().cloned().unwrap_or_default();
        match *step {
            Step::Put(name, seed, lens) => drop(state.insert(name, (seed, lens.to_vec()))),
            Step::Remove(name) => drop(state.remove(name)),
            Step::Rollback(_) | Step::Sync | Step::Pin | Step::Unpin => {}
        }
        states.push(state);
    }
    states
}

/// Does the steps, telling `begun` and `done` about each.
pub(crate) fn run<M: Medium>(pool: &Pool<M>, steps: &[Step], begun: impl Fn(u64), done: impl Fn(u64)) {
    let mut pinned = None;
    for (number, step) in steps.iter().enumerate() {
        begun(number as u64);
        match *step {
            Step::Put(name, seed, lens) => {
                let txn = pool.begin().unwrap();
                let extents = lens
                    .iter()
                    .enumerate()
                    .map(|(index, len)| write(&txn, &contents(seed, index, *len)));
                txn.put(name, ObjectKind::TABLE, &[seed; 20], extents.collect())
                    .unwrap();
                txn.commit().unwrap();
            }
            Step::Remove(name) => {
                let txn = pool.begin().unwrap();
                txn.remove(name).unwrap();
                txn.commit().unwrap();
            }
            Step::Rollback(len) => {
                let txn = pool.begin().unwrap();
                txn.alloc(len as u64)
                    .unwrap()
                    .write_at(0, &contents(0xEE, 0, len));
            }
            Step::Sync => pool.sync().unwrap(),
            Step::Pin => pinned = Some((pool.snapshot().unwrap(), read(pool).unwrap())),
            Step::Unpin => pinned = None,
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

pub(crate) fn write<M: Medium>(txn: &Txn<M>, bytes: &[u8]) -> ExtentRef {
    let mut writer = txn.alloc(bytes.len() as u64).unwrap();
    writer.append(bytes);
    writer.finish(bytes.len() as u64).unwrap()
}

pub(crate) fn contents(seed: u8, index: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| seed.wrapping_mul(31) ^ (at as u8) ^ ((at >> 8) as u8) ^ (index as u8).wrapping_mul(77))
        .collect()
}

/// Reads the newest state whole and verifies every byte.
pub(crate) fn read<M: Medium>(pool: &Pool<M>) -> Result<BTreeMap<String, (u8, Vec<usize>)>, String> {
    read_snapshot(&pool.snapshot().map_err(|error| error.to_string())?)
}

pub(crate) fn read_snapshot(
    snapshot: &crate::Snapshot,
) -> Result<BTreeMap<String, (u8, Vec<usize>)>, String> {
    let mut found = BTreeMap::new();
    for object in snapshot.objects() {
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

/// Which of the states from `first` to `last` the pool holds.
pub(crate) fn find<M: Medium>(
    pool: &Pool<M>,
    states: &[State],
    first: usize,
    last: usize,
) -> Result<usize, String> {
    let found = read(pool)?;
    let same = |state: &State| {
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

/// After a crash all goes on: space is found again, a publish succeeds, and nothing else is harmed.
pub(crate) fn goes_on<M: Medium>(pool: &Pool<M>, states: &[State], at: usize) -> Result<(), String> {
    const NEW: (u8, [usize; 2]) = (0x77, [100, 5000]);
    let fail = |error: PoolError| error.to_string();
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
    let mut state = states[at].clone();
    state.insert("zz", (NEW.0, NEW.1.to_vec()));
    find(pool, &[state], 0, 0)?;
    let report = pool.check(|_| ()).map_err(fail)?;
    if report.is_intact() {
        Ok(())
    } else {
        Err(format!("{report:?}"))
    }
}

/// Makes one superblock copy useless while `look` runs.
pub(crate) fn without_copy<M: Medium, T>(medium: &Arc<M>, slot: usize, look: impl FnOnce() -> T) -> T {
    let checksum = slot as u64 * SLOT_SIZE + 120;
    let before = medium.load_u64(checksum);
    medium.store_u64(checksum, !before);
    let result = look();
    medium.store_u64(checksum, before);
    result
}
