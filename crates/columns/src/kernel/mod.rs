//! The one folder of this crate with `unsafe`: bit packing (fastlanes), string decompression (FSST) and the
//! loops that are built for AVX2 too. Every function here is safe to call; what the crates demand is asserted
//! first.
//!
//! A block is 1024 values. It is packed in lanes of the smallest width that holds its values ([`Lane`]): a
//! block of width w takes `128 * w` bytes whatever the lane.
//!
//! fastlanes is compiled for the baseline of the target, whatever the machine has. With AVX2 blocks are
//! unpacked here, in 64-bit words that hold several lanes each, so that one loop serves every lane and width.
#![allow(
    unsafe_code,
    reason = "the packing crates take run-time widths and lengths unchecked"
)]

mod bits;
mod compact;
mod filter;
#[cfg(target_arch = "x86_64")]
mod filter_avx2;
#[cfg(target_arch = "x86_64")]
mod filter_avx512;
#[cfg(target_arch = "x86_64")]
mod filter_rows;
mod rows;
mod selection;
mod shift;
#[cfg(target_arch = "x86_64")]
mod simd;
mod strings;
mod widen;

pub use bits::rows_in;
pub(crate) use bits::{runs_of, set_bits, spread_bits, to_bits};
pub(crate) use compact::compact;
pub(crate) use filter::{Values, lookup, within};
pub(crate) use rows::{places_of, unpack_rows};
pub(crate) use selection::{ROOM, keep_rows, rows_of};
pub(crate) use shift::shift;
pub(crate) use strings::{FSST_INSIDE, SafeDecompressor, fsst_decode, fsst_decode_all, string_views, view};
pub(crate) use widen::{append, append_wide};

use crate::format::BLOCK;
use fastlanes::BitPacking;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The kept rows of a block of 1024: row i is bit i % 64 of word i / 64.
pub type BlockMask = [u64; BLOCK / 64];

/// Returns the number of bits that hold `value`.
pub(crate) fn width_of(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// An unsigned integer that blocks are packed in. Public for [`Code`](crate::Code) alone.
pub trait Lane:
    BitPacking + FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Default + Ord + Send + Sync + 'static
{
    /// Bits of the lane.
    const BITS: usize;
    /// Converts the value to 64 bits.
    fn widen(self) -> u64;
    /// Returns the low bits of `value`.
    fn truncate(value: u64) -> Self;
    /// Adds, wrapping.
    fn plus(self, other: Self) -> Self;
    /// Subtracts, wrapping.
    fn minus(self, other: Self) -> Self;
    /// Returns true if `self - lo <= span`, wrapping: `lo <= self <= lo + span` in one comparison.
    fn within(self, lo: Self, span: Self) -> bool;
}

macro_rules! lane {
    ($($t:ty),*) => {$(impl Lane for $t {
        const BITS: usize = <$t>::BITS as usize;
        #[inline(always)]
        fn widen(self) -> u64 {
            self as u64
        }
        #[inline(always)]
        fn truncate(value: u64) -> Self {
            value as $t
        }
        #[inline(always)]
        fn plus(self, other: Self) -> Self {
            self.wrapping_add(other)
        }
        #[inline(always)]
        fn minus(self, other: Self) -> Self {
            self.wrapping_sub(other)
        }
        #[inline(always)]
        fn within(self, lo: Self, span: Self) -> bool {
            self.wrapping_sub(lo) <= span
        }
    })*};
}
lane!(u8, u16, u32, u64);

/// An integer that codes are read into: `u8`, `u16`, `u32` or `u64`.
pub trait Code: Lane {
    /// Converts the code to 64 bits.
    #[inline(always)]
    fn number(self) -> u64 {
        self.widen()
    }
}
impl Code for u8 {}
impl Code for u16 {}
impl Code for u32 {}
impl Code for u64 {}

/// Runs `$body` with `$L` bound to the lane type for `$width` (0..=64) bits.
macro_rules! with_lane {
    ($width:expr, $L:ident => $body:expr) => {
        match $width {
            0..=8 => {
                type $L = u8;
                $body
            }
            9..=16 => {
                type $L = u16;
                $body
            }
            17..=32 => {
                type $L = u32;
                $body
            }
            _ => {
                type $L = u64;
                $body
            }
        }
    };
}
pub(crate) use with_lane;

/// Returns the number of lanes in a packed block.
fn packed_len<L: Lane>(width: usize) -> usize {
    BLOCK * width / L::BITS
}

/// Packs the low `width` bits of each value; appends `128 * width` bytes to `out`.
///
/// # Panics
/// If `width` exceeds the lane.
pub(crate) fn pack<L: Lane>(width: usize, values: &[L; BLOCK], out: &mut [L]) {
    assert!(
        width <= L::BITS && out.len() == packed_len::<L>(width),
        "packed block of the wrong size"
    );
    // SAFETY: width and both lengths were just checked.
    unsafe { L::unchecked_pack(width, values, out) }
}

/// Unpacks a block.
///
/// # Panics
/// If `packed` is not exactly one block of `width` bits.
pub(crate) fn unpack<L: Lane>(width: usize, packed: &[L], out: &mut [L; BLOCK]) {
    assert!(
        width <= L::BITS && packed.len() == packed_len::<L>(width),
        "packed block of the wrong size"
    );
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { unpack_avx2(width, packed, out) };
    }
    // SAFETY: width and both lengths were just checked.
    unsafe { L::unchecked_unpack(width, packed, out) }
}

/// Bytes of the lanes of a row: what is packed and what is unpacked is a sequence of these.
const ROW_BYTES: usize = 128;
/// Words of 64 bits of a row.
const ROW_WORDS: usize = ROW_BYTES / 8;

/// Returns a word in which the lowest `bits` bits of every lane are set.
fn in_lanes<L: Lane>(bits: usize) -> u64 {
    let lane = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    (0..64 / L::BITS).fold(0, |word, at| word | lane << (at * L::BITS))
}

/// Unpacks a block: rows of 128 bytes, in each of which every lane has its next value at the same bits. A
/// shift moves bits of the neighbouring lane into some that are not the value's; the masks take them out.
#[inline(always)]
fn unpack_body<L: Lane>(width: usize, packed: &[L], out: &mut [L; BLOCK]) {
    let packed = packed.as_bytes();
    let out = out.as_mut_bytes();
    for row in 0..L::BITS {
        // The order of fastlanes.
        let first = fastlanes::FL_ORDER[row / 8] * 16 + row % 8 * 128;
        let out = &mut out[first * size_of::<L>()..][..ROW_BYTES];
        let (at, shift) = (row * width / L::BITS, row * width % L::BITS);
        let here = (L::BITS - shift).min(width);
        let low = in_lanes::<L>(here);
        let mut values = [0; ROW_WORDS];
        if here > 0 {
            values = row_of(packed, at);
        }
        for value in &mut values {
            *value = *value >> shift & low;
        }
        if here < width {
            let high = in_lanes::<L>(width) & !low;
            for (value, next) in values.iter_mut().zip(row_of(packed, at + 1)) {
                *value |= next << here & high;
            }
        }
        out.copy_from_slice(values.as_bytes());
    }
}

/// Returns the words of row `row` of a packed block.
#[inline(always)]
fn row_of(packed: &[u8], row: usize) -> [u64; ROW_WORDS] {
    let mut words = [0; ROW_WORDS];
    words
        .as_mut_bytes()
        .copy_from_slice(&packed[row * ROW_BYTES..(row + 1) * ROW_BYTES]);
    words
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn unpack_avx2<L: Lane>(width: usize, packed: &[L], out: &mut [L; BLOCK]) {
    unpack_body(width, packed, out);
}

/// Unpacks value `index` of a packed block.
///
/// # Panics
/// If `packed` is not exactly one block of `width` bits, or `index >= 1024`.
#[inline]
pub(crate) fn unpack_one<L: Lane>(width: usize, packed: &[L], index: usize) -> L {
    assert!(
        width <= L::BITS && packed.len() == packed_len::<L>(width),
        "packed block of the wrong size"
    );
    // SAFETY: width and length were just checked; the index is checked by the callee.
    unsafe { L::unchecked_unpack_single(width, packed, index) }
}

/// A block of lanes that starts at a cache line. Wide stores then do not cross lines, and the loads that
/// follow get what was stored without waiting for it to reach the cache (scans of 64-bit integers are up to
/// 1.5 times as fast).
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct AlignedBlock<L>(pub(crate) [L; BLOCK]);

impl<L: Lane> Default for AlignedBlock<L> {
    fn default() -> Self {
        Self([L::default(); BLOCK])
    }
}

/// Returns words as the lanes of a block.
pub(crate) fn lanes<L: Lane>(room: &mut [u64]) -> &mut [L; BLOCK] {
    let bytes = &mut room.as_mut_bytes()[..BLOCK * size_of::<L>()];
    let lanes = <[L]>::mut_from_bytes(bytes).expect("words are aligned for every lane");
    lanes.try_into().expect("the length is that of a block")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<L: Lane>(width: usize) {
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let values: [L; BLOCK] =
            std::array::from_fn(|i| L::truncate((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask));
        let mut packed = vec![L::default(); packed_len::<L>(width)];
        pack(width, &values, &mut packed);
        let mut back = [L::default(); BLOCK];
        unpack(width, &packed, &mut back);
        assert!(back == values, "width {width}");
        back.fill(L::default());
        unpack_body(width, &packed, &mut back);
        assert!(back == values, "in words, width {width}");
        back.fill(L::default());
        // SAFETY: as in `unpack`, which may not come here on this machine.
        unsafe { L::unchecked_unpack(width, &packed, &mut back) }
        assert!(back == values, "by fastlanes, width {width}");
        for (i, value) in values.iter().enumerate() {
            assert!(
                unpack_one(width, &packed, i) == *value,
                "width {width}, value {i}"
            );
        }
    }

    #[test]
    fn blocks_of_every_width_come_back() {
        for width in 0..=64 {
            with_lane!(width, L => round_trip::<L>(width));
        }
    }
}
