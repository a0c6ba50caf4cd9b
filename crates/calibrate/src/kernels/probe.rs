//! Hash probes: [`ProbeTable`].

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_media::{Medium, Words};

use super::chain::floor_power;

/// Bytes of a slot: a 4-byte key plus one (0 where the slot is empty) and a 4-byte payload.
const SLOT: u64 = 8;
const CHUNK_SLOTS: u64 = 8192;
/// Keys whose slots are prefetched before the first of them is read.
const BATCH: usize = 32;
/// Rows of columns that are probed at once.
const COLUMN_BATCH: u64 = 1024;
/// Odd, so that multiplication modulo a power of two is a bijection.
const SCRAMBLE: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash table on a medium, half full, whose hash function maps different keys to different slots: a probe
/// reads one slot and so moves one unit of the medium, as the models of join costs assume.
#[derive(Debug)]
pub struct ProbeTable<'a> {
    medium: &'a Medium,
    slots: u64,
}

impl<'a> ProbeTable<'a> {
    /// Overwrites the first `bytes` of the medium, rounded down to a power of two of at least 16 and at most
    /// 32 GiB, with a table of the keys below [`keys`](Self::keys).
    ///
    /// # Panics
    /// If the medium is shorter than that.
    pub fn build(medium: &'a Medium, bytes: u64) -> ProbeTable<'a> {
        ProbeTable::build_unless(medium, bytes, &AtomicBool::new(false))
    }

    /// Does the same, or a part of it if `cancelled` is set meanwhile.
    pub(crate) fn build_unless(medium: &'a Medium, bytes: u64, cancelled: &AtomicBool) -> ProbeTable<'a> {
        let slots = floor_power(bytes / SLOT).clamp(2, 1 << 32);
        let unscramble = inverse(SCRAMBLE);
        let mut chunk = Vec::with_capacity((CHUNK_SLOTS * SLOT) as usize);
        for first in (0..slots).step_by(CHUNK_SLOTS as usize) {
            if cancelled.load(Ordering::Relaxed) {
                break;
            }
            chunk.clear();
            for slot in first..(first + CHUNK_SLOTS).min(slots) {
                let key = slot.wrapping_mul(unscramble) % slots;
                let entry = if key < slots / 2 {
                    (payload(key) << 32) | (key + 1)
                } else {
                    0
                };
                chunk.extend(entry.to_le_bytes());
            }
            medium.store(first * SLOT, &chunk);
        }
        ProbeTable { medium, slots }
    }

    /// Returns the number of keys in the table; all lower numbers are keys.
    pub fn keys(&self) -> u64 {
        self.slots / 2
    }

    /// Returns the bytes of the table.
    pub fn bytes(&self) -> u64 {
        self.slots * SLOT
    }

    /// Probes for `keys`, whose reads overlap. Returns the number of matches and the wrapping sum of their
    /// payloads.
    pub fn probe(&self, keys: &[u32]) -> (u64, u64) {
        let words = self.medium.words(0, self.slots as usize);
        let (mut matches, mut sum) = (0, 0_u64);
        let mut slots = [0; BATCH];
        for keys in keys.chunks(BATCH) {
            for (slot, key) in slots.iter_mut().zip(keys) {
                *slot = self.slot(u64::from(*key));
                match words {
                    Some(words) => words.prefetch(*slot as usize),
                    None => self.medium.prefetch(*slot * SLOT),
                }
            }
            for (slot, key) in slots.iter().zip(keys) {
                let entry = self.entry(words, *slot);
                let found = entry & 0xFFFF_FFFF == u64::from(*key) + 1;
                matches += u64::from(found);
                sum = sum.wrapping_add((entry >> 32) & u64::from(found).wrapping_neg());
            }
        }
        (matches, sum)
    }

    /// Probes for `rows` keys of a column, 4 bytes each, at the offset `keys` of the same medium, and reads a
    /// column of payloads at `payloads` with them. Returns the number of matches and the wrapping sum of all
    /// payloads that were read: those of the matches, and those of the column.
    ///
    /// # Panics
    /// If the columns are not on the medium.
    pub fn probe_columns(&self, keys: u64, payloads: u64, rows: u64) -> (u64, u64) {
        let (mut matches, mut sum) = (0, 0_u64);
        let column = for_batches(self.medium, keys, payloads, rows, |keys| {
            let (more, found) = self.probe(keys);
            matches += more;
            sum = sum.wrapping_add(found);
        });
        (matches, sum.wrapping_add(column))
    }

    /// Probes `count` times for keys of the table, each of which depends on the payload found before,
    /// starting from `state`. Returns the state to continue from.
    pub fn probe_dependent(&self, state: u64, count: u64) -> u64 {
        let words = self.medium.words(0, self.slots as usize);
        let mut state = state;
        for _ in 0..count {
            let key = (state >> 31) & (self.keys() - 1);
            let entry = self.entry(words, self.slot(key));
            state = (state ^ entry).wrapping_mul(SCRAMBLE).wrapping_add(1);
        }
        black_box(state)
    }

    #[inline(always)]
    fn slot(&self, key: u64) -> u64 {
        key.wrapping_mul(SCRAMBLE) & (self.slots - 1)
    }

    #[inline(always)]
    fn entry(&self, words: Option<Words<'_>>, slot: u64) -> u64 {
        match words {
            Some(words) => words.load(slot as usize),
            None => self.medium.load_u64(slot * SLOT),
        }
    }
}

/// Reads what [`ProbeTable::probe_columns`] reads of its columns, in the same way, without a probe. Returns
/// the wrapping sums of the keys and of the payloads.
///
/// # Panics
/// If the columns are not on the medium.
pub fn read_columns(medium: &Medium, keys: u64, payloads: u64, rows: u64) -> (u64, u64) {
    let mut sum = 0_u64;
    let column = for_batches(medium, keys, payloads, rows, |keys| {
        let keys = keys.iter().map(|key| u64::from(*key));
        sum = sum.wrapping_add(keys.sum::<u64>());
    });
    (sum, column)
}

/// Calls `each` with the keys of each batch of rows. Returns the wrapping sum of the payloads.
#[inline(always)]
fn for_batches(medium: &Medium, keys: u64, payloads: u64, rows: u64, mut each: impl FnMut(&[u32])) -> u64 {
    let mut bytes = [0; 4 * COLUMN_BATCH as usize];
    let mut batch = [0; COLUMN_BATCH as usize];
    let mut sum = 0_u64;
    for first in (0..rows).step_by(COLUMN_BATCH as usize) {
        let count = COLUMN_BATCH.min(rows - first) as usize;
        let (bytes, batch) = (&mut bytes[..4 * count], &mut batch[..count]);
        medium.load(keys + 4 * first, bytes);
        for (key, bytes) in batch.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *key = u32::from_le_bytes(*bytes);
        }
        each(batch);
        medium.load(payloads + 4 * first, bytes);
        let values = bytes.as_chunks::<4>().0.iter();
        let column: u64 = values.map(|bytes| u64::from(u32::from_le_bytes(*bytes))).sum();
        sum = sum.wrapping_add(column);
    }
    sum
}

/// Returns the payload of a key, of 32 bits.
fn payload(key: u64) -> u64 {
    (key ^ 0x5A5A_5A5A).wrapping_mul(0x2545_F491) & 0xFFFF_FFFF
}

/// Returns the inverse of an odd number modulo a power of two up to 2^64, by Newton's iteration.
fn inverse(odd: u64) -> u64 {
    // Correct to three bits at first, to twice as many after each step.
    (0..5).fold(odd, |inverse, _| {
        inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)))
    })
}

#[cfg(test)]
mod tests {
    use halocline_media::{Counting, Dram};

    use super::*;

    #[test]
    fn every_key_is_found_and_no_other() {
        for bytes in [1, 16, 1000, 1 << 16, 1 << 20] {
            let direct = Medium::from(Dram::new(bytes.max(64)).unwrap());
            let charged = Medium::from(Counting::new(Dram::new(bytes.max(64)).unwrap()));
            for medium in [&direct, &charged] {
                let table = ProbeTable::build(medium, bytes);
                assert!(table.bytes().is_power_of_two() && table.bytes() <= bytes.max(16));
                let keys: Vec<u32> = (0..2 * table.keys() as u32 + 5).collect();
                let sum = (0..table.keys()).map(payload).sum::<u64>();
                assert_eq!(table.probe(&keys), (table.keys(), sum), "{bytes}");
                assert_eq!(table.probe(&[]), (0, 0));
                assert_eq!(table.probe(&[u32::MAX]).0, 0);
            }
        }
    }

    #[test]
    fn columns_are_probed_as_their_keys_are() {
        for rows in [0, 1, 1023, 1024, 2500_u32] {
            let direct = Medium::from(Dram::new(1 << 17).unwrap());
            let charged = Medium::from(Counting::new(Dram::new(1 << 17).unwrap()));
            for medium in [&direct, &charged] {
                let table = ProbeTable::build(medium, 1 << 12);
                let keys: Vec<u32> = (0..rows).map(|row| row * 7 % 512).collect();
                let (keys_at, payloads_at) = (1 << 13, 1 << 15);
                for (row, key) in keys.iter().enumerate() {
                    medium.store(keys_at + 4 * row as u64, &key.to_le_bytes());
                    medium.store(payloads_at + 4 * row as u64, &(row as u32).to_le_bytes());
                }
                let (matches, sum) = table.probe(&keys);
                let column = (0..u64::from(rows)).sum::<u64>();
                let found = table.probe_columns(keys_at, payloads_at, rows.into());
                assert_eq!(found, (matches, sum + column), "{rows}");
                let keys = keys.iter().map(|key| u64::from(*key)).sum();
                let read = read_columns(medium, keys_at, payloads_at, rows.into());
                assert_eq!(read, (keys, column), "{rows}");
            }
        }
    }

    #[test]
    fn dependent_probes_spread_over_the_table() {
        let medium = Medium::from(Dram::new(1 << 16).unwrap());
        let table = ProbeTable::build(&medium, 1 << 16);
        let (mut state, mut seen) = (1, std::collections::BTreeSet::new());
        for _ in 0..20_000 {
            seen.insert((state >> 31) % table.keys());
            state = table.probe_dependent(state, 1);
        }
        assert!(seen.len() > 3500, "{} of {}", seen.len(), table.keys());
    }
}
