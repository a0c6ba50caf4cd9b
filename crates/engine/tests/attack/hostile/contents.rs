//! Lies of extents: headers of segments, columns, chunks, strings, dictionaries, indexes, bitmaps, and any
//! other word.

use std::ops::Range;

use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::xxh3_64;

use crate::damage::Owner;
use crate::image::{Object, set_word, word};

use super::{Draft, lie_in, number, seal};

const SEGMENT: [(usize, usize); 6] = [(16, 8), (24, 4), (28, 4), (32, 4), (36, 4), (40, 8)];
const COLUMN: [(usize, usize); 12] = [
    (0, 8),
    (8, 8),
    (16, 8),
    (24, 8),
    (32, 8),
    (48, 8),
    (56, 8),
    (64, 8),
    (72, 4),
    (76, 4),
    (80, 4),
    (84, 4),
];
const CHUNK: [(usize, usize); 11] = [
    (0, 8),
    (8, 8),
    (16, 8),
    (24, 8),
    (32, 8),
    (48, 4),
    (52, 4),
    (56, 4),
    (60, 1),
    (61, 1),
    (62, 2),
];
const ELF: [(usize, usize); 9] = [
    (8, 2),
    (10, 2),
    (12, 2),
    (14, 2),
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 8),
];
const DIMENSION: [(usize, usize); 6] = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (544, 8)];
/// Bytes of the header of a segment, of a column, of a chunk, of an index, and of a dimension of it.
const SEGMENT_HEADER: usize = 64;
const COLUMN_HEADER: usize = 128;
const CHUNK_ENTRY: usize = 64;
const ELF_HEADER: usize = 64;
const ELF_DIMENSION: usize = 552;

pub(super) fn lie(draft: &mut Draft<'_>, rng: &mut SplitMix64) {
    let image = draft.image;
    let prefix = if rng.below(2) == 0 { "table/" } else { "index/" };
    let objects = image.of_kind(prefix);
    let object = objects[rng.below(objects.len() as u64) as usize];
    draft.owners.insert(Owner::Object(object.name.clone()));
    draft.story = format!("{}, ", object.name);
    for _ in 0..=rng.below(2) {
        let extent = rng.below(object.extents.len() as u64) as usize;
        let bytes = object.extents[extent].bytes.clone();
        let part = &mut draft.bytes[bytes];
        let story = match part.get(..8) {
            Some(b"HLCSEG1\0") => segment(part, rng),
            Some(b"HLCLELF\0") => elf(part, rng),
            _ => words(part, rng),
        };
        draft.story += &format!("extent {extent}: {story}");
    }
    for extent in &object.extents {
        match draft.bytes.get(extent.bytes.start..extent.bytes.start + 8) {
            Some(b"HLCSEG1\0") => seal_segment(&mut draft.bytes, object, &extent.bytes),
            Some(b"HLCLELF\0") => seal_elf(&mut draft.bytes[extent.bytes.clone()]),
            _ => {}
        }
    }
    seal::all(&mut draft.bytes, image);
}

/// Returns the number of headers of `width` bytes that a part says it has after its own header, as many as it
/// has room for if an earlier change has made them more.
fn headers(bytes: &[u8], count: u8, own: usize, width: usize) -> u64 {
    let room = bytes.len().saturating_sub(own) / width;
    u64::from(count).min(room as u64).max(1)
}

fn segment(bytes: &mut [u8], rng: &mut SplitMix64) -> String {
    let columns = headers(bytes, bytes[28], SEGMENT_HEADER, COLUMN_HEADER);
    let column = SEGMENT_HEADER + rng.below(columns) as usize * COLUMN_HEADER;
    match rng.below(9) {
        0..2 => "segment ".to_owned() + &lie_in(bytes, 0, &SEGMENT, rng),
        2..4 => "column ".to_owned() + &lie_in(bytes, column, &COLUMN, rng),
        4 => {
            let (sketches, len) = (word(bytes, 40) as usize, word(bytes, 36) as u32);
            let at = sketches.saturating_add(rng.below(u64::from(len).max(1)) as usize);
            let at = at.min(bytes.len() - 1);
            bytes[at] = number(rng, u64::from(bytes[at])) as u8;
            format!("byte {at} of the sketches = {}; ", bytes[at])
        }
        _ => {
            let first = SEGMENT_HEADER + columns as usize * COLUMN_HEADER;
            // Sketches follow the chunk entries.
            let end = match word(bytes, 40) as usize {
                0 => bytes.len(),
                sketches => sketches.clamp(first, bytes.len()),
            };
            let chunks = (end - first) / CHUNK_ENTRY;
            let chunk = first + rng.below(chunks.max(1) as u64) as usize * CHUNK_ENTRY;
            let chunk = chunk.min(bytes.len() - CHUNK_ENTRY);
            "chunk ".to_owned() + &lie_in(bytes, chunk, &CHUNK, rng)
        }
    }
}

fn elf(bytes: &mut [u8], rng: &mut SplitMix64) -> String {
    let dims = headers(bytes, bytes[12], ELF_HEADER, ELF_DIMENSION);
    match rng.below(4) {
        0 => "index ".to_owned() + &lie_in(bytes, 0, &ELF, rng),
        1 => {
            let dimension = ELF_HEADER + rng.below(dims) as usize * ELF_DIMENSION;
            "dimension ".to_owned() + &lie_in(bytes, dimension, &DIMENSION, rng)
        }
        2 => {
            // The root, and what is near.
            let root = word(bytes, 48) as usize;
            let at = root.saturating_sub(rng.below(4) as usize) + rng.below(24) as usize;
            let at = at.min(bytes.len() - 1);
            bytes[at] = number(rng, u64::from(bytes[at])) as u8;
            format!("byte {at} near the root = {}; ", bytes[at])
        }
        _ => words(bytes, rng),
    }
}

/// Any bytes of the whole, or of its first lines, where headers are.
fn words(bytes: &mut [u8], rng: &mut SplitMix64) -> String {
    let mut story = String::new();
    for _ in 0..=rng.below(3) {
        let width = [1, 2, 4, 8][rng.below(4) as usize];
        let reach = match rng.below(3) {
            0 => bytes.len().min(256),
            _ => bytes.len(),
        };
        let at = rng.below((reach / width).max(1) as u64) as usize * width;
        if at + width <= bytes.len() {
            story += &lie_in(bytes, at, &[(0, width)], rng);
        }
    }
    story
}

/// Makes the checksums right that lie in the directory of a segment, as far as they can be found.
fn seal_segment(bytes: &mut [u8], object: &Object, directory: &Range<usize>) {
    let own = bytes[directory.clone()].to_vec();
    let (columns, parts) = (word(&own, 28) as u32 as usize, word(&own, 32) as u32 as usize);
    let first = object
        .extents
        .iter()
        .position(|extent| extent.bytes == *directory)
        .unwrap_or(0)
        + 1;
    let headers = SEGMENT_HEADER + columns.saturating_mul(COLUMN_HEADER);
    for column in (SEGMENT_HEADER..headers).step_by(COLUMN_HEADER) {
        if column + COLUMN_HEADER > own.len() {
            break;
        }
        let entries = word(&own, column + 32) as usize;
        let count = word(&own, column + 76) as u32 as usize;
        let end = entries.saturating_add(count.saturating_mul(CHUNK_ENTRY));
        if end > own.len() {
            continue;
        }
        for entry in (entries..end).step_by(CHUNK_ENTRY) {
            let (offset, len) = (word(&own, entry) as usize, word(&own, entry + 8) as usize);
            let part = word(&own, entry + 56) as u32 as usize;
            let part = object.extents.get(first + part).filter(|_| part < parts);
            let chunk = part.and_then(|part| bytes[part.bytes.clone()].get(offset..offset.checked_add(len)?));
            if let Some(sum) = chunk.map(xxh3_64) {
                set_word(bytes, directory.start + entry + 40, sum);
            }
        }
        let sum = xxh3_64(&bytes[directory.start + entries..directory.start + end]);
        set_word(bytes, directory.start + column + 40, sum);
    }
    let (sketches, len) = (word(&own, 40) as usize, word(&own, 36) as u32 as usize);
    if let Some(stored) = sketches.checked_add(len).and_then(|end| own.get(sketches..end)) {
        let sum = if len > 0 { xxh3_64(stored) } else { 0 };
        set_word(bytes, directory.start + 48, sum);
    }
    let end = directory.start.saturating_add(headers).min(directory.end);
    set_word(bytes, directory.start + 8, 0);
    let sum = xxh3_64(&bytes[directory.start..end]);
    set_word(bytes, directory.start + 8, sum);
}

/// Makes the checksum of the header of an index right.
fn seal_elf(bytes: &mut [u8]) {
    let dims = word(bytes, 12) as u16 as usize;
    let end = (ELF_HEADER + dims * ELF_DIMENSION).min(bytes.len());
    set_word(bytes, 56, 0);
    let sum = xxh3_64(&bytes[..end]);
    set_word(bytes, 56, sum);
}
