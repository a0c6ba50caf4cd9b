//! Comparing a key's piece with the pieces of all keys of an inner node at once.
//!
//! The pieces may be changed meanwhile. The portable way loads each as an atomic number; the other one by vector instructions, in
//! assembly, which is not bound by the rules for plain accesses: aligned numbers are loaded whole, as a run of relaxed atomic
//! loads would.
#![allow(unsafe_code, reason = "vector instructions")]

use std::sync::atomic::{AtomicU16, Ordering};

/// Pieces that are compared.
pub(crate) const BOUNDS: usize = 56;

/// The greatest piece there can be.
const MOST: u16 = (1 << 15) - 1;

/// Whether this CPU has what [`not_greater`] can use.
pub(crate) fn has_vectors() -> bool {
    imp::available()
}

/// How many of the pieces, which are in ascending order, are not greater than `piece`: where the first greater one is. All are less
/// than 2^15, and `piece` is less than the greatest of them can be. Of pieces in no order it gives any number up to [`BOUNDS`]. `vectors` is
/// what [`has_vectors`] says, or false.
#[inline(always)]
pub(crate) fn not_greater(pieces: &[AtomicU16; BOUNDS], piece: u16, vectors: bool) -> usize {
    debug_assert!(piece < MOST);
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

    /// Only where it is [`available`].
    #[inline(always)]
    pub(super) fn not_greater(pieces: &[AtomicU16; BOUNDS], piece: u16) -> usize {
        const { assert!(BOUNDS == 56) };
        let count: u64;
        // SAFETY: the caller has found AVX2 and POPCNT. Reads the 112 bytes of `pieces`, which are borrowed; stores nothing; clobbers
        // what is named. Comparisons are signed, which numbers up to 2^15 - 1 are not changed by.
        unsafe {
            asm!(
                "vmovd xmm0, {above:e}",
                "vpbroadcastw ymm0, xmm0",
                "vpcmpgtw ymm1, ymm0, [{pieces}]",
                "vpcmpgtw ymm2, ymm0, [{pieces} + 32]",
                "vpcmpgtw ymm3, ymm0, [{pieces} + 64]",
                "vpcmpgtw xmm4, xmm0, [{pieces} + 96]",
                // One byte for each piece, in an order that does not matter.
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
                // `vzeroupper` changes the upper halves of all, in which a build with AVX may keep something.
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
        (numbers, prop_oneof![Just(MOST), Just(31)])
            .prop_map(|(numbers, mask)| std::array::from_fn(|slot| numbers[slot] & mask))
    }

    proptest! {
        #[test]
        fn both_ways_agree(mut pieces in pieces(), piece in 0..MOST, at in 0..BOUNDS, sorted: bool) {
            if sorted {
                pieces.sort_unstable();
            }
            let atomic = pieces.map(AtomicU16::new);
            for piece in [piece, pieces[at].min(MOST - 1), pieces[at].saturating_sub(1), 0, MOST - 1] {
                let found = not_greater(&atomic, piece, false);
                prop_assert_eq!(not_greater(&atomic, piece, has_vectors()), found);
                if sorted {
                    prop_assert_eq!(found, pieces.partition_point(|other| *other <= piece));
                }
            }
        }
    }
}
