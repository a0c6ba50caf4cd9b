//! Lies of the log: records whose changes are none, of tables that are not there, with Arrow messages and
//! bitmaps that lie about their lengths.

use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::damage::Owner;
use crate::image::{LOG_COUNTS, set_word, word};

use super::{Draft, lie_in, seal};

/// Bytes of the header of a record of the pool, and of the engine's in it.
const HEADER: usize = 8;
const RECORD: usize = 8;

pub(super) fn lie(draft: &mut Draft<'_>, rng: &mut SplitMix64) {
    let image = draft.image;
    draft.owners.insert(Owner::Object("log".to_owned()));
    let log = image.of_kind("log")[0].extents[0].clone();
    let start = word(&image.bytes, log.entry + 16);
    let bytes = &mut draft.bytes[log.bytes];
    let end = bytes.len() - LOG_COUNTS;
    let records = records(&bytes[..end], start);
    assert!(!records.is_empty(), "the log has records");
    draft.story = "log, ".to_owned();
    for _ in 0..=rng.below(3) {
        let (at, len) = records[rng.below(records.len() as u64) as usize];
        let payload = at + HEADER;
        draft.story += &match rng.below(8) {
            0 => lie_in(bytes, payload, &[(0, 4), (4, 4)], rng),
            1 => lie_in(bytes, payload + RECORD, &[(0, 4), (4, 4), (8, 8), (16, 8)], rng),
            2 => lie_in(
                bytes,
                payload + RECORD + 24,
                &[(0, 4), (4, 4), (8, 4), (12, 4)],
                rng,
            ),
            _ => {
                let width = [1, 2, 4, 8][rng.below(4) as usize];
                let at = payload + rng.below((len / width).max(1) as u64) as usize * width;
                lie_in(bytes, at.min(payload + len - width), &[(0, width)], rng)
            }
        };
    }
    let mut sum = 0;
    for (at, len) in records {
        let end = at + HEADER + len.next_multiple_of(8);
        sum = xxh3_64_with_seed(&bytes[at..at + HEADER + len], sum ^ start);
        set_word(bytes, end, sum);
    }
    seal::directory(&mut draft.bytes, image);
}

/// Where records start, and how many bytes their payloads have.
fn records(bytes: &[u8], start: u64) -> Vec<(usize, usize)> {
    let (mut records, mut at, mut sum) = (Vec::new(), 0, 0);
    while at + 16 <= bytes.len() {
        let len = word(bytes, at) as u32 as usize;
        let end = at + HEADER + len.next_multiple_of(8);
        if len == 0 || end + 8 > bytes.len() {
            break;
        }
        sum = xxh3_64_with_seed(&bytes[at..at + HEADER + len], sum ^ start);
        if word(bytes, end) != sum {
            break;
        }
        records.push((at, len));
        at = end + 8;
    }
    records
}
