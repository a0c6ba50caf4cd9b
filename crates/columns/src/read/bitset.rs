//! Sets of places, a bit for each: what probes look up.

/// Bits by place; places after the last have none. As many as a power of two may share one: it is set then
/// if that of any of them is.
#[derive(Debug, Clone)]
pub struct Bitset {
    /// One bit for each place, or each that share it, and one at least after the last, which is 0.
    words: Vec<u64>,
    /// A multiple of those that share a bit.
    places: u32,
    /// The logarithm of how many share a bit.
    shift: u32,
}

impl Bitset {
    /// Creates a set of `places` slots, none of them set.
    pub fn new(places: u32) -> Self {
        Self {
            words: vec![0; places as usize / 64 + 1],
            places,
            shift: 0,
        }
    }

    /// Returns a copy in which `1 << shift` neighbouring slots share a bit; the number of slots is rounded up
    /// to whole bits. O(slots / 64 + bits set).
    ///
    /// # Panics
    /// If slots already share bits, there are more than 2^31 slots, or `shift` is more than 31.
    #[must_use]
    pub fn shared(&self, shift: u32) -> Self {
        assert!(
            self.shift == 0 && self.places <= 1 << 31,
            "places share a bit once"
        );
        let bits = self.places.div_ceil(1 << shift);
        let mut shared = Self {
            words: vec![0; bits as usize / 64 + 1],
            places: bits << shift,
            shift,
        };
        for (first, word) in (0..).step_by(64).zip(&self.words) {
            let mut word = *word;
            while word != 0 {
                shared.set(first + word.trailing_zeros());
                word &= word - 1;
            }
        }
        shared
    }

    /// Sets the bit of a place; says whether it was set.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn set(&mut self, place: u32) -> bool {
        assert!(place < self.places, "there is no such place");
        let place = place >> self.shift;
        let (word, bit) = (&mut self.words[place as usize / 64], 1 << (place % 64));
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// Returns the number of slots: numbers from here on have no bit.
    pub fn places(&self) -> u32 {
        self.places
    }

    /// Returns the base-2 logarithm of the number of slots that share a bit.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the number of set bits. O(slots / 64).
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns true if all of them are set. O(slots / 64).
    pub fn is_full(&self) -> bool {
        self.count() == self.places >> self.shift
    }

    /// Returns its size in bytes of DRAM.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Returns 1 if the bit of a slot is set, otherwise 0, also for slots beyond the last.
    #[inline(always)]
    pub fn has(&self, place: u32) -> usize {
        // Slots beyond the last lead to the bit after it, which is never set. So there is no branch.
        let place = (place.min(self.places) >> self.shift) as usize;
        (self.words[place / 64] >> (place % 64)) as usize & 1
    }

    /// Returns true if the bit of one of the places `first..=last` is set. O(last - first).
    pub fn any(&self, first: u32, last: u32) -> bool {
        if first > last || first >= self.places {
            return false;
        }
        let (first, last) = (first >> self.shift, last.min(self.places - 1) >> self.shift);
        let (from, to) = (first as usize / 64, last as usize / 64);
        let (upper, lower) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
        if from == to {
            return self.words[from] & upper & lower != 0;
        }
        self.words[from] & upper != 0
            || self.words[to] & lower != 0
            || self.words[from + 1..to].iter().any(|word| *word != 0)
    }

    /// Returns the bits in words of 64, with at least one bit after the last.
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
            let mut bits = Bitset::new(places);
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

    #[test]
    fn ranges_of_places_have_a_bit_if_one_of_them_has() {
        for (places, shift) in [(1, 0), (64, 0), (65, 0), (300, 0), (300, 3)] {
            let mut bits = Bitset::new(places);
            for place in (0..places).filter(|place| place % 71 == 3 || *place == 64) {
                bits.set(place);
            }
            let bits = if shift > 0 { bits.shared(shift) } else { bits };
            for first in 0..places + 2 {
                for last in (0..places + 2).chain([u32::MAX]) {
                    let any = (first..=last.min(places + 9)).any(|place| bits.has(place) == 1);
                    assert_eq!(bits.any(first, last), any, "{first}..={last} of {places}");
                }
            }
        }
    }

    #[test]
    fn places_share_bits() {
        for (places, shift) in [(1, 3), (63, 1), (64, 6), (65, 6), (1000, 0), (1000, 4), (5, 31)] {
            let mut bits = Bitset::new(places);
            for place in (0..places).filter(|place| place % 37 == 1) {
                bits.set(place);
            }
            let shared = bits.shared(shift);
            for place in 0..places {
                let first = place >> shift << shift;
                let any = (first..first.saturating_add(1 << shift)).any(|place| bits.has(place) == 1);
                assert_eq!(shared.has(place), usize::from(any), "place {place} of {places}");
            }
            assert_eq!((shared.has(shared.places()), shared.has(u32::MAX)), (0, 0));
            assert!(shared.count() <= bits.count());
        }
    }
}
