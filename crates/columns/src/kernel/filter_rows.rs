//! *Rows of lanes*: 128 bytes, whose 128, 64, 32 or 16 values lie side by side in the block, so that a test
//! of them makes bits that do too.

use super::{BlockMask, Lane};
use crate::format::BLOCK;

/// Returns the number of values in a row of lanes.
pub(super) const fn each<L: Lane>() -> usize {
    BLOCK / L::BITS
}

/// Puts the bits of a row of lanes into the mask.
#[inline(always)]
pub(super) fn put<L: Lane>(mask: &mut BlockMask, first: usize, bits: u128) {
    // The remainder changes nothing and spares the bounds check.
    let word = first / 64 % mask.len();
    mask[word] |= (bits as u64) << (first % 64);
    if each::<L>() == 128 {
        // Such a row fills two words, and no other row has bits in them.
        mask[(word + 1) % mask.len()] = (bits >> 64) as u64;
    }
}
