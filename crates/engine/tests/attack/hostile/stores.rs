//! Lies of stores: checkpoints, catalogs, branches, leaves, frames, records, and batches of transactions.
//!
//! Offsets that lead to a page, and checksums of what is changed, are made right, so that opening and reads
//! get as far as the lie.

use std::collections::BTreeMap;

use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::damage::Owner;
use crate::image::{Image, set_word, word};
use crate::segments::{
    BRANCH, CHECKPOINT, FRAME, Frame, LEAF, STORES, StorePages, half, record_head, record_len, small,
};

use super::{Draft, lie_in, number, seal};

/// Version, number, position in the log, its frame, chain, secret, commit; offset, length and checksum of the
/// catalog.
const CHECKPOINT_FIELDS: [(usize, usize); 11] = [
    (8, 4),
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 8),
    (64, 8),
    (72, 8),
    (80, 8),
    (88, 8),
];
/// Level, number of children, lengths of prefix and separators.
const BRANCH_FIELDS: [(usize, usize); 4] = [(8, 2), (10, 2), (12, 2), (14, 2)];
/// Entries in use, length of the prefix, kind of the checksum.
const LEAF_FIELDS: [(usize, usize); 3] = [(0, 4), (56, 1), (57, 1)];
/// Length, flags, number of records, number, commit.
const FRAME_FIELDS: [(usize, usize); 5] = [(0, 4), (4, 2), (6, 2), (8, 8), (24, 8)];
/// Lengths of key and value, flags, store, commit, version before.
const RECORD_FIELDS: [(usize, usize); 6] = [(0, 2), (2, 2), (4, 4), (12, 4), (16, 8), (24, 8)];
/// Version, secret, commit and number of operations of a batch; store and lengths of its first operation.
const BATCH_FIELDS: [(usize, usize); 7] = [(0, 4), (8, 8), (16, 8), (24, 8), (32, 4), (36, 4), (40, 4)];
/// Where fingerprints, slices and offsets of records are in a leaf, and how many.
const FINGERPRINTS: usize = 8;
const PREFIX_LEN: usize = 56;
const PREFIX: usize = 58;
const SLICES: usize = 256;
const RECORDS: usize = 640;
const ENTRIES: usize = 48;
/// Bytes of the head of a branch.
const BRANCH_HEAD: usize = 16;

pub(super) fn lie(draft: &mut Draft<'_>, rng: &mut SplitMix64) {
    let image = draft.image;
    let pages = StorePages::new(image);
    draft.owners.insert(Owner::Object(STORES.to_owned()));
    draft.story = "stores, ".to_owned();
    for _ in 0..=rng.below(2) {
        let bytes = &mut draft.bytes;
        draft.story += &match rng.below(14) {
            0..2 => checkpoint(bytes, &pages, rng),
            2..5 => catalog(bytes, &pages, rng),
            5..7 => branch(bytes, &pages, rng),
            7..9 => leaf(bytes, image, &pages, rng),
            9..13 => log(bytes, image, &pages, rng),
            _ => {
                draft.owners.insert(Owner::Object("stores/decided".to_owned()));
                batch(bytes, image, rng)
            }
        };
    }
    seal::all(&mut draft.bytes, image);
}

/// Changes a copy of the checkpoint, or both.
fn checkpoint(bytes: &mut [u8], pages: &StorePages, rng: &mut SplitMix64) -> String {
    let [first, second] = pages.checkpoints;
    let (one, other) = if rng.below(2) == 0 {
        (first, second)
    } else {
        (second, first)
    };
    let story = "checkpoint ".to_owned() + &lie_in(bytes, one, &CHECKPOINT_FIELDS, rng);
    if rng.below(2) == 0 {
        bytes.copy_within(one..one + CHECKPOINT, other);
    }
    seal_checkpoints(bytes, pages);
    story
}

/// Changes a number of the catalog.
fn catalog(bytes: &mut [u8], pages: &StorePages, rng: &mut SplitMix64) -> String {
    let words = pages.catalog.len() as u64 / 4;
    let width = [2, 4, 4, 8][rng.below(4) as usize];
    let at = pages.catalog.start + rng.below(words) as usize * 4;
    let at = at.min(pages.catalog.end - width);
    let story = "catalog ".to_owned() + &lie_in(bytes, at, &[(0, width)], rng);
    let (mut sum, mut start) = (0, pages.catalog.start);
    for len in &pages.parts {
        sum = xxh3_64_with_seed(&bytes[start..start + len], sum);
        start += len;
    }
    for copy in pages.checkpoints {
        set_word(bytes, copy + 88, sum);
    }
    seal_checkpoints(bytes, pages);
    story
}

fn seal_checkpoints(bytes: &mut [u8], pages: &StorePages) {
    for copy in pages.checkpoints {
        let sum = xxh3_64(&bytes[copy..copy + CHECKPOINT - 8]);
        set_word(bytes, copy + CHECKPOINT - 8, sum);
    }
}

/// Changes a branch: a field of its head, a child, or any other byte.
fn branch(bytes: &mut [u8], pages: &StorePages, rng: &mut SplitMix64) -> String {
    let at = one_of(&pages.branches, rng);
    let len = |bytes: &[u8]| {
        let part = |offset: usize| usize::from(half(bytes, at + offset));
        (BRANCH_HEAD + part(12) + part(14)).next_multiple_of(8) + part(10) * 8
    };
    let story = match rng.below(3) {
        0 => lie_in(bytes, at, &BRANCH_FIELDS, rng),
        1 => {
            let children = u64::from(half(bytes, at + 10));
            let child = at + len(bytes) - 8 * (1 + rng.below(children) as usize);
            let value = link(pages, rng);
            set_word(bytes, child, value);
            format!("child at {child} = {value}; ")
        }
        _ => {
            let inside = rng.below((len(bytes) - BRANCH_HEAD) as u64) as usize;
            lie_in(bytes, at + BRANCH_HEAD + inside, &[(0, 1)], rng)
        }
    };
    let end = at + len(bytes).clamp(BRANCH_HEAD, BRANCH);
    let sum = xxh3_64_with_seed(&bytes[at + 8..end], at as u64);
    set_word(bytes, at, sum);
    format!("branch at {at}, {story}")
}

/// Changes a leaf: a field, the offset of a record, or any other byte or word.
fn leaf(bytes: &mut [u8], image: &Image, pages: &StorePages, rng: &mut SplitMix64) -> String {
    let at = one_of(&pages.leaves, rng);
    // Nothing but its checksum tells whose it is.
    let honest = &image.bytes[at..at + LEAF];
    let store =
        (0..pages.next_store).find(|store| leaf_sum(honest, at, *store) == word(honest, 0) >> ENTRIES);
    let used = (0..ENTRIES).filter(|slot| word(honest, 0) >> slot & 1 == 1);
    let used: Vec<usize> = used.collect();
    let story = match rng.below(4) {
        0 => lie_in(bytes, at, &LEAF_FIELDS, rng),
        1 if !used.is_empty() => {
            let slot = at + RECORDS + 8 * one_of(&used, rng);
            let value = link(pages, rng);
            set_word(bytes, slot, value);
            format!("record at {slot} = {value}; ")
        }
        _ => {
            let inside = FINGERPRINTS + rng.below((LEAF - FINGERPRINTS) as u64 / 8) as usize * 8;
            lie_in(bytes, at + inside, &[(0, 1), (0, 8)], rng)
        }
    };
    if let Some(store) = store {
        let bits = word(bytes, at) & ((1 << ENTRIES) - 1);
        let sum = leaf_sum(&bytes[at..at + LEAF], at, store);
        set_word(bytes, at, bits | sum << ENTRIES);
    }
    format!("leaf at {at} of store {store:?}, {story}")
}

/// Returns the checksum of a leaf at an offset, of a store.
fn leaf_sum(leaf: &[u8], offset: usize, store: u32) -> u64 {
    let bits = word(leaf, 0) & ((1 << ENTRIES) - 1);
    let prefix = usize::from(leaf[PREFIX_LEN]).min(SLICES - PREFIX);
    let mut covered = leaf[PREFIX..PREFIX + prefix].to_vec();
    for slot in (0..ENTRIES).filter(|slot| bits >> slot & 1 == 1) {
        covered.push(leaf[FINGERPRINTS + slot]);
        covered.extend_from_slice(&leaf[SLICES + 8 * slot..SLICES + 8 * slot + 8]);
    }
    if leaf[PREFIX_LEN + 1] == 1 {
        covered.extend_from_slice(&(offset as u64).to_le_bytes());
        covered.extend_from_slice(&store.to_le_bytes());
    }
    let lens = u64::from(half(leaf, PREFIX_LEN));
    xxh3_64_with_seed(&covered, bits ^ lens << ENTRIES) >> ENTRIES
}

/// Changes a frame or a record, after the checkpoint or anywhere in the log.
fn log(bytes: &mut [u8], image: &Image, pages: &StorePages, rng: &mut SplitMix64) -> String {
    let frames = match rng.below(2) {
        0 if !pages.tail.is_empty() => &pages.tail,
        _ => &pages.frames,
    };
    let story = match rng.below(4) {
        0 => {
            let at = frames[rng.below(frames.len() as u64) as usize].bytes.start;
            "frame ".to_owned() + &lie_in(bytes, at, &FRAME_FIELDS, rng)
        }
        _ => {
            // As often of a store with few records as of another one.
            let mut stores: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for record in frames.iter().flat_map(|frame| &frame.records) {
                stores
                    .entry(small(&image.bytes, record + 12))
                    .or_default()
                    .push(*record);
            }
            let stores: Vec<Vec<usize>> = stores.into_values().collect();
            if stores.is_empty() {
                return String::new();
            }
            let records = &stores[rng.below(stores.len() as u64) as usize];
            let at = one_of(records, rng);
            let contents = record_len(&image.bytes, at) - record_head(half(&image.bytes, at + 2));
            let story = match rng.below(3) {
                0 => lie_in(bytes, at, &RECORD_FIELDS, rng),
                _ if contents == 0 => String::new(),
                _ => {
                    let width = [1, 2, 4, 8][rng.below(4) as usize].min(contents);
                    let inside = rng.below((contents - width + 1) as u64) as usize;
                    let start = at + record_head(half(&image.bytes, at + 2));
                    lie_in(bytes, start + inside, &[(0, width)], rng)
                }
            };
            seal_record(bytes, at);
            format!("record at {at}, {story}")
        }
    };
    seal_frames(bytes, pages);
    story
}

/// Makes the checksum of a record right.
fn seal_record(bytes: &mut [u8], at: usize) {
    let head = record_head(half(bytes, at + 2));
    let end = at.saturating_add(record_len(bytes, at));
    let Some(contents) = bytes.get(at..end) else {
        return;
    };
    let mut contents = contents.to_vec();
    contents[8..12].fill(0);
    if head > 24 {
        contents[24..32].fill(0);
    }
    let sum = xxh3_64(&contents) as u32;
    bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
}

/// Makes the checksums of all frames right, and the chain of those after the checkpoint.
fn seal_frames(bytes: &mut [u8], pages: &StorePages) {
    let newest = pages
        .checkpoints
        .into_iter()
        .max_by_key(|at| word(bytes, at + 16));
    let newest = newest.unwrap_or_default();
    let secret = word(bytes, newest + 56);
    for frame in &pages.frames {
        seal_frame(bytes, frame, secret);
    }
    let mut chain = word(bytes, newest + 48);
    for frame in &pages.tail {
        set_word(bytes, frame.bytes.start + 16, chain);
        chain = seal_frame(bytes, frame, secret);
    }
}

fn seal_frame(bytes: &mut [u8], frame: &Frame, secret: u64) -> u64 {
    let at = frame.bytes.start;
    let records = frame.records.iter();
    let sums: Vec<u8> = records
        .flat_map(|record| small(bytes, record + 8).to_le_bytes())
        .collect();
    set_word(bytes, at + 32, 0);
    let seed = secret ^ (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let head = xxh3_64_with_seed(&bytes[at..at + FRAME], seed);
    let sum = xxh3_64_with_seed(&sums, head);
    set_word(bytes, at + 32, sum);
    sum
}

/// Changes the batch of the newest transaction that has changed tables and stores.
fn batch(bytes: &mut [u8], image: &Image, rng: &mut SplitMix64) -> String {
    match image.of_kind("stores/decided").first() {
        Some(object) => {
            let extent = object.extents[0].bytes.clone();
            "batch ".to_owned() + &lie_in(&mut bytes[extent], 0, &BATCH_FIELDS, rng)
        }
        None => String::new(),
    }
}

/// Returns the offset of a page or a record, or of what is none.
fn link(pages: &StorePages, rng: &mut SplitMix64) -> u64 {
    let records: Vec<usize> = pages
        .frames
        .iter()
        .flat_map(|frame| frame.records.clone())
        .collect();
    let place = match rng.below(5) {
        0 => one_of(&pages.leaves, rng),
        1 => one_of(&pages.branches, rng),
        2 => one_of(&pages.log, rng),
        _ => one_of(&records, rng),
    };
    match rng.below(4) {
        0 => number(rng, place as u64),
        _ => place as u64,
    }
}

fn one_of(places: &[usize], rng: &mut SplitMix64) -> usize {
    places[rng.below(places.len() as u64) as usize]
}
