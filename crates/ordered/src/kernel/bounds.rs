//! Comparison of a key's piece with all pieces of an inner node at once.
//!
//! The pieces may change concurrently. The portable implementation loads each as an atomic. The other
//! one uses vector instructions in assembly, which the rules for non-atomic accesses do not apply to:
//! each aligned piece is loaded as a whole, as by a sequence of relaxed atomic loads.
#![allow(unsafe_code, reason = "vector instructions")]

use std::sync::atomic::{AtomicU16, Ordering};

/// Number of pieces in a node.
pub(crate) const BOUNDS: usize = 56;

/// The greatest piece there can be.
const MAX_PIECE: u16 = (1 << 15) - 1;

/// Returns true if this CPU has the instructions that [`not_greater`] uses.
pub(crate) fn has_vectors() -> bool {
    imp::available()
}

/// Returns the number of pieces that are not greater than `piece`. The pieces are in ascending order and less
/// than 2^15, and `piece` is less than the greatest possible one. If the pieces are not in order, the result
/// is any number up to [`BOUNDS`]. `vectors` is the result of [`has_vectors`], or false.
#[inline(always)]
pub(crate) fn not_greater(pieces: &[AtomicU16; BOUNDS], piece: u16, vectors: bool) -> usize {
    debug_assert!(piece < MAX_PIECE);
    if vectors {
        imp::not_greater(pieces, piece)
    } else {
        portable(pieces, piece)
    }
}

#[inline(always)]
fn portable(pieces: &[AtomicU16; BOUNDS], piece: u16) -> usize {
    pieces
        .iter()
        .map(|other| usize::from(other.load(Ordering::Relaxed) <= piece))
        .sum()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::asm;
    use std::sync::atomic::AtomicU16;

    use super::BOUNDS;

    pub(super) fn available() -> bool {
        std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt")
    }

    /// Counts the pieces that are not greater than `piece`. Must be called only if [`available`] has returned
    /// true.
    #[inline(always)]
    pub(super) fn not_greater(pieces: &[AtomicU16; BOUNDS], piece: u16) -> usize {
        const { assert!(BOUNDS == 56) };
        let count: u64;
        // SAFETY: the caller has found AVX2 and POPCNT. The code reads the 112 bytes of `pieces`, which are
        // borrowed, stores nothing, and clobbers only the named registers. The comparison is signed, which is
        // correct for numbers up to 2^15 - 1.
        unsafe {
            asm!(
                "vmovd xmm0, {above:e}",
                "vpbroadcastw ymm0, xmm0",
                "vpcmpgtw ymm1, ymm0, [{pieces}]",
                "vpcmpgtw ymm2, ymm0, [{pieces} + 32]",
                "vpcmpgtw ymm3, ymm0, [{pieces} + 64]",
                "vpcmpgtw xmm4, xmm0, [{pieces} + 96]",
                // One byte per piece; their order does not affect the count.
                "vpacksswb ymm1, ymm1, ymm2",
                "vpacksswb ymm3, ymm3, ymm4",
                "vpmovmskb {above:e}, ymm1",
                "vpmovmskb {count:e}, ymm3",
                "shl {count:r}, 32",
                "or {count:r}, {above:r}",
                "popcnt {count:r}, {count:r}",
                "vzeroupper",
                above = inout(reg) u32::from(piece) + 1 => _,
                pieces = in(reg) pieces.as_ptr(),
                count = out(reg) count,
                // `vzeroupper` clears the upper halves of all vector registers, in which code compiled for
                // AVX may hold values.
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly)
            );
        }
        count as usize
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) use super::portable as not_greater;

    pub(super) fn available() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces() -> impl Strategy<Value = [u16; BOUNDS]> {
        let numbers = prop::collection::vec(any::<u16>(), BOUNDS);
        (numbers, prop_oneof![Just(MAX_PIECE), Just(31)])
            .prop_map(|(numbers, mask)| std::array::from_fn(|slot| numbers[slot] & mask))
    }

    proptest! {
        #[test]
        fn both_ways_agree(mut pieces in pieces(), piece in 0..MAX_PIECE, at in 0..BOUNDS, sorted: bool) {
            if sorted {
                pieces.sort_unstable();
            }
            let atomic = pieces.map(AtomicU16::new);
            let last = MAX_PIECE - 1;
            for piece in [piece, pieces[at].min(last), pieces[at].saturating_sub(1), 0, last] {
                let found = not_greater(&atomic, piece, false);
                prop_assert_eq!(not_greater(&atomic, piece, has_vectors()), found);
                if sorted {
                    prop_assert_eq!(found, pieces.partition_point(|other| *other <= piece));
                }
            }
        }
    }
}
