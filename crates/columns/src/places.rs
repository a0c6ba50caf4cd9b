//! Sets of places, a bit for each: what probes look up.

/// Bits by place; places behind the last have none.
#[derive(Debug, Clone)]
pub struct PlaceBits {
    /// One bit for each place and one at least behind the last, which is 0.
    words: Vec<u64>,
    places: u32,
}

impl PlaceBits {
    /// So many, none of them set.
    pub fn new(places: u32) -> Self {
        Self {
            words: vec![0; places as usize / 64 + 1],
            places,
        }
    }

    /// Sets the bit of a place; says whether it was set.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn set(&mut self, place: u32) -> bool {
        assert!(place < self.places, "there is no such place");
        let (word, bit) = (&mut self.words[place as usize / 64], 1 << (place % 64));
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// How many places there are: what is read from here on has no bit.
    pub fn places(&self) -> u32 {
        self.places
    }

    /// Whether all of them are set. O(places / 64).
    pub fn is_full(&self) -> bool {
        self.words.iter().map(|word| word.count_ones()).sum::<u32>() == self.places
    }

    /// Bytes of DRAM.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// 1 for a place whose bit is set.
    #[inline(always)]
    pub fn has(&self, place: u32) -> usize {
        let place = place.min(self.places) as usize;
        (self.words[place / 64] >> (place % 64)) as usize & 1
    }

    /// 64 places each, with one at least behind the last.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_have_no_bit() {
        for places in [1, 63, 64, 65, 1000] {
            let mut bits = PlaceBits::new(places);
            for place in 0..places {
                assert!(!bits.set(place));
                assert!(bits.set(place));
                assert_eq!(bits.is_full(), place + 1 == places);
            }
            assert_eq!(
                (bits.has(places - 1), bits.has(places), bits.has(u32::MAX)),
                (1, 0, 0)
            );
        }
    }
}
