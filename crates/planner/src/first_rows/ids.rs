//! Numbers of groups by a 64-bit word, within a limit of memory.

use datafusion::execution::memory_pool::MemoryReservation;
use hashbrown::HashTable;

/// Buckets of the first table.
const FIRST_BUCKETS: usize = 1 << 10;

/// Memory for groups. Once some was refused, it gives no more.
#[derive(Debug)]
pub(super) struct GroupMemory {
    reservation: MemoryReservation,
    most: usize,
    exhausted: bool,
}

impl GroupMemory {
    /// Allows `most` bytes, as far as the memory pool has them.
    pub(super) fn new(reservation: MemoryReservation, most: usize) -> Self {
        Self {
            reservation,
            most,
            exhausted: false,
        }
    }

    /// Reserves bytes; false if that is too much.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let fits = self.reservation.size().saturating_add(bytes) <= self.most;
        self.exhausted |= !fits || self.reservation.try_grow(bytes).is_err();
        !self.exhausted
    }

    /// Returns bytes that are no longer in use.
    fn give_back(&self, bytes: usize) {
        self.reservation.shrink(bytes.min(self.reservation.size()));
    }

    /// Returns true once memory was refused.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }
}

/// Numbers of groups, in the order of their first rows. A word is the key of a group, or a hash of it.
#[derive(Debug)]
pub(super) struct GroupIds {
    table: HashTable<(u64, u32)>,
    buckets: usize,
    groups: u32,
    /// Bytes of DRAM for each group, besides those of the table.
    group_bytes: usize,
}

impl GroupIds {
    /// Begins with no group, each of which will take `group_bytes` bytes elsewhere.
    pub(super) fn new(group_bytes: usize) -> Self {
        Self {
            table: HashTable::new(),
            buckets: 0,
            groups: 0,
            group_bytes,
        }
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups as usize
    }

    /// Returns the number of groups that memory is reserved for.
    pub(super) fn capacity(&self) -> usize {
        capacity(self.buckets)
    }

    /// Returns the group with a word of which `is_same` is true.
    #[inline]
    pub(super) fn find(&self, word: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self
            .table
            .find(mix(word), |(other, group)| *other == word && is_same(*group));
        found.map(|(_, group)| *group)
    }

    /// Adds a group; `None` if there is no memory for it.
    pub(super) fn add(&mut self, word: u64, memory: &mut GroupMemory) -> Option<u32> {
        let group = self.add_without_word(memory)?;
        self.table.insert_unique(mix(word), (word, group), hash_of);
        Some(group)
    }

    /// Adds a group that cannot be found by a word; `None` if there is no memory for it.
    pub(super) fn add_without_word(&mut self, memory: &mut GroupMemory) -> Option<u32> {
        if self.len() == self.capacity() && !self.grow(memory) {
            return None;
        }
        let group = self.groups;
        self.groups += 1;
        Some(group)
    }

    /// Doubles the room for groups; false if there is no memory for it.
    fn grow(&mut self, memory: &mut GroupMemory) -> bool {
        let buckets = (self.buckets * 2).max(FIRST_BUCKETS);
        // The old table is needed while the new one is filled.
        if capacity(buckets) >= u32::MAX as usize
            || memory.is_exhausted()
            || !memory.take(self.bytes(buckets))
        {
            return false;
        }
        self.table.reserve(capacity(buckets) - self.table.len(), hash_of);
        memory.give_back(self.bytes(self.buckets));
        self.buckets = buckets;
        true
    }

    fn bytes(&self, buckets: usize) -> usize {
        // Each bucket has a byte of control.
        buckets * (size_of::<(u64, u32)>() + 1) + capacity(buckets) * self.group_bytes
    }
}

/// Returns the number of entries of a hash table, of which an eighth stays free.
fn capacity(buckets: usize) -> usize {
    buckets / 8 * 7
}

fn hash_of(entry: &(u64, u32)) -> u64 {
    mix(entry.0)
}

/// Returns a hash of a word: both halves of its product with a constant.
#[inline]
pub(super) fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x2d35_8dcc_aa6c_78a5) * 0x8bb8_4b93_962e_acc9;
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::Arc;

    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    /// Creates the group memory of a memory pool of `bytes` bytes.
    pub(in crate::first_rows) fn memory(bytes: usize) -> GroupMemory {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        GroupMemory::new(MemoryConsumer::new("test").register(&pool), bytes)
    }

    #[test]
    fn words_keep_their_groups_while_the_table_grows() {
        let mut memory = memory(64 << 20);
        let mut ids = GroupIds::new(8);
        for word in 0..20_000u64 {
            assert_eq!(ids.find(word << 40, |_| true), None);
            assert_eq!(ids.add(word << 40, &mut memory), Some(word as u32));
        }
        for word in 0..20_000u64 {
            assert_eq!(ids.find(word << 40, |_| true), Some(word as u32));
            assert_eq!(ids.find(word << 40, |_| false), None);
        }
        assert!(ids.len() == 20_000 && ids.capacity() >= 20_000);
        assert_eq!(memory.reservation.size(), ids.bytes(ids.buckets));
    }

    #[test]
    fn no_group_is_added_without_memory() {
        let mut memory = memory(100_000);
        let mut ids = GroupIds::new(16);
        let added = (0..10_000)
            .filter(|word| ids.add(*word, &mut memory).is_some())
            .count();
        assert!(added == ids.capacity() && added < 10_000 && memory.is_exhausted());
        assert!(memory.reservation.size() <= 100_000);
        assert_eq!(ids.find(0, |_| true), Some(0));
    }
}
