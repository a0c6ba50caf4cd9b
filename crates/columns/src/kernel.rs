//! The one file of this crate with `unsafe`: bit packing (fastlanes), string decompression (FSST) and the loops that are
//! built for AVX2 too. Every function here is safe to call; what the crates demand is asserted first.
//!
//! A block is 1024 values. It is packed in lanes of the smallest width that holds its values ([`Lane`]): a block of
//! width w takes `128 * w` bytes whatever the lane.
//!
//! fastlanes is compiled for the baseline of the target, whatever the machine has. With AVX2 blocks are unpacked here, in
//! 64-bit words that hold several lanes each, so that one loop serves every lane and width.
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
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { unpack_avx2(width, packed, out) };
    }
    // SAFETY: width and both lengths were just checked.
    unsafe { L::unchecked_unpack(width, packed, out) }
}

/// Bytes of the lanes of a row: what is packed and what is unpacked is a sequence of these.
const ROW: usize = 128;
/// Words of 64 bits of a row.
const ROW_WORDS: usize = ROW / 8;

/// The lowest `bits` bits of every lane of a word.
fn in_lanes<L: Lane>(bits: usize) -> u64 {
    let lane = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    (0..64 / L::BITS).fold(0, |word, at| word | lane << (at * L::BITS))
}

/// Unpacks a block: rows of 128 bytes, in each of which every lane has its next value at the same bits. A shift moves bits
/// of the neighbouring lane into some that are not the value's; the masks take them out.
#[inline(always)]
fn unpack_body<L: Lane>(width: usize, packed: &[L], out: &mut [L; BLOCK]) {
    let packed = packed.as_bytes();
    let out = out.as_mut_bytes();
    for row in 0..L::BITS {
        // The order of fastlanes.
        let first = fastlanes::FL_ORDER[row / 8] * 16 + row % 8 * 128;
        let out = &mut out[first * size_of::<L>()..][..ROW];
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

/// The words of a packed row.
#[inline(always)]
fn row_of(packed: &[u8], row: usize) -> [u64; ROW_WORDS] {
    let mut words = [0; ROW_WORDS];
    words
        .as_mut_bytes()
        .copy_from_slice(&packed[row * ROW..(row + 1) * ROW]);
    words
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn unpack_avx2<L: Lane>(width: usize, packed: &[L], out: &mut [L; BLOCK]) {
    unpack_body(width, packed, out);
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

/// Values of some rows of a packed block.
///
/// # Panics
/// If `packed` is not exactly one block of `width` bits, a row is not below 1024, or `values` has not the length of `rows`.
pub(crate) fn unpack_rows<L: Lane>(width: usize, packed: &[L], rows: &[u16], values: &mut [L]) {
    assert!(
        width <= L::BITS && packed.len() == packed_len::<L>(width),
        "packed block of the wrong size"
    );
    assert!(rows.len() == values.len(), "one value for each row");
    let mask = if width == L::BITS {
        u64::MAX
    } else {
        (1 << width) - 1
    };
    let lanes = BLOCK / L::BITS;
    let word = |at: usize| packed.get(at).map_or(0, |word| word.widen());
    for (value, &row) in values.iter_mut().zip(rows) {
        // Where fastlanes has it: which of the rows of lanes, and which lane.
        let (lane, at) = (usize::from(row) % lanes, row_of_lane::<L>(row));
        let bit = at * width;
        let (first, shift) = (bit / L::BITS * lanes + lane, bit % L::BITS);
        let low = word(first) >> shift;
        // What lies in the next word; a shift by all bits of the lane is one by none of them.
        let high = word(first + lanes) << (L::BITS - shift - 1) << 1;
        *value = L::truncate((low | high) & mask);
    }
}

/// The row of lanes that a row of a block is in: row r of lanes has the values from `FL_ORDER[r / 8] * 16 + r % 8 * 128` on,
/// and the order is its own inverse.
#[inline(always)]
fn row_of_lane<L: Lane>(row: u16) -> usize {
    assert!(usize::from(row) < BLOCK, "row outside of the block");
    let sixteenths = BLOCK / L::BITS / 16;
    let start = (usize::from(row) % 128 / 16) & !(sixteenths - 1);
    usize::from(row) / 128 + 8 * fastlanes::FL_ORDER[start]
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

/// Bytes 0 and 1 as bits: byte i is bit i % 64 of word i / 64.
#[inline(always)]
fn to_bits_body(keep: &[u8; BLOCK]) -> [u64; BLOCK / 64] {
    std::array::from_fn(|word| {
        let bytes = &keep[word * 64..(word + 1) * 64];
        bytes.chunks_exact(8).enumerate().fold(0, |bits, (i, eight)| {
            let eight = eight.try_into().map_or(0, u64::from_le_bytes);
            // Moves bit 0 of byte j to bit 56 + j.
            bits | (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (i * 8)
        })
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn to_bits_avx2(keep: &[u8; BLOCK]) -> [u64; BLOCK / 64] {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_slli_epi16};
    let mut bits = [0; BLOCK / 64];
    for (at, bytes) in keep.as_chunks::<32>().0.iter().enumerate() {
        // SAFETY: 32 bytes are there, and the load needs no alignment.
        let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast::<__m256i>()) };
        // The lowest bit of every byte becomes its highest.
        let half = _mm256_movemask_epi8(_mm256_slli_epi16::<7>(bytes)) as u32;
        bits[at / 2] |= u64::from(half) << (at % 2 * 32);
    }
    bits
}

/// Bytes 0 and 1 as bits: byte i is bit i % 64 of word i / 64; with AVX2 where the machine has it.
pub(crate) fn to_bits(keep: &[u8; BLOCK]) -> [u64; BLOCK / 64] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { to_bits_avx2(keep) };
    }
    to_bits_body(keep)
}

/// The lowest bits of `runs` from number `from` on.
#[inline(always)]
fn bits_from(runs: &[u64; BLOCK / 64], from: usize) -> u64 {
    let low = runs.get(from / 64).map_or(0, |word| word >> (from % 64));
    // By 64 less what was taken; a shift by all of 64 is one by none of them.
    let high = runs
        .get(from / 64 + 1)
        .map_or(0, |word| word << (63 - from % 64) << 1);
    low | high
}

/// `^` of every bit with all below it.
#[inline(always)]
fn prefix_xor(mut word: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        word ^= word << shift;
    }
    word
}

/// Gives every bit between two marks that of their run: bit i of the result is bit r of `runs`, where r + 1 is the number
/// of bits of `marks` up to i; 0 before the first mark. Bits that differ from the one before are put where their runs
/// begin, then each row takes the parity of those up to it.
#[inline(always)]
fn spread_body(
    marks: &[u64; BLOCK / 64],
    runs: &[u64; BLOCK / 64],
    deposit: impl Fn(u64, u64) -> u64,
) -> [u64; BLOCK / 64] {
    let (mut rows, mut run, mut last) = ([0; BLOCK / 64], 0, 0);
    for (rows, &marks) in rows.iter_mut().zip(marks) {
        let bits = bits_from(runs, run);
        let changes = deposit(bits ^ (bits << 1 | last), marks);
        *rows = prefix_xor(changes) ^ 0_u64.wrapping_sub(last);
        last = *rows >> 63;
        run += marks.count_ones() as usize;
    }
    rows
}

/// Moves the lowest bits of `bits` to where `mask` has ones.
#[inline(always)]
fn deposit(mut bits: u64, mut mask: u64) -> u64 {
    let mut moved = 0;
    while mask != 0 {
        let place = mask & mask.wrapping_neg();
        moved |= place * (bits & 1);
        (bits, mask) = (bits >> 1, mask ^ place);
    }
    moved
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi2,popcnt")]
fn spread_bmi2(marks: &[u64; BLOCK / 64], runs: &[u64; BLOCK / 64]) -> [u64; BLOCK / 64] {
    spread_body(marks, runs, |bits, mask| std::arch::x86_64::_pdep_u64(bits, mask))
}

/// Gives every bit between two marks that of their run, the bits before the first mark 0; with BMI2 where the machine has it.
pub(crate) fn spread_bits(marks: &[u64; BLOCK / 64], runs: &[u64; BLOCK / 64]) -> [u64; BLOCK / 64] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("bmi2") && std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the machine has both.
        return unsafe { spread_bmi2(marks, runs) };
    }
    spread_body(marks, runs, deposit)
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
        let rows: Vec<u16> = (0..BLOCK as u16).rev().collect();
        unpack_rows(width, &packed, &rows, &mut back);
        back.reverse();
        assert!(back == values, "row by row, width {width}");
    }

    #[test]
    fn blocks_of_every_width_come_back() {
        for width in 0..=64 {
            with_lane!(width, L => round_trip::<L>(width));
        }
    }

    #[test]
    fn bytes_become_bits() {
        for part in [1, 2, 3, 64, 1000] {
            let keep: [u8; BLOCK] = std::array::from_fn(|i| u8::from(i % part == 0 || i > 1000));
            for bits in [to_bits(&keep), to_bits_body(&keep)] {
                for (i, &keep) in keep.iter().enumerate() {
                    assert_eq!(bits[i / 64] >> (i % 64) & 1, u64::from(keep), "row {i}");
                }
            }
        }
    }

    #[test]
    fn spreading_loops_agree() {
        let word = |seed: usize| (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for density in 0..3 {
            let marks: [u64; BLOCK / 64] = std::array::from_fn(|i| match density {
                0 => word(i) & word(i + 50) & word(i + 90),
                1 => word(i) | word(i + 50),
                _ => u64::MAX * u64::from(i % 5 == 2),
            });
            let runs = std::array::from_fn(|i| word(i + 7) ^ word(i + 3) << 5);
            assert_eq!(spread_bits(&marks, &runs), spread_body(&marks, &runs, deposit));
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
