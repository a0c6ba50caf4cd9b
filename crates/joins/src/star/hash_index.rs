//! A hash index from numbers of groups to records (linear probing).
//!
//! An entry holds 32 bits of the hash and the position of a record, so that other groups are seldom looked
//! at. The first bits of the hash choose the partition of a parallel merge, the next ones the entry.

/// Bits of the hash that choose a partition.
pub(super) const PARTITION_BITS: u32 = 6;

/// Number of partitions.
pub(super) const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Least number of entries of an index: those of a new one.
const MIN_ENTRIES: usize = 1 << 10;

/// An index; at most half of its entries are in use.
#[derive(Debug, Clone)]
pub(super) struct HashIndex {
    /// Position of a record plus one in the lower half, 0 for a free entry.
    entries: Vec<u64>,
    records: usize,
}

/// Returns the hash of a number; all of its bits depend on all bits of the number.
#[inline(always)]
pub(super) fn hash(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Returns the partition of a hash.
#[inline(always)]
pub(super) fn partition_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTITION_BITS)) as usize
}

impl HashIndex {
    /// Creates an index with room for this number of records.
    pub(super) fn with_room(records: usize) -> HashIndex {
        HashIndex {
            entries: vec![0; HashIndex::entries_for(records)],
            records: 0,
        }
    }

    /// Returns the number of entries that an index of this number of records needs.
    fn entries_for(records: usize) -> usize {
        (records * 2).next_power_of_two().max(MIN_ENTRIES)
    }

    /// Returns the number of bytes that an index of this number of records takes.
    pub(super) fn bytes_for(records: usize) -> usize {
        HashIndex::entries_for(records) * size_of::<u64>()
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.records
    }

    /// Returns true if `more` further records have room.
    pub(super) fn has_room(&self, more: usize) -> bool {
        (self.records + more) * 2 <= self.entries.len()
    }

    /// Makes room for `more` further records. `number` returns the number of the group of a record.
    pub(super) fn grow(&mut self, more: usize, number: impl Fn(usize) -> u64) {
        let mut grown = HashIndex::with_room((self.records + more).max(self.records * 2));
        for record in 0..self.records {
            // All records are of different groups, so none has to be compared.
            grown.find_or_add(hash(number(record)), |_| false);
        }
        *self = grown;
    }

    /// Returns the position of the record of a group and false, or the position that its record gets and
    /// true. `is_same` says whether a record is that of the group.
    ///
    /// Does not end if the index is full.
    #[inline(always)]
    pub(super) fn find_or_add(&mut self, hash: u64, is_same: impl Fn(usize) -> bool) -> (usize, bool) {
        let mask = self.entries.len() - 1;
        let tag = hash << 32;
        let mut at = (hash << PARTITION_BITS >> 32) as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry as u32 == 0 {
                let record = self.records;
                self.entries[at] = tag | (record as u64 + 1);
                self.records += 1;
                return (record, true);
            }
            // Groups may share these 32 bits, so the record decides.
            if entry & !u64::from(u32::MAX) == tag {
                let record = (entry as u32 - 1) as usize;
                if is_same(record) {
                    return (record, false);
                }
            }
            at = (at + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn records_are_found_again_when_the_index_grows() {
        let mut index = HashIndex::with_room(0);
        let (mut numbers, mut model) = (Vec::new(), HashMap::new());
        for step in 0..50_000_u64 {
            // Near, far and equal numbers.
            let number = match step % 3 {
                0 => step / 7,
                1 => (step % 999) << 40,
                _ => step.wrapping_mul(0x1234_5678_9ABC_DEF1),
            };
            if !index.has_room(1) {
                index.grow(1, |record| numbers[record]);
            }
            let (record, is_new) = index.find_or_add(hash(number), |record| numbers[record] == number);
            if is_new {
                numbers.push(number);
            }
            assert_eq!(model.get(&number).copied(), (!is_new).then_some(record));
            model.insert(number, record);
        }
        assert_eq!((index.len(), numbers.len()), (model.len(), model.len()));
    }
}
