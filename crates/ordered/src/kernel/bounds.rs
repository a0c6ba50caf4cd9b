//! Comparing a key with all keys of an inner node at once.
//!
//! The keys may be changed meanwhile. The portable way loads each as an atomic word; the other one by vector instructions, in
//! assembly, which is not bound by the rules for plain accesses: aligned words are loaded whole, as a run of relaxed atomic
//! loads would.
#![allow(unsafe_code, reason = "vector instructions")]

use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that are compared.
pub(crate) const BOUNDS: usize = 28;

/// Whether this CPU has what [`above`] can use.
pub(crate) fn has_vectors() -> bool {
    imp::available()
}

/// How many of the keys are greater than `key`. `vectors` is what [`has_vectors`] says, or false.
#[inline(always)]
pub(crate) fn above(bounds: &[AtomicU64; BOUNDS], key: u64, vectors: bool) -> usize {
    if vectors {
        imp::above(bounds, key)
    } else {
        portable(bounds, key)
    }
}

#[inline(always)]
fn portable(bounds: &[AtomicU64; BOUNDS], key: u64) -> usize {
    let above = bounds
        .iter()
        .map(|bound| usize::from(bound.load(Ordering::Relaxed) > key));
    above.sum()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::asm;
    use std::sync::atomic::AtomicU64;

    use super::BOUNDS;

    pub(super) fn available() -> bool {
        std::arch::is_x86_feature_detected!("avx2")
    }

    /// Only where it is [`available`].
    #[inline(always)]
    pub(super) fn above(bounds: &[AtomicU64; BOUNDS], key: u64) -> usize {
        const { assert!(BOUNDS == 28) };
        let negated: u64;
        // SAFETY: the caller has found AVX2. Reads the 224 bytes of `bounds`, which are borrowed; stores nothing; clobbers what
        // is named. Comparisons are signed, so the highest bits are
        // turned over first.
        unsafe {
            asm!(
                "vpcmpeqd ymm1, ymm1, ymm1",
                "vpsllq ymm1, ymm1, 63",
                "vmovq xmm0, {key}",
                "vpbroadcastq ymm0, xmm0",
                "vpxor ymm0, ymm0, ymm1",
                "vpxor ymm2, ymm1, [{bounds}]",
                "vpcmpgtq ymm2, ymm2, ymm0",
                "vpxor ymm3, ymm1, [{bounds} + 32]",
                "vpcmpgtq ymm3, ymm3, ymm0",
                "vpaddq ymm2, ymm2, ymm3",
                "vpxor ymm4, ymm1, [{bounds} + 64]",
                "vpcmpgtq ymm4, ymm4, ymm0",
                "vpxor ymm3, ymm1, [{bounds} + 96]",
                "vpcmpgtq ymm3, ymm3, ymm0",
                "vpaddq ymm4, ymm4, ymm3",
                "vpxor ymm3, ymm1, [{bounds} + 128]",
                "vpcmpgtq ymm3, ymm3, ymm0",
                "vpaddq ymm2, ymm2, ymm3",
                "vpxor ymm3, ymm1, [{bounds} + 160]",
                "vpcmpgtq ymm3, ymm3, ymm0",
                "vpaddq ymm4, ymm4, ymm3",
                "vpxor ymm3, ymm1, [{bounds} + 192]",
                "vpcmpgtq ymm3, ymm3, ymm0",
                "vpaddq ymm2, ymm2, ymm3",
                "vpaddq ymm2, ymm2, ymm4",
                "vextracti128 xmm3, ymm2, 1",
                "vpaddq xmm2, xmm2, xmm3",
                "vpsrldq xmm3, xmm2, 8",
                "vpaddq xmm2, xmm2, xmm3",
                "vmovq {negated}, xmm2",
                "vzeroupper",
                key = in(reg) key,
                bounds = in(reg) bounds.as_ptr(),
                negated = lateout(reg) negated,
                // `vzeroupper` changes the upper halves of all, in which a build with AVX may keep something.
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly, preserves_flags)
            );
        }
        negated.wrapping_neg() as usize
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) use super::portable as above;

    pub(super) fn available() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_agree(bounds: [u64; BOUNDS], key: u64, at in 0..BOUNDS) {
            let atomic = bounds.map(AtomicU64::new);
            for key in [key, bounds[at], bounds[at].wrapping_sub(1), 0, u64::MAX, 1 << 63, (1 << 63) - 1] {
                let wanted = bounds.iter().filter(|bound| **bound > key).count();
                prop_assert_eq!(above(&atomic, key, false), wanted);
                prop_assert_eq!(above(&atomic, key, has_vectors()), wanted);
            }
        }
    }
}
