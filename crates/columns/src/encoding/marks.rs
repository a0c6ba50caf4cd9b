//! The rows that begin a run, as a bit for each row of a block: how what is known of runs becomes known of rows, and back.

use crate::format::BLOCK;
use crate::kernel;
use crate::select::BlockMask;

/// Marks of the runs of a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    bits: BlockMask,
    /// Runs that begin before each word.
    before: [u16; BLOCK / 64],
}

impl Marks {
    /// Of runs of these lengths (less one). What lies behind the block's last row is left out.
    pub(crate) fn set(&mut self, lengths: &[u8]) {
        self.bits = [0; BLOCK / 64];
        // The word at hand stays in a register: runs are short, and a word that is read right after it was written is slow.
        let (mut at, mut number, mut word) = (0, 0, 0);
        for &length in lengths {
            if at / 64 != number {
                if at >= BLOCK {
                    break;
                }
                self.bits[number] = word;
                (number, word) = (at / 64, 0);
            }
            word |= 1 << (at % 64);
            at += usize::from(length) + 1;
        }
        self.bits[number] = word;
        let mut before = 0;
        for (of_word, bits) in self.before.iter_mut().zip(self.bits) {
            *of_word = before;
            before += bits.count_ones() as u16;
        }
    }

    /// The number of the run that a row is in.
    ///
    /// # Panics
    /// If the row is outside of the block.
    #[inline]
    pub(crate) fn run_of(&self, row: u16) -> usize {
        let (word, bit) = (usize::from(row) / 64, row % 64);
        let to_row = self.bits[word] << (63 - bit);
        (usize::from(self.before[word]) + to_row.count_ones() as usize).saturating_sub(1)
    }

    /// The rows of the runs whose bits are set.
    pub(crate) fn rows_of(&self, runs: &BlockMask) -> BlockMask {
        kernel::spread_bits(&self.bits, runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halocline_workloads::SplitMix64;

    #[test]
    fn runs_and_rows() {
        for seed in 0..200 {
            let mut rng = SplitMix64::new(seed);
            let most = 1 + rng.below(256) as u8 / (1 + seed % 60) as u8;
            let (mut lengths, mut run_of) = (Vec::new(), Vec::new());
            while run_of.len() < BLOCK {
                let length = rng.below(u64::from(most)) as u8;
                run_of.extend(std::iter::repeat_n(lengths.len(), usize::from(length) + 1));
                lengths.push(length);
            }
            // A run may end behind the block, and others lie there: damage.
            lengths.extend([1, 2, 3]);
            let mut marks = Marks::default();
            marks.set(&lengths);
            let kept: BlockMask = std::array::from_fn(|_| rng.next_u64() & rng.next_u64());
            let rows = marks.rows_of(&kept);
            for row in 0..BLOCK {
                assert_eq!(marks.run_of(row as u16), run_of[row], "seed {seed}, row {row}");
                let expected = kept[run_of[row] / 64] >> (run_of[row] % 64) & 1;
                assert_eq!(
                    rows[row / 64] >> (row % 64) & 1,
                    expected,
                    "seed {seed}, row {row}"
                );
            }
        }
    }

    #[test]
    fn no_runs() {
        let mut marks = Marks::default();
        marks.set(&[]);
        assert_eq!(marks.run_of(1023), 0);
        assert_eq!(marks.rows_of(&[u64::MAX; BLOCK / 64]), [0; BLOCK / 64]);
    }
}
