//! How much of a table and of its indexes is in memory: samples that are kept for a moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use halocline_columns::{Table, column_residency};
use halocline_costs::access::reads::ColumnShare;
use halocline_elf::TableIndex;

use super::PoolMemory;

/// Time after which a sample is taken again. A device reads some hundred MiB meanwhile at most.
const SAMPLE_LIFETIME: Duration = Duration::from_millis(100);

/// Size in bytes below which something counts as being in memory: to read it costs little.
const ASSUMED_RESIDENT_BYTES: u64 = 256 << 10;

/// A sample, and the moment at which it was taken; `None` if it stays as it is.
type Kept<T> = (Option<Instant>, T);

/// How much of a table and of its indexes is in memory. Shared by versions with the same segments.
#[derive(Debug, Default)]
pub struct TableResidency {
    columns: Mutex<BTreeMap<usize, Kept<ColumnShare>>>,
    indexes: Mutex<BTreeMap<usize, Kept<f64>>>,
    calls: AtomicU64,
}

impl TableResidency {
    /// Returns the part of a column that is in memory, by a sample of some dozens of pages at most every 100
    /// ms. Everything is in memory where there is no page cache.
    pub fn column(&self, memory: &PoolMemory, table: &Table, column: usize) -> ColumnShare {
        kept(&self.columns, column, || {
            let segments = table.segments();
            let bytes: u64 = segments.iter().map(|s| s.column(column).stored_bytes()).sum();
            if memory.device().is_none() || bytes < ASSUMED_RESIDENT_BYTES {
                return ColumnShare::WHOLE;
            }
            let sample = column_residency(segments, column);
            self.calls
                .fetch_add(sample.pages.sampled.into(), Ordering::Relaxed);
            ColumnShare {
                resident: sample.pages.share(),
                verified: sample.verified,
            }
        })
    }

    /// Returns the share of an index, the one at position `number` of the table's, that is in memory; in the
    /// slow tier, the share of which there are copies.
    pub fn index(&self, memory: &PoolMemory, number: usize, index: &TableIndex) -> f64 {
        kept(&self.indexes, number, || {
            let copied = index.copied_share();
            let pages = match memory {
                PoolMemory::Dram => 1.0,
                PoolMemory::SlowTier(_) => 0.0,
                PoolMemory::File(_) if index.stored_bytes() < ASSUMED_RESIDENT_BYTES => 1.0,
                PoolMemory::File(_) => {
                    let pages = index.residency();
                    self.calls.fetch_add(pages.sampled.into(), Ordering::Relaxed);
                    pages.share()
                }
            };
            copied + (1.0 - copied) * pages
        })
    }

    /// Returns the number of system calls that all samples took.
    #[cfg(any(test, feature = "faults"))]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Sets the share of a column that is in memory for good.
    #[cfg(any(test, feature = "faults"))]
    pub fn set_column(&self, column: usize, share: ColumnShare) {
        self.columns.lock().unwrap().insert(column, (None, share));
    }

    /// Sets the share of an index that is in memory for good.
    #[cfg(any(test, feature = "faults"))]
    pub fn set_index(&self, number: usize, share: f64) {
        self.indexes.lock().unwrap().insert(number, (None, share));
    }
}

/// Returns what is kept for a key, sampled anew if it is too old.
fn kept<T: Copy>(known: &Mutex<BTreeMap<usize, Kept<T>>>, key: usize, sample: impl FnOnce() -> T) -> T {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((taken, share)) = known.get(&key)
        && taken.is_none_or(|taken| taken.elapsed() < SAMPLE_LIFETIME)
    {
        return *share;
    }
    let share = sample();
    known.insert(key, (Some(Instant::now()), share));
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_kept_for_a_moment() {
        let known = Mutex::default();
        let samples = std::cell::Cell::new(0);
        let sample = || {
            samples.set(samples.get() + 1);
            samples.get()
        };
        assert_eq!(kept(&known, 3, sample), 1);
        assert_eq!(kept(&known, 4, sample), 2);
        assert_eq!(kept(&known, 3, || 9), 1);
        // One of them was taken long ago.
        let old = Instant::now().checked_sub(2 * SAMPLE_LIFETIME);
        known.lock().unwrap().insert(3, (old, 1));
        assert_eq!(kept(&known, 3, sample), if old.is_some() { 3 } else { 1 });
        known.lock().unwrap().insert(5, (None, 7));
        assert_eq!(kept(&known, 5, sample), 7);
    }
}
