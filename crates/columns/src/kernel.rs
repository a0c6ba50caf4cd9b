//! The one file of this crate with `unsafe`: bit packing (fastlanes), string decompression (FSST) and the compare
//! loop built for AVX2. Every function here is safe to call; what the crates demand is asserted first.
//!
//! A block is 1024 values. It is packed in lanes of the smallest width that holds its values ([`Lane`]): a block of
//! width w takes `128 * w` bytes whatever the lane.
#![allow(
    unsafe_code,
    reason = "the packing crates take run-time widths and lengths unchecked"
)]

use crate::Result;
use crate::format::BLOCK;
use arrow_array::{ArrayRef, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::ArrowError;
use fastlanes::BitPacking;
use fsst::{Decompressor, ESCAPE_CODE};
use std::mem::MaybeUninit;
use std::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An unsigned integer that blocks are packed in. Public for [`Code`](crate::Code) alone.
pub trait Lane:
    BitPacking + FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Default + Ord + Send + Sync + 'static
{
    /// Bits of the lane.
    const BITS: usize;
    /// The value as 64 bits.
    fn widen(self) -> u64;
    /// The low bits of `value`.
    fn truncate(value: u64) -> Self;
    /// The sum, wrapping.
    fn plus(self, other: Self) -> Self;
    /// The difference, wrapping.
    fn minus(self, other: Self) -> Self;
    /// Whether `self - lo <= span`, wrapping: `lo <= self <= lo + span` in one comparison.
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

/// Lanes that a packed block takes.
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
    // SAFETY: width and both lengths were just checked.
    unsafe { L::unchecked_unpack(width, packed, out) }
}

/// Value `index` of a packed block.
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

/// Appends the string that `codes` stand for. Returns false, and appends nothing, if the codes end within an escape.
///
/// Symbol lengths must be at most 8 (checked when a chunk is opened, see `strings.rs`, and asserted there).
pub(crate) fn fsst_decode(decompressor: &SafeDecompressor<'_>, codes: &[u8], out: &mut Vec<u8>) -> bool {
    // A byte that is not an escape ends a token, so a run of escapes at the end pairs up from its start.
    let escapes = codes
        .iter()
        .rev()
        .take_while(|&&code| code == ESCAPE_CODE)
        .count();
    if escapes % 2 == 1 {
        return false;
    }
    out.reserve(decompressor.0.max_decompression_capacity(codes));
    let spare: &mut [MaybeUninit<u8>] = out.spare_capacity_mut();
    let len = decompressor.0.decompress_into(codes, spare);
    // SAFETY: the decompressor initialised `len` bytes of the spare capacity.
    unsafe { out.set_len(out.len() + len) };
    true
}

/// A decompressor whose symbol lengths are known to be at most 8, which `decompress_into` relies on.
pub(crate) struct SafeDecompressor<'a>(Decompressor<'a>);

impl<'a> SafeDecompressor<'a> {
    /// `None` if a length exceeds 8.
    pub(crate) fn new(symbols: &'a [fsst::Symbol; 255], lengths: &'a [u8; 255]) -> Option<Self> {
        lengths
            .iter()
            .all(|&len| len <= 8)
            .then(|| Self(Decompressor::new(symbols, lengths)))
    }
}

/// A string view array of the strings that lie in `bytes` from `ends[i]` to `ends[i + 1]`.
///
/// # Errors
/// [`ColumnsError::Arrow`](crate::ColumnsError::Arrow) if a string is not UTF-8.
///
/// # Panics
/// If the ends descend or lie outside of `bytes`, and from 4 GiB on.
pub(crate) fn string_views(bytes: Vec<u8>, ends: &[i64], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    assert!(u32::try_from(bytes.len()).is_ok(), "views count in 32 bits");
    let not_utf8 = |_| ArrowError::InvalidArgumentError("a stored string is not UTF-8".into());
    let text = std::str::from_utf8(&bytes).map_err(not_utf8)?;
    let mut all_inline = true;
    let mut views = Vec::with_capacity(ends.len().saturating_sub(1));
    for ends in ends.windows(2) {
        let range = ends[0] as usize..ends[1] as usize;
        let Some(value) = text.get(range.clone()) else {
            assert!(
                range.start <= range.end && range.end <= text.len(),
                "string outside of its bytes"
            );
            return Err(
                ArrowError::InvalidArgumentError("a stored string ends within a character".into()).into(),
            );
        };
        all_inline &= value.len() <= MAX_INLINE_VIEW_LEN as usize;
        views.push(view(value.as_bytes(), range.start));
    }
    let buffers = if all_inline {
        Vec::new()
    } else {
        vec![Buffer::from_vec(bytes)]
    };
    // SAFETY: each view was just made of a piece of the buffer (at its place there) that is valid UTF-8, and the
    // buffer is there if a view points into it; `nulls` has their number, or the call panics.
    let array = unsafe { StringViewArray::new_unchecked(views.into(), buffers, nulls) };
    Ok(Arc::new(array))
}

/// The view of a value, which lies at `offset` of buffer 0 if it is too long to be inside the view.
#[inline]
pub(crate) fn view(value: &[u8], offset: usize) -> u128 {
    let len = value.len() as u32;
    if len <= MAX_INLINE_VIEW_LEN {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..4 + value.len()].copy_from_slice(value);
        return u128::from_le_bytes(bytes);
    }
    ByteView::new(len, &value[..4])
        .with_offset(offset as u32)
        .as_u128()
}

/// `keep[i] &= lo <= values[i] <= lo + span`, as bytes 0 and 1.
#[inline(always)]
fn and_within_body<L: Lane>(values: &[L; BLOCK], lo: L, span: L, keep: &mut [u8; BLOCK]) {
    for (keep, value) in keep.iter_mut().zip(values) {
        *keep &= u8::from(value.within(lo, span));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn and_within_avx2<L: Lane>(values: &[L; BLOCK], lo: L, span: L, keep: &mut [u8; BLOCK]) {
    and_within_body(values, lo, span, keep);
}

/// `codes[i] = min(values[i] + shift, most)`, wrapping.
#[inline(always)]
fn shift_body<L: Lane, C: Lane>(values: &[L; BLOCK], shift: C, most: C, codes: &mut [C; BLOCK]) {
    for (code, value) in codes.iter_mut().zip(values) {
        *code = C::truncate(value.widen()).plus(shift).min(most);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn shift_avx2<L: Lane, C: Lane>(values: &[L; BLOCK], shift: C, most: C, codes: &mut [C; BLOCK]) {
    shift_body(values, shift, most, codes);
}

/// `codes[i] = min(values[i] + shift, most)`, wrapping; with AVX2 where the machine has it.
pub(crate) fn shift<L: Lane, C: Lane>(values: &[L; BLOCK], shift: C, most: C, codes: &mut [C; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { shift_avx2(values, shift, most, codes) };
    }
    shift_body(values, shift, most, codes);
}

/// `keep[i] &= lo <= values[i] <= lo + span`, as bytes 0 and 1; with AVX2 where the machine has it.
pub(crate) fn and_within<L: Lane>(values: &[L; BLOCK], lo: L, span: L, keep: &mut [u8; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { and_within_avx2(values, lo, span, keep) };
    }
    and_within_body(values, lo, span, keep);
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

    #[test]
    fn compare_loops_agree() {
        let values: [u16; BLOCK] = std::array::from_fn(|i| (i * 37 % 1000) as u16);
        let (mut fast, mut plain) = ([1; BLOCK], [1; BLOCK]);
        and_within(&values, 100, 250, &mut fast);
        and_within_body(&values, 100, 250, &mut plain);
        assert_eq!(fast, plain);
        assert_eq!(
            fast.iter().filter(|&&keep| keep == 1).count(),
            values.iter().filter(|v| (100..=350).contains(*v)).count()
        );
    }

    #[test]
    fn shift_loops_agree() {
        let values: [u16; BLOCK] = std::array::from_fn(|i| (i * 37 % 1000) as u16);
        let (mut fast, mut plain) = ([0u32; BLOCK], [0; BLOCK]);
        shift(&values, 70_000, 70_900, &mut fast);
        shift_body(&values, 70_000, 70_900, &mut plain);
        assert_eq!(fast, plain);
        let expected = |value: &u16| (u32::from(*value) + 70_000).min(70_900);
        assert!(fast.iter().copied().eq(values.iter().map(expected)));
    }

    #[test]
    fn a_dangling_escape_is_refused() {
        let (symbols, lengths) = ([fsst::Symbol::from_u8(b'x'); 255], [1; 255]);
        let decompressor = SafeDecompressor::new(&symbols, &lengths).expect("short symbols");
        let mut out = b"a".to_vec();
        for (codes, expected) in [
            (&[255u8, 255][..], Some(&b"\xff"[..])),
            (&[255], None),
            (&[0, 255, 255, 255], None),
            (&[255, 7, 0], Some(b"\x07x")),
        ] {
            out.truncate(1);
            let decoded = fsst_decode(&decompressor, codes, &mut out);
            assert_eq!(decoded.then(|| &out[1..]), expected, "{codes:?}");
        }
        assert!(SafeDecompressor::new(&symbols, &[9; 255]).is_none());
    }
}
