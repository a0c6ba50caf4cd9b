//! Values from unpacked offsets, appended to a vector.
#![allow(
    unsafe_code,
    reason = "loops that are built for AVX2, and vectors that are filled in place"
)]

use super::Lane;
use std::mem::MaybeUninit;

/// Appends a value for each offset; with AVX2 where the machine has it.
#[inline]
pub(crate) fn append<L: Lane, T: Copy>(offsets: &[L], out: &mut Vec<T>, value: impl Fn(u64) -> T) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { append_avx2(offsets, out, value) };
    }
    append_body(offsets, out, value);
}

#[inline(always)]
fn append_body<L: Lane, T: Copy>(offsets: &[L], out: &mut Vec<T>, value: impl Fn(u64) -> T) {
    let len = out.len();
    out.reserve(offsets.len());
    // Not `extend`, whose loops are not built for AVX2 in every case.
    for (slot, offset) in out.spare_capacity_mut().iter_mut().zip(offsets) {
        slot.write(value(offset.widen()));
    }
    // SAFETY: there is room for all of them, so that each has been written.
    unsafe { out.set_len(len + offsets.len()) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn append_avx2<L: Lane, T: Copy>(offsets: &[L], out: &mut Vec<T>, value: impl Fn(u64) -> T) {
    append_body(offsets, out, value);
}

/// Appends a number of 128 bits for each offset, the one of 64 bits that `value` returns; with AVX2 where the
/// machine has it.
#[inline]
pub(crate) fn append_wide<L: Lane>(offsets: &[L], out: &mut Vec<i128>, value: impl Fn(u64) -> i64) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { append_wide_avx2(offsets, out, value) };
    }
    append_wide_body(offsets, out, value);
}

/// Writes two words for each number, since compilers do not vectorise integers of 128 bits.
#[inline(always)]
fn append_wide_body<L: Lane>(offsets: &[L], out: &mut Vec<i128>, value: impl Fn(u64) -> i64) {
    const { assert!(cfg!(target_endian = "little"), "the low word comes first") };
    let len = out.len();
    out.reserve(offsets.len());
    let room = out
        .spare_capacity_mut()
        .as_mut_ptr()
        .cast::<[MaybeUninit<u64>; 2]>();
    // SAFETY: there is room for all of them, of 16 bytes each, and words need a lower alignment.
    let room = unsafe { std::slice::from_raw_parts_mut(room, offsets.len()) };
    for (words, offset) in room.iter_mut().zip(offsets) {
        let value = value(offset.widen());
        words[0].write(value as u64);
        words[1].write((value >> 63) as u64);
    }
    // SAFETY: both words of each have been written.
    unsafe { out.set_len(len + offsets.len()) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn append_wide_avx2<L: Lane>(offsets: &[L], out: &mut Vec<i128>, value: impl Fn(u64) -> i64) {
    append_wide_body(offsets, out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_agree() {
        for count in [0, 1, 7, 64, 1000] {
            let offsets: Vec<u32> = (0..count).map(|i: u32| i.wrapping_mul(0x9E37_79B9)).collect();
            let value = |offset: u64| (offset as i64).wrapping_sub(1 << 31);
            let expected = || offsets.iter().map(|offset| value(u64::from(*offset)));
            let (mut fast, mut plain) = (vec![7], vec![7]);
            append(&offsets, &mut fast, value);
            append_body(&offsets, &mut plain, value);
            assert_eq!(fast, plain);
            assert!(fast[1..].iter().copied().eq(expected()));
            let (mut fast, mut plain) = (vec![7], vec![7]);
            append_wide(&offsets, &mut fast, value);
            append_wide_body(&offsets, &mut plain, value);
            assert_eq!(fast, plain);
            assert!(fast[1..].iter().copied().eq(expected().map(i128::from)));
        }
    }
}
