//! The memory pool of queries: operators that spill get shares, the rest is for those that cannot.
//!
//! An operator of DataFusion that spills reserves what it has collected, and needs as much again while it
//! sorts and writes that: copies, and rows encoded for comparison. In its pools nothing is left for these
//! where several operators have collected their shares; the query then takes more memory than it may have, or
//! fails although it could have spilled.
//!
//! Exchanges between partitions get all that they ask for: when one of DataFusion 55 spills batches of two
//! inputs at once, its reader can wait for a file that never gets another batch, and the query does not end
//! (<https://github.com/apache/datafusion/issues/24883>). They hold few batches, which count like memory that
//! cannot be spilled.
//!
//! When one reader of an exchange waits for a core, the rows for it can take all memory. An operator that
//! spills could then not even hold one batch to write it out, so each may always have a part of its share
//! ([`MIN_SHARE_DIVISOR`]), or room for a batch ([`MIN_BATCH_BYTES`]) where there are many of them.
//!
//! A merge of sorted files reads as many of them at once as its memory allows. So that the merges of one
//! partition leave memory to those of others and to their reader, merges have equal shares of half of what
//! is not reserved otherwise.
//!
//! Invariants: what can be spilled is at most [`COLLECTED_FRACTION`] of what is not reserved otherwise, in
//! equal shares. Exchanges, and the least part of each share and merge, can exceed the whole; any other
//! reservation is refused rather than exceed it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};

/// The part of the whole that operators may collect before they spill: numerator and denominator.
const COLLECTED_FRACTION: (usize, usize) = (2, 5);
/// Bytes that a merge may have whatever the number of merges, but at most a part of the whole: one over
/// [`MERGE_DIVISOR`]. A sort reserves as many before it begins. Merges have them also when nothing is free,
/// as long as all of them together take no more than the whole.
const MIN_MERGE_BYTES: usize = 10 << 20;
const MERGE_DIVISOR: usize = 16;
/// The part of its share that an operator may have when nothing is free: one over this.
const MIN_SHARE_DIVISOR: usize = 2;
/// Bytes that it may have then in any case, for a batch and its sorted copy, but at most a part of the whole:
/// one over [`BATCH_DIVISOR`], and as much again as the shares of all operators.
const MIN_BATCH_BYTES: usize = 4 << 20;
const BATCH_DIVISOR: usize = 12;

/// A memory pool of a size that changes with a setting.
#[derive(Debug)]
pub struct QueryMemory {
    size: AtomicUsize,
    state: Mutex<QueryMemoryState>,
}

#[derive(Debug, Default)]
struct QueryMemoryState {
    /// Operators that can spill.
    spillers: usize,
    /// Bytes that they have reserved.
    spillable: usize,
    /// Bytes that others have reserved.
    fixed: usize,
    /// Merges of files.
    merges: usize,
    /// Bytes among `fixed` that they have reserved.
    merging: usize,
}

/// Returns true for the buffers of an exchange between partitions.
fn is_exchange(consumer: &MemoryConsumer) -> bool {
    let partition = consumer.name().strip_prefix("RepartitionExec[");
    partition.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns true for the merge of the files of a sort.
fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("ExternalSorterMerge[")
}

/// Returns true for an operator that spills what is refused to it.
fn spills(consumer: &MemoryConsumer) -> bool {
    consumer.can_spill() && !is_exchange(consumer)
}

impl QueryMemoryState {
    fn add(&mut self, reservation: &MemoryReservation, bytes: usize) {
        let consumer = reservation.consumer();
        if spills(consumer) {
            self.spillable += bytes
        } else {
            self.fixed += bytes
        }
        if is_merge(consumer) {
            self.merging += bytes;
        }
    }

    fn subtract(&mut self, reservation: &MemoryReservation, bytes: usize) {
        let consumer = reservation.consumer();
        let from = if spills(consumer) {
            &mut self.spillable
        } else {
            &mut self.fixed
        };
        *from = from.saturating_sub(bytes);
        if is_merge(consumer) {
            self.merging = self.merging.saturating_sub(bytes);
        }
    }
}

impl QueryMemory {
    /// Returns a pool of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self {
            size: AtomicUsize::new(size),
            state: Mutex::default(),
        }
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Changes the size. What is reserved stays so: if that is more, nothing more is given away until enough
    /// has been returned.
    pub fn set_size(&self, size: usize) {
        self.size.store(size, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, QueryMemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of bytes by which a reservation can grow.
    fn available(&self, state: &QueryMemoryState, reservation: &MemoryReservation) -> usize {
        let size = self.size();
        let free = size.saturating_sub(state.spillable + state.fixed);
        let beyond = |bytes: usize| bytes.saturating_sub(reservation.size());
        if is_merge(reservation.consumer()) {
            let half = size.saturating_sub(state.fixed.saturating_sub(state.merging)) / 2;
            let least = MIN_MERGE_BYTES.min(size / MERGE_DIVISOR);
            let share = (half / state.merges.max(1)).max(least);
            let in_any_case = least.min(size / state.merges.max(1));
            return beyond(share).min(free).max(beyond(in_any_case));
        }
        if !spills(reservation.consumer()) {
            return free;
        }
        let (part, whole) = COLLECTED_FRACTION;
        let spillers = state.spillers.max(1);
        let share = size.saturating_sub(state.fixed) / whole * part / spillers;
        let of_all = size / whole * part / spillers;
        let of_a_batch = MIN_BATCH_BYTES.min(size / BATCH_DIVISOR).min(2 * of_all);
        let least = (of_all / MIN_SHARE_DIVISOR).max(of_a_batch);
        beyond(share).min(free).max(beyond(least))
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "queries"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let mut state = self.state();
        state.spillers += usize::from(spills(consumer));
        state.merges += usize::from(is_merge(consumer));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut state = self.state();
        state.spillers = state.spillers.saturating_sub(usize::from(spills(consumer)));
        state.merges = state.merges.saturating_sub(usize::from(is_merge(consumer)));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.state().add(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.state().subtract(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut state = self.state();
        let available = self.available(&state, reservation);
        if additional > available && !is_exchange(reservation.consumer()) {
            let consumer = reservation.consumer().name();
            let text = format!(
                "{consumer} has {} and needs {} more, of which {} are left of {}",
                human_readable_size(reservation.size()),
                human_readable_size(additional),
                human_readable_size(available),
                human_readable_size(self.size()),
            );
            return Err(DataFusionError::ResourcesExhausted(text));
        }
        state.add(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        let state = self.state();
        state.spillable + state.fixed
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.size())
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name(), human_readable_size(self.size()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_can_be_spilled_leaves_room_to_spill_it() {
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(1000));
        let spiller = |name| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (first, second) = (spiller("first"), spiller("second"));
        first.try_grow(200).unwrap();
        assert!(first.try_grow(1).is_err());
        second.try_grow(200).unwrap();
        let merge = MemoryConsumer::new("merge").register(&pool);
        merge.try_grow(600).unwrap();
        let error = merge.try_grow(1).unwrap_err().to_string();
        assert!(error.contains("merge has 600"), "{error}");
        first.free();
        drop(second);
        merge.shrink(500);
        // It is alone now, and the merge has a tenth.
        first.try_grow(360).unwrap();
        assert_eq!(pool.reserved(), 460);
        drop((first, merge));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn exchanges_are_never_made_to_spill_and_leave_each_operator_a_part() {
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(1000));
        let spiller = |name| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (exchange, sort) = (spiller("RepartitionExec[12]"), spiller("sort"));
        exchange.try_grow(1100).unwrap();
        sort.try_grow(200).unwrap();
        assert!(sort.try_grow(1).is_err());
        exchange.shrink(900);
        // Two fifths of what the exchange leaves.
        sort.try_grow(120).unwrap();
        assert!(sort.try_grow(1).is_err());
        drop((exchange, sort));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_batch_fits_beside_a_full_exchange_and_many_operators() {
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(48 << 20));
        let exchange = MemoryConsumer::new("RepartitionExec[0]").register(&pool);
        exchange.try_grow(60 << 20).unwrap();
        let spiller = |_| MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        let sorts: Vec<_> = (0..8).map(spiller).collect();
        for sort in &sorts {
            sort.try_grow(4 << 20).unwrap();
            assert!(sort.try_grow(1 << 20).is_err());
        }
        let merge = MemoryConsumer::new("ExternalSorterMerge[0]").register(&pool);
        merge.try_grow(3 << 20).unwrap();
        assert!(merge.try_grow(1).is_err());
        // All merges together take at most as much as the whole.
        let merges: Vec<_> = (1..48)
            .map(|_| MemoryConsumer::new("ExternalSorterMerge[1]").register(&pool))
            .collect();
        merges[0].try_grow(1 << 20).unwrap();
        assert!(merges[0].try_grow(1).is_err());
        // Of twenty, each has the double of its share.
        let more: Vec<_> = (0..12).map(spiller).collect();
        more[0].try_grow(1 << 20).unwrap();
        assert!(more[0].try_grow(4 << 20).is_err());
    }

    #[test]
    fn what_cannot_be_spilled_may_have_all() {
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(1000));
        let join = MemoryConsumer::new("join").register(&pool);
        join.try_grow(900).unwrap();
        let spiller = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        spiller.try_grow(200).unwrap();
        assert!(spiller.try_grow(1).is_err());
    }

    #[test]
    fn merges_leave_something_to_each_other_and_to_their_reader() {
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(1600));
        let writer = MemoryConsumer::new("table writer").register(&pool);
        writer.try_grow(800).unwrap();
        let merge = |name| MemoryConsumer::new(name).register(&pool);
        let (first, second) = (merge("ExternalSorterMerge[0]"), merge("ExternalSorterMerge[1]"));
        first.try_grow(200).unwrap();
        assert!(first.try_grow(1).is_err());
        second.try_grow(200).unwrap();
        merge("SortPreservingMergeExec[0]").try_grow(400).unwrap();
        drop(first);
        second.try_grow(200).unwrap();
        drop((second, writer));
        assert_eq!(pool.reserved(), 0);
    }
}
