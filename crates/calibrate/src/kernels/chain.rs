//! Chains of dependent reads: every line holds the offsets of two successors.
//!
//! The first word leads to a line elsewhere: a full-period linear congruential generator orders the lines, so
//! that one pass of sequential stores links them all into one cycle, and no prefetcher follows it. The
//! second word leads to the next line.

use std::sync::atomic::{AtomicBool, Ordering};

use halocline_media::{LINE, Medium};

/// Offset from which [`walk`] visits the lines in an order that no prefetcher follows.
pub const SHUFFLED: u64 = 0;

/// Offset from which [`walk`] visits one line after the other.
pub const SEQUENTIAL: u64 = 8;

const CHUNK_LINES: u64 = 1024;
const LINE_WORDS: usize = (LINE / 8) as usize;
/// Multiplier and increment of the generator. The period is full for any power of two because the
/// multiplier is one more than a multiple of 4 and the increment is odd (Hull and Dobell, 1962).
const MULTIPLIER: u64 = 0xD134_2543_DE82_EF95;
const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

/// Overwrites the first `bytes` of the medium, rounded down to a power of two and at least a line, with both
/// chains. Returns the number of bytes written.
///
/// # Panics
/// If the medium is shorter than that.
pub fn link(medium: &Medium, bytes: u64) -> u64 {
    link_unless(medium, bytes, &AtomicBool::new(false))
}

/// Does the same, or a part of it if `cancelled` is set meanwhile.
pub(crate) fn link_unless(medium: &Medium, bytes: u64, cancelled: &AtomicBool) -> u64 {
    let lines = floor_power(bytes / LINE);
    let mut chunk = Vec::with_capacity((CHUNK_LINES * LINE) as usize);
    for first in (0..lines).step_by(CHUNK_LINES as usize) {
        if cancelled.load(Ordering::Relaxed) {
            break;
        }
        chunk.clear();
        for line in first..(first + CHUNK_LINES).min(lines) {
            let mut words = [line; LINE_WORDS];
            words[0] = successor(line, lines) * LINE + SHUFFLED;
            words[1] = (line + 1) % lines * LINE + SEQUENTIAL;
            chunk.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        medium.store(first * LINE, &chunk);
    }
    lines * LINE
}

/// Follows the chain from `at`, which is [`SHUFFLED`], [`SEQUENTIAL`] or the result of an earlier call, for
/// `steps` reads that wait for each other. Returns the offset of the next read.
///
/// # Panics
/// If the medium does not hold a [linked](link) chain there.
pub fn walk(medium: &Medium, at: u64, steps: u64) -> u64 {
    let mut at = at;
    match medium.words(0, (medium.len() / 8) as usize) {
        Some(words) => (0..steps).for_each(|_| at = words.load((at / 8) as usize)),
        None => (0..steps).for_each(|_| at = medium.load_u64(at)),
    }
    at
}

/// Returns the place after `place` in an order of `places` places, a power of two, that visits all of them
/// and that no prefetcher follows.
pub(crate) fn successor(place: u64, places: u64) -> u64 {
    place.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) % places
}

/// Returns the largest power of two up to `value`, and 1 for 0.
pub(crate) fn floor_power(value: u64) -> u64 {
    match value.checked_ilog2() {
        Some(bits) => 1 << bits,
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use halocline_media::Dram;

    use super::*;

    #[test]
    fn each_chain_visits_every_line_once() {
        for lines in [1, 2, 64, 4096] {
            let medium = Medium::from(Dram::new(lines * LINE + 100).unwrap());
            assert_eq!(link(&medium, lines * LINE + 63), lines * LINE);
            for start in [SHUFFLED, SEQUENTIAL] {
                let (mut at, mut seen) = (start, vec![false; lines as usize]);
                for _ in 0..lines {
                    assert!(!std::mem::replace(&mut seen[(at / LINE) as usize], true), "{at}");
                    at = walk(&medium, at, 1);
                    assert_eq!(at % LINE, start);
                }
                assert_eq!(at, start);
            }
            assert_eq!(walk(&medium, SEQUENTIAL, 2), 2 % lines * LINE + SEQUENTIAL);
        }
    }
}
