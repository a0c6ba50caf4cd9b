//! Comparing a key's piece with the pieces of all keys of an inner node at once.
//!
//! The pieces may be changed meanwhile. The portable way loads each as an atomic number; the other one by vector instructions, in
//! assembly, which is not bound by the rules for plain accesses: aligned numbers are loaded whole, as a run of relaxed atomic
//! loads would.
#![allow(unsafe_code, reason = "vector instructions")]

use std::sync::atomic::{AtomicU16, Ordering};

/// Pieces that are compared.
pub(crate) const BOUNDS: usize = 56;

/// Whether this CPU has what [`around`] can use.
pub(crate) fn has_vectors() -> bool {
    imp::available()
}

/// The first of the pieces that is not less than `piece`, and the first that is greater, as they follow each other in ascending
/// order; [`BOUNDS`] if there is none. All are less than 2^15. Of pieces in no order it gives any two places, in this order.
/// `vectors` is what [`has_vectors`] says, or false.
#[inline(always)]
pub(crate) fn around(pieces: &[AtomicU16; BOUNDS], piece: u16, vectors: bool) -> (usize, usize) {
    if vectors {
        imp::around(pieces, piece)
    } else {
        portable(pieces, piece)
    }
}

#[inline(always)]
fn portable(pieces: &[AtomicU16; BOUNDS], piece: u16) -> (usize, usize) {
    let (mut less, mut greater) = (0_u64, 0_u64);
    for (slot, other) in pieces.iter().enumerate() {
        let other = other.load(Ordering::Relaxed);
        less |= u64::from(other < piece) << slot;
        greater |= u64::from(other > piece) << slot;
    }
    let first_greater = greater | 1 << BOUNDS;
    (
        less.trailing_ones() as usize,
        first_greater.trailing_zeros() as usize,
    )
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::asm;
    use std::sync::atomic::AtomicU16;

    use super::BOUNDS;

    pub(super) fn available() -> bool {
        std::arch::is_x86_feature_detected!("avx2")
    }

    /// Only where it is [`available`].
    #[inline(always)]
    pub(super) fn around(pieces: &[AtomicU16; BOUNDS], piece: u16) -> (usize, usize) {
        const { assert!(BOUNDS == 56) };
        let (less, greater): (u64, u64);
        // SAFETY: the caller has found AVX2. Reads the 112 bytes of `pieces`, which are borrowed; stores nothing; clobbers what
        // is named. Comparisons are signed, which pieces below 2^15 are not changed by.
        unsafe {
            asm!(
                "vmovd xmm0, {piece:e}",
                "vpbroadcastw ymm0, xmm0",
                "vmovdqu ymm1, [{pieces}]",
                "vmovdqu ymm2, [{pieces} + 32]",
                "vmovdqu ymm3, [{pieces} + 64]",
                "vmovdqu xmm4, [{pieces} + 96]",
                // One byte for each piece, in the order 0 to 7, 16 to 23, 8 to 15, 24 to 31; then the others in the same way.
                "vpcmpgtw ymm5, ymm0, ymm1",
                "vpcmpgtw ymm6, ymm0, ymm2",
                "vpcmpgtw ymm7, ymm0, ymm3",
                "vpcmpgtw xmm8, xmm0, xmm4",
                "vpacksswb ymm5, ymm5, ymm6",
                "vpacksswb ymm7, ymm7, ymm8",
                "vpermq ymm5, ymm5, 0xD8",
                "vpermq ymm7, ymm7, 0xD8",
                "vpmovmskb {less:e}, ymm5",
                "vpmovmskb {above:e}, ymm7",
                "shl {above:r}, 32",
                "or {less:r}, {above:r}",
                "vpcmpgtw ymm1, ymm1, ymm0",
                "vpcmpgtw ymm2, ymm2, ymm0",
                "vpcmpgtw ymm3, ymm3, ymm0",
                "vpcmpgtw xmm4, xmm4, xmm0",
                "vpacksswb ymm1, ymm1, ymm2",
                "vpacksswb ymm3, ymm3, ymm4",
                "vpermq ymm1, ymm1, 0xD8",
                "vpermq ymm3, ymm3, 0xD8",
                "vpmovmskb {greater:e}, ymm1",
                "vpmovmskb {above:e}, ymm3",
                "shl {above:r}, 32",
                "or {greater:r}, {above:r}",
                "vzeroupper",
                piece = in(reg) u32::from(piece),
                pieces = in(reg) pieces.as_ptr(),
                less = out(reg) less,
                greater = out(reg) greater,
                above = out(reg) _,
                // `vzeroupper` changes the upper halves of all, in which a build with AVX may keep something.
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly)
            );
        }
        (
            less.trailing_ones() as usize,
            (greater | 1 << BOUNDS).trailing_zeros() as usize,
        )
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) use super::portable as around;

    pub(super) fn available() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The greatest piece.
    const MOST: u16 = (1 << 15) - 1;

    fn pieces() -> impl Strategy<Value = [u16; BOUNDS]> {
        let numbers = prop::collection::vec(any::<u16>(), BOUNDS);
        (numbers, prop_oneof![Just(MOST), Just(31)])
            .prop_map(|(numbers, mask)| std::array::from_fn(|slot| numbers[slot] & mask))
    }

    proptest! {
        #[test]
        fn both_ways_agree(mut pieces in pieces(), piece in 0..=MOST, at in 0..BOUNDS, sorted: bool) {
            if sorted {
                pieces.sort_unstable();
            }
            let atomic = pieces.map(AtomicU16::new);
            for piece in [piece, pieces[at], pieces[at].saturating_sub(1), 0, MOST] {
                let found = around(&atomic, piece, false);
                prop_assert_eq!(around(&atomic, piece, has_vectors()), found);
                prop_assert!(found.0 <= found.1 && found.1 <= BOUNDS);
                if sorted {
                    let wanted = (
                        pieces.partition_point(|other| *other < piece),
                        pieces.partition_point(|other| *other <= piece),
                    );
                    prop_assert_eq!(found, wanted);
                }
            }
        }
    }
}
