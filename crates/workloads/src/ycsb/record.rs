//! Keys and values of records.

use crate::SplitMix64;

/// Mixes the bits of `number`; different numbers give different results.
pub(super) fn scramble(number: u64) -> u64 {
    // One step of SplitMix64 adds a constant and applies an invertible finaliser.
    SplitMix64::new(number).next_u64()
}

/// Returns the key of a record: "user" and the digits of its scrambled number, 5 to 24 bytes.
#[must_use]
pub fn ycsb_key(record: u64) -> String {
    format!("user{}", scramble(record))
}

/// Fills `value` with printable bytes that depend on `record` and `version` only.
pub fn ycsb_value(record: u64, version: u64, value: &mut [u8]) {
    let mut rng = SplitMix64::stream(record, version);
    for chunk in value.chunks_mut(8) {
        let word = rng.next_u64().to_le_bytes();
        for (byte, random) in chunk.iter_mut().zip(word) {
            *byte = b' ' + random % 95;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn value(record: u64, version: u64, length: usize) -> Vec<u8> {
        let mut value = vec![0; length];
        ycsb_value(record, version, &mut value);
        value
    }

    #[test]
    fn keys_stay_the_same_in_every_release() {
        // The finaliser of SplitMix64 for the seed 0, as published.
        assert_eq!(ycsb_key(0), "user16294208416658607535");
    }

    #[test]
    fn keys_are_unique_and_of_the_documented_length() {
        let keys: HashSet<String> = (0..10_000).map(ycsb_key).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| (5..=24).contains(&key.len())));
        // Records in sequence must not be neighbours in key order.
        let mut first: Vec<String> = (0..100).map(ycsb_key).collect();
        let loaded = first.clone();
        first.sort();
        assert_ne!(first, loaded);
    }

    #[test]
    fn values_are_printable_and_repeat() {
        for length in [0, 1, 7, 8, 9, 100, 1000] {
            let found = value(3, 1, length);
            assert!(found.iter().all(|byte| (b' '..=b'~').contains(byte)), "{length}");
            assert_eq!(found, value(3, 1, length));
            assert_eq!(found, value(3, 1, 1000)[..length]);
        }
    }

    #[test]
    fn values_differ_by_record_and_version() {
        let mut values = HashSet::new();
        for record in 0..50 {
            for version in 0..50 {
                values.insert(value(record, version, 16));
            }
        }
        assert_eq!(values.len(), 2500);
    }
}
