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
