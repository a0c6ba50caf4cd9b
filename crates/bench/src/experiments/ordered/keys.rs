//! Keys and values, all from one number each.

use halocline_workloads::{SplitMix64, Zipf};

/// Keys of one seed, in an order that says nothing about them; no two numbers have the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys(u64);

impl Keys {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Returns the key of a number. Each step is invertible, so that different numbers have different keys.
    pub(super) fn key(self, number: u64) -> u64 {
        let mixed = number.wrapping_add(self.0);
        let mixed = (mixed ^ mixed >> 31).wrapping_mul(0x7FB5_D329_728E_A185);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x81DA_DEF4_BC2D_D44D);
        mixed ^ mixed >> 33
    }

    /// Returns the keys of a range of numbers.
    pub(super) fn range(self, numbers: std::ops::Range<usize>) -> Vec<u64> {
        numbers.map(|number| self.key(number as u64)).collect()
    }

    /// Draws `count` keys of numbers below `numbers`, with the skew of `zipf`, or uniformly if it is `None`.
    /// With skew, the keys of low numbers are the frequent ones.
    pub(super) fn drawn(
        self,
        numbers: usize,
        zipf: Option<&Zipf>,
        count: usize,
        rng: &mut SplitMix64,
    ) -> Vec<u64> {
        let mut number = || match zipf {
            Some(zipf) => zipf.sample(rng),
            None => rng.below(numbers as u64),
        };
        (0..count).map(|_| self.key(number())).collect()
    }
}

/// Order-independent sum of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    entries: u64,
    sum: u64,
}

impl Sum {
    pub(super) fn add(&mut self, key: u64, value: u64) {
        self.entries += 1;
        // Mixed before it is added, so that two entries that have exchanged their values differ in their sum.
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(value);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x7FB5_D329_728E_A185);
        self.sum = self.sum.wrapping_add(mixed ^ mixed >> 29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_numbers_have_the_same_key() {
        let mut keys = Keys::new(42).range(0..10_000);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 10_000);
        assert_ne!(Keys::new(1).key(0), Keys::new(2).key(0));
    }

    #[test]
    fn sums_do_not_depend_on_the_order() {
        let sum = |entries: &[(u64, u64)]| {
            let mut sum = Sum::default();
            entries.iter().for_each(|(key, value)| sum.add(*key, *value));
            sum
        };
        assert_eq!(sum(&[(1, 2), (3, 4)]), sum(&[(3, 4), (1, 2)]));
        assert_ne!(sum(&[(1, 2), (3, 4)]), sum(&[(1, 4), (3, 2)]));
    }
}
