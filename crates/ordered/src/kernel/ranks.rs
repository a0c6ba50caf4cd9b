//! Sorting of the few entries of a leaf. The rank of a key is the number of lesser keys, found by
//! comparing all with all.
//!
//! No branch depends on the keys, so none is mispredicted.
#![allow(unsafe_code, reason = "vector instructions")]

/// Number of keys that are ranked at once.
pub(crate) const RANKED: usize = 16;

/// Up to `N` times [`RANKED`] entries in arbitrary order.
#[derive(Debug)]
pub(crate) struct UnsortedEntries<const N: usize> {
    count: usize,
    keys: [[u64; RANKED]; N],
    values: [[u64; RANKED]; N],
}

impl<const N: usize> UnsortedEntries<N> {
    #[inline(always)]
    pub(crate) fn new() -> UnsortedEntries<N> {
        UnsortedEntries {
            count: 0,
            keys: [[u64::MAX; RANKED]; N],
            values: [[0; RANKED]; N],
        }
    }

    /// Adds an entry. Entries beyond the capacity are dropped; only a reader of a leaf that is being
    /// changed can have that many.
    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64, value: u64) {
        self.put(self.count, key, value);
        self.count += 1;
    }

    #[inline(always)]
    fn put(&mut self, at: usize, key: u64, value: u64) {
        if let Some(place) = self.keys.as_flattened_mut().get_mut(at) {
            *place = key;
            self.values.as_flattened_mut()[at] = value;
        }
    }

    /// Appends the entries in ascending order of their keys, which must be distinct. `vectors` is the
    /// result of [`has_vectors`](super::has_vectors), or false.
    #[inline(always)]
    pub(crate) fn append_to(&self, into: &mut Vec<(u64, u64)>, vectors: bool) {
        let count = self.count.min(N * RANKED);
        let start = into.len();
        into.resize(start + count, (0, 0));
        let run = &mut into[start..];
        let keys = &self.keys.as_flattened()[..count];
        for (number, some) in keys.chunks(RANKED).enumerate() {
            let ranks = ranks(&self.keys[number], keys, vectors);
            for ((rank, key), value) in ranks.iter().zip(some).zip(&self.values[number]) {
                run[*rank as usize % count] = (*key, *value);
            }
        }
    }
}

/// The upper half of a set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpperHalf {
    /// Bitmap of the keys that are not less than the median.
    pub(crate) bits: u64,
    /// The subset with the highest keys, as many as were requested.
    pub(crate) highest: u64,
    /// The least key of the upper half.
    pub(crate) least: u64,
}

/// Finds the upper half of the first `count` keys, and the `highest` keys of it, at most half of all. The
/// keys must be distinct and not empty. `vectors` is as for [`append_to`](UnsortedEntries::append_to).
///
/// # Panics
/// Panics if there are fewer than `count` keys.
#[inline(always)]
pub(crate) fn upper<const N: usize>(
    keys: &[[u64; RANKED]; N],
    count: usize,
    highest: usize,
    vectors: bool,
) -> UpperHalf {
    const { assert!(N * RANKED <= 64) };
    let all = &keys.as_flattened()[..count];
    let half = count as u64 / 2;
    let least = [half, half + 1, (count - highest) as u64];
    let mut bits = [0; 3];
    for (number, own) in keys.iter().enumerate() {
        let above = above(own, all, least, vectors);
        for (bits, above) in bits.iter_mut().zip(above) {
            *bits |= u64::from(above) << (number * RANKED);
        }
    }
    // Clears the bits of slots after the last key.
    let counted = u64::MAX >> (64 - count);
    let [upper, behind, highest] = bits.map(|bits| bits & counted);
    UpperHalf {
        bits: upper,
        highest,
        least: all[(upper & !behind).trailing_zeros() as usize % count],
    }
}

/// Returns, for each of three thresholds, a bitmap of the keys that exceed at least that many keys of
/// `all`. `vectors` is as above.
#[inline(always)]
fn above(keys: &[u64; RANKED], all: &[u64], least: [u64; 3], vectors: bool) -> [u16; 3] {
    if vectors {
        imp::above(keys, all, least)
    } else {
        portable_above(keys, all, least)
    }
}

#[inline(always)]
fn portable_above(keys: &[u64; RANKED], all: &[u64], least: [u64; 3]) -> [u16; 3] {
    let ranks = portable(keys, all);
    least.map(|least| {
        let ranks = ranks.iter().enumerate();
        ranks.fold(0, |above, (at, rank)| above | u16::from(*rank >= least) << at)
    })
}

/// Appends the entries in the bitmap `used` in ascending order of their keys, which must be distinct.
/// `vectors` is as above.
#[inline(always)]
pub(crate) fn append_sorted<const N: usize>(
    entries: &[(u64, u64); N],
    used: u32,
    vectors: bool,
    into: &mut Vec<(u64, u64)>,
) {
    const { assert!(N < RANKED) };
    let mut keys = [u64::MAX; RANKED];
    for (slot, (key, (own, _))) in keys.iter_mut().zip(entries).enumerate() {
        *key = if used >> slot & 1 == 1 { *own } else { u64::MAX };
    }
    let ranks = ranks(&keys, &keys[..N], vectors);
    let start = into.len();
    into.extend_from_slice(&[(0, 0); RANKED]);
    if let Some(run) = into.last_chunk_mut::<RANKED>() {
        for (slot, (rank, entry)) in ranks.iter().zip(entries).enumerate() {
            // Unused entries go after all used ones.
            let rank = if used >> slot & 1 == 1 {
                *rank as usize
            } else {
                RANKED - 1
            };
            run[rank % RANKED] = *entry;
        }
    }
    into.truncate(start + (used & ((1 << N) - 1)).count_ones() as usize);
}

/// Returns for each key the number of keys in `all` that are less. `vectors` is as above.
#[inline(always)]
fn ranks(keys: &[u64; RANKED], all: &[u64], vectors: bool) -> [u64; RANKED] {
    if vectors {
        imp::ranks(keys, all)
    } else {
        portable(keys, all)
    }
}

#[inline(always)]
fn portable(keys: &[u64; RANKED], all: &[u64]) -> [u64; RANKED] {
    let mut ranks = [0; RANKED];
    for other in all {
        for (rank, key) in ranks.iter_mut().zip(keys) {
            *rank += u64::from(other < key);
        }
    }
    ranks
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::x86_64::{
        __m256i, _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
        _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_xor_si256,
    };

    use super::RANKED;

    /// Number of vectors of four keys.
    const VECTORS: usize = RANKED / 4;

    #[inline(always)]
    pub(super) fn above(keys: &[u64; RANKED], all: &[u64], least: [u64; 3]) -> [u16; 3] {
        // SAFETY: the caller has found AVX2, and the function has no other requirement.
        unsafe { compare_with(keys, all, least) }
    }

    #[inline(always)]
    pub(super) fn ranks(keys: &[u64; RANKED], all: &[u64]) -> [u64; RANKED] {
        // SAFETY: the caller has found AVX2, and the function has no other requirement.
        unsafe { compare(keys, all) }
    }

    /// Implements [`above`] with AVX2.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn compare_with(keys: &[u64; RANKED], all: &[u64], least: [u64; 3]) -> [u16; 3] {
        // SAFETY: the same.
        let ranks = unsafe { count(keys, all) };
        let mut above = [0; 3];
        for (above, least) in above.iter_mut().zip(least) {
            let least = _mm256_set1_epi64x(least as i64);
            for (number, ranks) in ranks.into_iter().enumerate() {
                let less = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(least, ranks)));
                *above |= ((!less & 0xF) as u16) << (4 * number);
            }
        }
        above
    }

    /// Implements [`ranks`] with AVX2.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn compare(keys: &[u64; RANKED], all: &[u64]) -> [u64; RANKED] {
        // SAFETY: the same.
        let ranks = unsafe { count(keys, all) };
        let mut stored = [0; RANKED];
        for (stored, ranks) in stored.as_chunks_mut::<4>().0.iter_mut().zip(ranks) {
            // SAFETY: stores the 32 bytes of four ranks.
            unsafe { _mm256_storeu_si256(stored.as_mut_ptr().cast::<__m256i>(), ranks) };
        }
        stored
    }

    /// Counts, for each key, the keys in `all` that are less.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn count(keys: &[u64; RANKED], all: &[u64]) -> [__m256i; VECTORS] {
        // The comparison is signed, so the sign bits are inverted.
        let top = _mm256_set1_epi64x(i64::MIN);
        let mut own = [_mm256_setzero_si256(); VECTORS];
        for (own, keys) in own.iter_mut().zip(keys.as_chunks::<4>().0) {
            // SAFETY: reads the 32 bytes of four keys.
            let keys = unsafe { _mm256_loadu_si256(keys.as_ptr().cast::<__m256i>()) };
            *own = _mm256_xor_si256(keys, top);
        }
        let mut ranks = [_mm256_setzero_si256(); VECTORS];
        for other in all {
            let other = _mm256_set1_epi64x((other ^ 1 << 63) as i64);
            for (rank, own) in ranks.iter_mut().zip(&own) {
                // A true comparison yields -1.
                *rank = _mm256_sub_epi64(*rank, _mm256_cmpgt_epi64(*own, other));
            }
        }
        ranks
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) use super::{portable as ranks, portable_above as above};
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::has_vectors;
    use super::*;

    /// Removes entries with duplicate keys.
    fn distinct(entries: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut distinct = entries.to_vec();
        distinct.sort_unstable();
        distinct.dedup_by_key(|(key, _)| *key);
        distinct
    }

    proptest! {
        #[test]
        fn both_ways_agree(keys: [u64; RANKED], small: [u8; RANKED], count in 0..=RANKED) {
            for keys in [keys, small.map(u64::from), small.map(|key| u64::MAX - u64::from(key))] {
                let all = &keys[..count];
                let wanted = keys.map(|key| all.iter().filter(|other| **other < key).count() as u64);
                prop_assert_eq!(ranks(&keys, all, false), wanted);
                prop_assert_eq!(ranks(&keys, all, has_vectors()), wanted);
            }
        }

        #[test]
        fn the_upper_half_is_found(keys in prop::collection::hash_set(any::<u64>(), 1..=64), greatest: bool, behind: u64, part: prop::sample::Index) {
            let mut keys: Vec<u64> = keys.into_iter().collect();
            if greatest && !keys.contains(&u64::MAX) {
                keys[0] = u64::MAX;
            }
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let least = sorted[keys.len() / 2];
            let from = |least: u64| {
                let some = keys.iter().enumerate().filter(|(_, key)| **key >= least);
                some.fold(0, |bits, (number, _)| bits | 1_u64 << number)
            };
            let part = part.index(keys.len() / 2 + 1);
            let highest = sorted.get(keys.len() - part).map_or(0, |least| from(*least));
            let wanted = UpperHalf { bits: from(least), highest, least };
            let mut padded = [[behind; RANKED]; 4];
            padded.as_flattened_mut()[..keys.len()].copy_from_slice(&keys);
            for vectors in [false, has_vectors()] {
                prop_assert_eq!(upper(&padded, keys.len(), part, vectors), wanted);
            }
        }

        #[test]
        fn entries_are_sorted(some: Vec<(u64, u64)>, greatest: bool) {
            let mut entries = some;
            if greatest {
                entries.push((u64::MAX, 7));
            }
            let mut sorted = distinct(&entries);
            sorted.truncate(64);
            let mut unsorted = UnsortedEntries::<4>::new();
            // Even positions first.
            for (key, value) in sorted.iter().step_by(2).chain(sorted.iter().skip(1).step_by(2)) {
                unsorted.push(*key, *value);
            }
            for vectors in [false, has_vectors()] {
                let mut into = vec![(9, 9)];
                unsorted.append_to(&mut into, vectors);
                prop_assert_eq!((into[0], &into[1..]), ((9, 9), &sorted[..]));
            }
        }

        #[test]
        fn slots_in_use_are_sorted(entries: [(u64, u64); 14], used in 0_u32..1 << 14, greatest in 0_usize..14) {
            let mut entries = entries;
            entries[greatest].0 = u64::MAX;
            let some: Vec<_> = (0..14).filter(|slot| used >> slot & 1 == 1).map(|slot| entries[slot]).collect();
            let sorted = distinct(&some);
            prop_assume!(sorted.len() == some.len());
            for vectors in [false, has_vectors()] {
                let mut into = vec![(9, 9)];
                append_sorted(&entries, used, vectors, &mut into);
                prop_assert_eq!((into[0], &into[1..]), ((9, 9), &sorted[..]));
            }
        }
    }
}
