//! Comparison of a fingerprint with all fingerprints of a leaf at once.
//!
//! The operands are little-endian words that the caller has loaded. A test compares both implementations.
#![allow(unsafe_code, reason = "a vector instruction")]

/// Returns a bitmap of the slots with this fingerprint, used or not; slot 0 is the lowest bit. The
/// fingerprints are bytes 2 to 15.
#[inline(always)]
pub(crate) fn matches(low: u64, high: u64, fingerprint: u8) -> u32 {
    imp::same_bytes(low, high, fingerprint) >> 2
}

/// Returns a bitmap of the slots with this fingerprint in a line whose bytes 8 to 63 are fingerprints.
#[inline(always)]
pub(crate) fn matches_in_line(line: &[u64; 8], fingerprint: u8) -> u64 {
    let half = |at: usize| u64::from(imp::same_bytes(line[at], line[at + 1], fingerprint));
    (half(0) | half(2) << 16 | half(4) << 32 | half(6) << 48) >> 8
}

/// Returns the fingerprint of a key: the top byte of a multiplicative hash, so that adjacent keys differ.
#[inline(always)]
pub(crate) fn fingerprint(key: u64) -> u8 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

#[cfg(any(test, not(all(target_arch = "x86_64", not(miri)))))]
fn portable(low: u64, high: u64, fingerprint: u8) -> u32 {
    let bytes = low.to_le_bytes().into_iter().chain(high.to_le_bytes());
    let same = bytes.map(|byte| u32::from(byte == fingerprint));
    same.enumerate().fold(0, |mask, (slot, same)| mask | same << slot)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};

    #[inline(always)]
    pub(super) fn same_bytes(low: u64, high: u64, fingerprint: u8) -> u32 {
        // SAFETY: SSE2 is part of x86_64, and the function has no other requirement.
        unsafe { compare(low, high, fingerprint) }
    }

    /// Returns a bitmap of the bytes of both words that equal `fingerprint`.
    ///
    /// # Safety
    /// The CPU has SSE2.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn compare(low: u64, high: u64, fingerprint: u8) -> u32 {
        let header = _mm_set_epi64x(high as i64, low as i64);
        let same = _mm_cmpeq_epi8(header, _mm_set1_epi8(fingerprint as i8));
        _mm_movemask_epi8(same) as u32
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) use super::portable as same_bytes;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_agree(low: u64, high: u64, other: u8, slot in 0_usize..14) {
            let wanted = (u128::from(high) << 64 | u128::from(low)) >> (16 + 8 * slot);
            for fingerprint in [other, wanted as u8] {
                prop_assert_eq!(imp::same_bytes(low, high, fingerprint), portable(low, high, fingerprint));
            }
            prop_assert!(matches(low, high, wanted as u8) >> slot & 1 == 1);
            prop_assert!(matches(low, high, other) < 1 << 14);
        }

        #[test]
        fn lines_are_compared_byte_by_byte(line: [u64; 8], other: u8, slot in 0_usize..56) {
            let bytes: Vec<u8> = line.iter().flat_map(|word| word.to_le_bytes()).skip(8).collect();
            for fingerprint in [other, bytes[slot]] {
                let found = matches_in_line(&line, fingerprint);
                for (slot, byte) in bytes.iter().enumerate() {
                    prop_assert_eq!(found >> slot & 1 == 1, *byte == fingerprint);
                }
                prop_assert!(found < 1 << 56);
            }
        }
    }
}
