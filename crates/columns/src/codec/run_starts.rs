//! Conversions between the lengths of runs and a bit for each row at which one starts.

use crate::format::BLOCK;
use crate::kernel::BlockMask;

/// The most rows of a run.
pub(crate) const LONGEST_RUN: usize = 256;

/// Returns the rows at which runs of these lengths (less one) start. Runs after the last row of the block
/// are ignored.
pub(crate) fn starts_of(lengths: &[u8]) -> BlockMask {
    let mut starts = [0; BLOCK / 64];
    // The word at hand stays in a register: runs are short, and a word that is read right after it was
    // written is slow.
    let (mut at, mut number, mut word) = (0, 0, 0);
    for &length in lengths {
        if at / 64 != number {
            if at >= BLOCK {
                break;
            }
            starts[number] = word;
            (number, word) = (at / 64, 0);
        }
        word |= 1 << (at % 64);
        at += usize::from(length) + 1;
    }
    starts[number] = word;
    starts
}

/// Returns the lengths (less one) of the runs that start at these rows, of which the last ends with the
/// block. Runs of more than 256 rows, which only damage makes, are cut off.
pub(crate) fn lengths_of(starts: &BlockMask) -> impl Iterator<Item = u8> + '_ {
    let mut rows = (0..).step_by(64).zip(starts).flat_map(|(first, word)| {
        let mut word = *word;
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros() as usize);
            word &= word.wrapping_sub(1);
            bit.map(|bit| first + bit)
        })
    });
    let mut start = rows.next();
    std::iter::from_fn(move || {
        let from = start?;
        start = rows.next();
        let length = start.unwrap_or(BLOCK) - from;
        Some(u8::try_from(length - 1).unwrap_or(u8::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{runs_of, spread_bits};
    use halocline_workloads::SplitMix64;

    #[test]
    fn runs_and_rows() {
        for seed in 0..200 {
            let mut rng = SplitMix64::new(seed);
            let most = 1 + rng.below(256) as u8 / (1 + seed % 60) as u8;
            let (mut lengths, mut run_of) = (Vec::new(), Vec::new());
            while run_of.len() < BLOCK {
                let length =
                    (rng.below(u64::from(most)) as u8).min((BLOCK - run_of.len() - 1).min(255) as u8);
                run_of.extend(std::iter::repeat_n(lengths.len() as u16, usize::from(length) + 1));
                lengths.push(length);
            }
            let starts = starts_of(&lengths);
            assert!(lengths_of(&starts).eq(lengths.iter().copied()), "seed {seed}");
            // Others that lie past the block: damage.
            lengths.extend([1, 2, 3]);
            assert_eq!(starts_of(&lengths), starts);
            let kept: BlockMask = std::array::from_fn(|_| rng.next_u64() & rng.next_u64());
            let rows = spread_bits(&starts, &kept);
            let numbers: Vec<u16> = (0..BLOCK as u16).map(|row| row + 2048).collect();
            let mut runs = vec![0; BLOCK];
            runs_of(&starts, &numbers, &mut runs);
            assert_eq!(runs, run_of, "seed {seed}");
            for row in 0..BLOCK {
                let run = usize::from(run_of[row]);
                let expected = kept[run / 64] >> (run % 64) & 1;
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
        let starts = starts_of(&[]);
        assert_eq!(lengths_of(&starts).count(), 0);
        let mut runs = [7];
        runs_of(&starts, &[1023], &mut runs);
        assert_eq!(runs, [0]);
        assert_eq!(spread_bits(&starts, &[u64::MAX; BLOCK / 64]), [0; BLOCK / 64]);
    }
}
