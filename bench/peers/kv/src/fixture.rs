//! Records of the experiments.

use anyhow::{Result, ensure};
use halocline_workloads::{ycsb_key, ycsb_value};

use crate::systems::{KvStore, Pair};

/// Records of each commit while loading.
const LOAD_COMMIT: u64 = 1000;

/// Returns a record's key and the value of a version; 0 is the version that [`load`] writes.
pub(crate) fn pair(record: u64, version: u64, bytes: usize) -> Pair {
    let mut value = vec![0; bytes];
    ycsb_value(record, version, &mut value);
    (ycsb_key(record).into_bytes(), value)
}

/// Writes the records `0..records`.
pub(crate) fn load(store: &dyn KvStore, records: u64, bytes: usize) -> Result<()> {
    for first in (0..records).step_by(LOAD_COMMIT as usize) {
        let numbers = first..records.min(first + LOAD_COMMIT);
        store.write(&numbers.map(|record| pair(record, 0, bytes)).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Counts all keys.
pub(crate) fn count(store: &dyn KvStore) -> Result<u64> {
    store.scan(b"", usize::MAX)
}

/// Returns the bytes of the keys and values of the records `0..records`.
pub(crate) fn live_bytes(records: u64, bytes: usize) -> u64 {
    (0..records)
        .map(|record| (ycsb_key(record).len() + bytes) as u64)
        .sum()
}

/// Fails unless all systems found the same.
pub(crate) fn ensure_equal<T: PartialEq + std::fmt::Debug>(of: &str, found: &[(&str, T)]) -> Result<()> {
    for other in found {
        ensure!(
            other.1 == found[0].1,
            "{of} differ: {} has {:?}, {} has {:?}",
            found[0].0,
            found[0].1,
            other.0,
            other.1
        );
    }
    Ok(())
}
