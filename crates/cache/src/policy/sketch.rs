//! A count-min sketch of 4-bit counters with aging: all counters are halved after ten times as many uses as
//! there are items (Einziger, Friedman and Manes, "TinyLFU", ACM TOS 13(4), 2017, sections 3.2 and 3.3).

use super::bytes_of;
use crate::hash_index::{mix, scale};

const ROWS: u64 = 4;

#[derive(Debug)]
pub(super) struct FrequencySketch {
    /// Sixteen counters per word, shared by all rows.
    words: Vec<u64>,
    counted: u64,
    period: u64,
}

impl FrequencySketch {
    /// Creates a sketch with eight counters per item.
    pub(super) fn new(items: u32) -> Self {
        Self {
            words: vec![0; (items as usize).div_ceil(2).max(8)],
            counted: 0,
            period: u64::from(items).max(1) * 10,
        }
    }

    /// Returns the word and shift of a key's counter in a row.
    fn place(&self, key: u64, row: u64) -> (usize, u64) {
        let hash = mix(key ^ row.wrapping_mul(0xd1b5_4a32_d192_ed03));
        (scale(hash, self.words.len()), (hash & 15) * 4)
    }

    /// Returns an estimate of the recent uses of `key`: never too low, and at most 15.
    pub(super) fn estimate(&self, key: u64) -> u64 {
        let count = |row| {
            let (word, shift) = self.place(key, row);
            self.words[word] >> shift & 15
        };
        (0..ROWS).map(count).min().unwrap_or(0)
    }

    /// Counts a use. Only the lowest counters are incremented, as the others are too high already.
    pub(super) fn count(&mut self, key: u64) {
        let least = self.estimate(key);
        if least < 15 {
            for row in 0..ROWS {
                let (word, shift) = self.place(key, row);
                if self.words[word] >> shift & 15 == least {
                    self.words[word] += 1 << shift;
                }
            }
        }
        self.counted += 1;
        if self.counted == self.period {
            self.counted /= 2;
            for word in &mut self.words {
                *word = *word >> 1 & 0x7777_7777_7777_7777;
            }
        }
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        bytes_of(&self.words)
    }
}
