//! Any bytes, in pieces that end anywhere: the replies are those to the bytes in one piece.
//!
//! The first byte is the number of ends, and the pairs of bytes after it are these ends. So a seed is a
//! zero byte before text.
#![no_main]

use halocline_memcached::fuzzing::compare_pieces;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&count, rest)) = data.split_first() else {
        return;
    };
    let pairs = usize::from(count % 8);
    let Some((ends, bytes)) = rest.split_at_checked(pairs * 2) else {
        return;
    };
    let (ends, _) = ends.as_chunks::<2>();
    let mut ends: Vec<usize> = ends
        .iter()
        .map(|end| usize::from(u16::from_le_bytes(*end)).min(bytes.len()))
        .collect();
    ends.sort_unstable();
    // Without ends of its own, an input is split at a quarter and at the half.
    if ends.is_empty() {
        ends = vec![bytes.len() / 4, bytes.len() / 2];
    }
    compare_pieces(bytes, &ends);
});
