//! Values in lanes, in the order of the rows: what fills its lane anyway needs no unpacking.

use super::packed::packed_len;
use super::sections::typed;
use crate::format::{BLOCK, BLOCK_BYTES_PER_BIT};
use crate::kernel::{Lane, with_lane};
use std::ops::Range;
use zerocopy::IntoBytes;

/// Values of a chunk whose width is that of a lane; the last block is filled up with zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a> {
    bytes: &'a [u8],
}

/// Whether values of this width fill a lane.
pub(crate) fn fills_lane(width: usize) -> bool {
    matches!(width, 8 | 16 | 32 | 64)
}

impl<'a> Plain<'a> {
    /// The values of so many rows.
    pub(crate) fn new(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let aligned = (bytes.as_ptr() as usize).is_multiple_of(align_of::<u64>());
        (fills_lane(width) && bytes.len() == packed_len(width, rows) && aligned).then_some(Self { bytes })
    }

    /// The bytes of blocks of values of this width.
    pub(crate) fn blocks(&self, width: usize, blocks: Range<usize>) -> &'a [u8] {
        let len = width * BLOCK_BYTES_PER_BIT;
        &self.bytes[blocks.start * len..blocks.end * len]
    }

    /// The values of a block. `L` must be the lane of the width.
    pub(crate) fn block<L: Lane>(&self, block: usize) -> &'a [L; BLOCK] {
        let values = &typed::<L>(self.bytes)[block * BLOCK..(block + 1) * BLOCK];
        values.try_into().expect("the length is that of a block")
    }
}

/// The words of a chunk.
pub(crate) fn encode(width: usize, values: &[u64]) -> Vec<u64> {
    let mut words = vec![0u64; packed_len(width, values.len()) / 8];
    with_lane!(width, L => {
        let lanes: Vec<L> = values.iter().map(|&value| L::truncate(value)).collect();
        words.as_mut_bytes()[..size_of_val(&lanes[..])].copy_from_slice(lanes.as_bytes());
    });
    words
}
