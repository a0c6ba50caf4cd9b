//! Validity of values that are read block by block.

use crate::format::BLOCK;
use crate::kernel::{self, BlockMask, Lane, Values};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// Collects which of the values of an array are NULL. Nothing is written before the first NULL.
pub(crate) struct ValidityBuilder {
    capacity: usize,
    valid: usize,
    bits: Option<BooleanBufferBuilder>,
}

impl ValidityBuilder {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            valid: 0,
            bits: None,
        }
    }

    /// Appends the validity of offsets, a block at most, of which `null` stands for NULL. Returns the positions
    /// of NULLs if there are any.
    pub(crate) fn append<L: Lane>(&mut self, offsets: &[L], null: Option<u64>) -> Option<BlockMask> {
        let nulls = null.map_or([0; BLOCK / 64], |null| {
            kernel::within(Values::Lanes(offsets), L::truncate(null), L::default())
        });
        let any = nulls != [0; BLOCK / 64];
        if !any && self.bits.is_none() {
            self.valid += offsets.len();
            return None;
        }
        let bits = self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(self.capacity);
            bits.append_n(self.valid, true);
            bits
        });
        append_words(bits, nulls.map(|word| !word), offsets.len());
        any.then_some(nulls)
    }

    pub(crate) fn finish(self) -> Option<NullBuffer> {
        self.bits.map(|bits| NullBuffer::new(bits.build()))
    }
}

/// Appends the first `count` bits of a mask.
pub(crate) fn append_words(bits: &mut BooleanBufferBuilder, mask: BlockMask, count: usize) {
    for (word, from) in mask.into_iter().zip((0..count).step_by(64)) {
        bits.append_word(word, (count - from).min(64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_is_that_of_the_offsets() {
        let blocks: [Vec<u16>; 4] = [
            (0..1000).map(|i| i % 7 + 1).collect(),
            (0..77).map(|i| i % 5).collect(),
            vec![],
            (0..1024).map(|i| i % 3 + 1).collect(),
        ];
        let mut builder = ValidityBuilder::new(10);
        for block in &blocks {
            let nulls = builder.append(block, Some(0)).unwrap_or_default();
            let expected = (0..block.len()).filter(|row| block[*row] == 0);
            assert!(kernel::set_bits(&nulls).eq(expected));
        }
        let valid = builder.finish().expect("some are NULL");
        assert!(
            valid
                .iter()
                .eq(blocks.iter().flatten().map(|offset| *offset != 0))
        );
        let mut builder = ValidityBuilder::new(10);
        assert_eq!(builder.append(&[1_u64, 2], Some(3)), None);
        assert_eq!(builder.append(&[0_u64; 500], None), None);
        assert_eq!(builder.finish(), None);
    }
}
