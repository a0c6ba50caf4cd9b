//! The one file of this crate with `unsafe`: which rows of a block are in a dimension, eight at a time with AVX2. Every
//! function here is safe to call.
#![allow(unsafe_code, reason = "gathers read by address")]

use halocline_columns::{BLOCK_ROWS, BlockMask};

/// Bits by place; places behind the last have none.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    /// One bit for each place and one at least behind the last, which is 0.
    words: Vec<u64>,
    places: u32,
}

impl Bits {
    /// None set.
    pub(super) fn new(places: u32) -> Self {
        Self {
            words: vec![0; places as usize / 64 + 1],
            places,
        }
    }

    /// Sets the bit of a place; says whether it was set.
    ///
    /// # Panics
    /// If there is no such place.
    pub(super) fn set(&mut self, place: u32) -> bool {
        assert!(place < self.places, "there is no such place");
        let (word, bit) = (&mut self.words[place as usize / 64], 1 << (place % 64));
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// How many places there are: what is read from here on has no bit.
    pub(super) fn places(&self) -> u32 {
        self.places
    }

    /// Bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// 1 for a place whose bit is set.
    #[inline(always)]
    pub(super) fn has(&self, place: u32) -> usize {
        let place = place.min(self.places) as usize;
        (self.words[place / 64] >> (place % 64)) as usize & 1
    }

    /// Clears the bits of `mask` for rows whose place has none; with AVX2 where the machine has it.
    pub(super) fn keep(&self, places: &[u32; BLOCK_ROWS], mask: &mut BlockMask) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2.
            return unsafe { self.keep_avx2(places, mask) };
        }
        self.keep_each(places, mask);
    }

    fn keep_each(&self, places: &[u32; BLOCK_ROWS], mask: &mut BlockMask) {
        for (kept, places) in mask.iter_mut().zip(places.as_chunks::<64>().0) {
            let mut bits = 0;
            for (row, place) in places.iter().enumerate() {
                bits |= (self.has(*place) as u64) << row;
            }
            *kept &= bits;
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn keep_avx2(&self, places: &[u32; BLOCK_ROWS], mask: &mut BlockMask) {
        use std::arch::x86_64::{
            __m256i, _mm256_andnot_si256, _mm256_castsi256_ps, _mm256_i32gather_epi32, _mm256_loadu_si256,
            _mm256_min_epu32, _mm256_movemask_ps, _mm256_set1_epi32, _mm256_sllv_epi32, _mm256_srli_epi32,
        };
        let words = self.words.as_ptr().cast::<i32>();
        let (last, low) = (_mm256_set1_epi32(self.places as i32), _mm256_set1_epi32(31));
        for (kept, places) in mask.iter_mut().zip(places.as_chunks::<64>().0) {
            if *kept == 0 {
                continue;
            }
            let mut bits = 0;
            for (at, places) in places.as_chunks::<8>().0.iter().enumerate() {
                // SAFETY: 32 bytes are there, and the load needs no alignment.
                let places = unsafe { _mm256_loadu_si256(places.as_ptr().cast::<__m256i>()) };
                let places = _mm256_min_epu32(places, last);
                let at_word = _mm256_srli_epi32::<5>(places);
                // SAFETY: a place is at most `self.places`, so the half-word of its bit is one of `words`, and its number
                // is below 2^27.
                let found = unsafe { _mm256_i32gather_epi32::<4>(words, at_word) };
                // Moves the bit of the place to the sign.
                let found = _mm256_sllv_epi32(found, _mm256_andnot_si256(places, low));
                bits |= (_mm256_movemask_ps(_mm256_castsi256_ps(found)) as u64) << (at * 8);
            }
            *kept &= bits;
        }
    }
}

/// The bits that are set; with one instruction a word where the machine has it.
pub(super) fn count(mask: &BlockMask) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the machine has the instruction.
        return unsafe { count_popcnt(mask) };
    }
    count_body(mask)
}

#[inline(always)]
fn count_body(mask: &BlockMask) -> usize {
    let mut count = 0;
    for word in mask {
        count += word.count_ones() as usize;
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn count_popcnt(mask: &BlockMask) -> usize {
    count_body(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_agree() {
        for places in [1, 63, 64, 65, 1000, 100_000] {
            let mut bits = Bits::new(places);
            for place in (0..places).filter(|place| place % 3 == 0 || place % 7 == 1) {
                assert!(!bits.set(place));
                assert!(bits.set(place));
            }
            let of_row: [u32; BLOCK_ROWS] = std::array::from_fn(|row| match row {
                0..9 => places - 1,
                9..20 => places,
                20 => u32::MAX,
                _ => (row as u32).wrapping_mul(2_654_435_761) % (places + 1),
            });
            let (mut fast, mut plain) = ([!4; BLOCK_ROWS / 64], [!4; BLOCK_ROWS / 64]);
            bits.keep(&of_row, &mut fast);
            bits.keep_each(&of_row, &mut plain);
            assert_eq!(fast, plain, "{places} places");
            assert_eq!(count(&fast), count_body(&fast));
            for (row, place) in of_row.into_iter().enumerate() {
                let kept = place < places && (place % 3 == 0 || place % 7 == 1) && row % 64 != 2;
                assert_eq!(fast[row / 64] >> (row % 64) & 1 == 1, kept, "row {row}");
            }
        }
    }
}
