//! From unpacked values to codes.
#![allow(unsafe_code, reason = "loops that are built for AVX2 too")]

use super::Lane;
use crate::format::BLOCK;

/// Computes `codes[i] = min(values[i] + shift, most)`, wrapping.
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

/// Computes `codes[i] = min(values[i] + shift, most)`, wrapping. Uses AVX2 where available.
pub(crate) fn shift<L: Lane, C: Lane>(values: &[L; BLOCK], shift: C, most: C, codes: &mut [C; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { shift_avx2(values, shift, most, codes) };
    }
    shift_body(values, shift, most, codes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_agree() {
        let values: [u16; BLOCK] = std::array::from_fn(|i| (i * 37 % 1000) as u16);
        let (mut fast, mut plain) = ([0u32; BLOCK], [0; BLOCK]);
        shift(&values, 70_000, 70_900, &mut fast);
        shift_body(&values, 70_000, 70_900, &mut plain);
        assert_eq!(fast, plain);
        let expected = |value: &u16| (u32::from(*value) + 70_000).min(70_900);
        assert!(fast.iter().copied().eq(values.iter().map(expected)));
    }
}
