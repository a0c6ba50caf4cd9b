//! Sorting the few entries of a leaf: the rank of a key is how many are less, and all are compared with all.
//!
//! No branch depends on the keys, which are in no order, so that nothing is mispredicted.
#![allow(unsafe_code, reason = "vector instructions")]

/// Keys that are ranked at once.
pub(crate) const RANKED: usize = 16;

/// How many of the keys are less than each. `vectors` is what [`has_vectors`](super::has_vectors) says, or false.
#[inline(always)]
pub(crate) fn ranks(keys: &[u64; RANKED], vectors: bool) -> [u64; RANKED] {
    if vectors { imp::ranks(keys) } else { portable(keys) }
}

#[inline(always)]
fn portable(keys: &[u64; RANKED]) -> [u64; RANKED] {
    let mut ranks = [0; RANKED];
    for other in keys {
        for (rank, key) in ranks.iter_mut().zip(keys) {
            *rank += u64::from(other < key);
        }
    }
    ranks
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use super::RANKED;

    #[inline(always)]
    pub(super) fn ranks(keys: &[u64; RANKED]) -> [u64; RANKED] {
        // SAFETY: the caller has found AVX2, and the function has no other requirement.
        unsafe { compiled_for_avx2(keys) }
    }

    /// # Safety
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn compiled_for_avx2(keys: &[u64; RANKED]) -> [u64; RANKED] {
        super::portable(keys)
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) use super::portable as ranks;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::has_vectors;
    use super::*;

    proptest! {
        #[test]
        fn both_ways_agree(keys: [u64; RANKED], small: [u8; RANKED]) {
            for keys in [keys, small.map(u64::from), small.map(|key| u64::MAX - u64::from(key))] {
                let wanted = keys.map(|key| keys.iter().filter(|other| **other < key).count() as u64);
                prop_assert_eq!(ranks(&keys, false), wanted);
                prop_assert_eq!(ranks(&keys, has_vectors()), wanted);
            }
        }
    }
}
