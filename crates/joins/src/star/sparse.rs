//! Keys of a dimension in a hash table (linear probing), with a number each: that of their group, or of their
//! row.

use crate::{JoinError, JoinResult};

/// The number of a free slot.
const FREE: u32 = u32::MAX;

/// A hash table of keys and numbers; [`FREE`] marks free slots.
#[derive(Debug, Clone)]
pub(super) struct HashedKeys {
    table: Vec<(i64, u32)>,
    shift: u32,
}

impl HashedKeys {
    /// Builds a table for at most `most` keys, and returns the number of distinct keys with it.
    pub(super) fn build(
        rows: impl Iterator<Item = (i64, u32)>,
        most: usize,
        exists: bool,
    ) -> JoinResult<(HashedKeys, usize)> {
        let mut different = 0;
        // At most half of the slots are in use, so that a search always ends at a free one.
        let size = (most * 2).next_power_of_two().max(2);
        let mut sparse = HashedKeys {
            table: vec![(0, FREE); size],
            shift: u64::BITS - size.trailing_zeros(),
        };
        for (key, number) in rows {
            match sparse.find(key) {
                Ok(_) if exists => {}
                Ok(_) => return Err(JoinError::DuplicateKey { key }),
                Err(free) => {
                    sparse.table[free] = (key, number);
                    different += 1;
                }
            }
        }
        Ok((sparse, different))
    }

    /// Returns the number of a key, or the free slot for it.
    fn find(&self, key: i64) -> Result<u32, usize> {
        // The upper bits of the product depend on all bits of the key.
        let mut at = ((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            match self.table[at] {
                (_, FREE) => return Err(at),
                (other, number) if other == key => return Ok(number),
                _ => at = (at + 1) % self.table.len(),
            }
        }
    }

    /// Returns the number of a key that is in the table.
    pub(super) fn number(&self, key: i64) -> Option<u32> {
        self.find(key).ok()
    }

    /// Returns the number of bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.table)
    }
}
