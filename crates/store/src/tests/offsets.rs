//! Every offset with each of its bits flipped, and all checksums above right again: every answer is right or
//! an error, and nothing panics.
#![allow(clippy::print_stdout, reason = "a test that panics says where")]

use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::{FromBytes, IntoBytes};

use super::sample::Sample;
use crate::catalog_parts::CatalogParts;
use crate::checkpoint::checkpoint_sum;
use crate::fault::{self, StoreFault};
use crate::layout::{
    BRANCH, CHECKPOINT_COPY, CatalogDelta, CatalogHead, CatalogSegment, Checkpoint, MAGIC, RECORD_HEAD,
    RecordHead, SegmentEntry, StoreEntry,
};
use crate::leaf::ENTRIES;

fn word(image: &[u8], at: u64) -> u64 {
    u64::read_from_bytes(&image[at as usize..at as usize + 8]).unwrap()
}

fn set_word(image: &mut [u8], at: u64, word: u64) {
    image[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
}

/// Returns the offset of the root of the slab.
fn root(sample: &Sample) -> u64 {
    let is_it = |bytes: &[u8]| bytes == MAGIC;
    let at = sample.image.chunks_exact(8).position(is_it);
    at.unwrap() as u64 * 8
}

fn checkpoint(image: &[u8], root: u64) -> Checkpoint {
    Checkpoint::read_from_prefix(&image[root as usize..]).unwrap().0
}

/// Changes both copies of the checkpoint.
fn change_checkpoint(image: &mut [u8], root: u64, change: impl Fn(&mut Checkpoint)) {
    for copy in [root, root + CHECKPOINT_COPY] {
        let mut checkpoint = checkpoint(image, copy);
        change(&mut checkpoint);
        checkpoint.checksum = checkpoint_sum(&checkpoint).into();
        image[copy as usize..copy as usize + size_of::<Checkpoint>()].copy_from_slice(checkpoint.as_bytes());
    }
}

/// Changes the catalog, which is in one segment, at an offset in it.
fn change_catalog(image: &mut [u8], root: u64, at: u64, bits: u64) {
    let Checkpoint {
        catalog, catalog_len, ..
    } = checkpoint(image, root);
    let start = catalog.get() + size_of::<CatalogSegment>() as u64;
    let place = start + at;
    set_word(image, place, word(image, place) ^ bits);
    let bytes = start as usize..(start + catalog_len.get()) as usize;
    // No checksum is right for parts that contradict themselves.
    if let Some(parts) = CatalogParts::read(&image[bytes]) {
        change_checkpoint(image, root, |checkpoint| {
            checkpoint.catalog_sum = parts.sum.into()
        });
    }
}

/// Returns the places of offsets and bits in a catalog, by name.
fn catalog_words(bytes: &[u8]) -> Vec<(String, u64)> {
    let (mut words, mut at, mut part) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let (segments, stores, dropped) = match part {
            0 => {
                let head = CatalogHead::read_from_prefix(bytes).unwrap().0;
                at += size_of::<CatalogHead>();
                (head.segments.get(), head.stores.get(), 0)
            }
            _ => {
                let head = CatalogDelta::read_from_prefix(&bytes[at..]).unwrap().0;
                at += size_of::<CatalogDelta>();
                (head.segments.get(), head.stores.get(), head.dropped.get())
            }
        };
        for segment in 0..segments {
            let fields = [
                ("offset", offset_of!(SegmentEntry, offset)),
                ("use", offset_of!(SegmentEntry, used)),
            ];
            let place = |(name, field)| {
                (
                    format!("{name} of segment {segment} of part {part}"),
                    (at + field) as u64,
                )
            };
            words.extend(fields.map(place));
            at += size_of::<SegmentEntry>();
        }
        at += 4 * dropped as usize;
        for store in 0..stores {
            let entry = StoreEntry::read_from_prefix(&bytes[at..]).unwrap().0;
            let place = at + offset_of!(StoreEntry, root);
            words.push((format!("root of store {store} of part {part}"), place as u64));
            at += size_of::<StoreEntry>() + usize::from(entry.name_len.get());
        }
        part += 1;
    }
    assert!(part > 2, "the catalog has only {part} parts");
    words
}

/// Flips a bit of a child of a branch. Returns false if it has fewer.
fn change_branch(image: &mut [u8], branch: u64, child: u64, bits: u64) -> bool {
    let page = branch as usize..(branch + BRANCH) as usize;
    let number = |at: usize| {
        u64::from(u16::from_le_bytes([
            image[page.start + at],
            image[page.start + at + 1],
        ]))
    };
    let (children, lens) = (number(10), number(12) + number(14));
    if child >= children {
        return false;
    }
    let first = (16 + lens).next_multiple_of(8);
    let place = branch + (first + 8 * child).min(BRANCH - 8);
    set_word(image, place, word(image, place) ^ bits);
    let end = (branch + first + 8 * children).min(branch + BRANCH) as usize;
    let sum = xxh3_64_with_seed(&image[page.start + 8..end], branch);
    set_word(image, branch, sum);
    true
}

/// Changes an image for each bit of a word.
type Change<'a> = Box<dyn Fn(&mut [u8], u64) + 'a>;

/// Returns the changes of all kinds of offsets, each with its name.
fn changes(sample: &Sample) -> Vec<(String, Change<'_>)> {
    let root = root(sample);
    let mut changes: Vec<(String, Change<'_>)> = Vec::new();
    let fields = [
        ("log", offset_of!(Checkpoint, log)),
        ("log_segment", offset_of!(Checkpoint, log_segment)),
        ("catalog", offset_of!(Checkpoint, catalog)),
    ];
    for (name, field) in fields {
        let change = move |image: &mut [u8], bits: u64| {
            change_checkpoint(image, root, |checkpoint| {
                let at = &mut checkpoint.as_mut_bytes()[field..field + 8];
                let changed = u64::read_from_bytes(at).unwrap() ^ bits;
                at.copy_from_slice(&changed.to_le_bytes());
            });
        };
        changes.push((format!("{name} of the checkpoint"), Box::new(change)));
        // The other copy says what is right.
        let one = move |image: &mut [u8], bits: u64| {
            let mut changed = image.to_vec();
            change(&mut changed, bits);
            let copy = root as usize..root as usize + size_of::<Checkpoint>();
            image[copy.clone()].copy_from_slice(&changed[copy]);
        };
        changes.push((format!("{name} of one copy"), Box::new(one)));
    }
    let catalog = checkpoint(&sample.image, root).catalog.get();
    changes.push((
        "next segment of the catalog".to_owned(),
        Box::new(move |image, bits| set_word(image, catalog, word(image, catalog) ^ bits)),
    ));
    let start = (catalog as usize) + size_of::<CatalogSegment>();
    let len = checkpoint(&sample.image, root).catalog_len.get() as usize;
    for (name, at) in catalog_words(&sample.image[start..start + len]) {
        let change = move |image: &mut [u8], bits: u64| change_catalog(image, root, at, bits);
        changes.push((name, Box::new(change)));
    }
    for (number, branch) in sample.branches.iter().enumerate() {
        for child in [0, 1, 5] {
            let mut image = sample.image.clone();
            if change_branch(&mut image, *branch, child, 0) {
                changes.push((
                    format!("child {child} of branch {number}"),
                    Box::new(move |image, bits| _ = change_branch(image, *branch, child, bits)),
                ));
            }
        }
    }
    for (name, leaf, _) in sample.leaves.iter().step_by(5) {
        let used = word(&sample.image, *leaf) & ((1 << ENTRIES) - 1);
        for slot in [used.trailing_zeros().into(), 63 - u64::from(used.leading_zeros())] {
            let place = leaf + 640 + 8 * slot;
            changes.push((
                format!("record of slot {slot} of a leaf of {name}"),
                Box::new(move |image, bits| set_word(image, place, word(image, place) ^ bits)),
            ));
        }
    }
    for (number, (record, key_len)) in sample.chunked.iter().enumerate() {
        for chunk in [0, 2] {
            changes.push((
                format!("chunk {chunk} of value {number}"),
                Box::new(move |image, bits| change_chunk(image, *record, *key_len as u64, chunk, bits)),
            ));
        }
    }
    for (number, record) in sample.in_log.iter().enumerate() {
        let place = record + offset_of!(RecordHead, prev) as u64;
        changes.push((
            format!("version before record {number} of the log"),
            Box::new(move |image, bits| set_word(image, place, word(image, place) ^ bits)),
        ));
    }
    changes
}

/// Flips a bit of the offset of a chunk.
fn change_chunk(image: &mut [u8], record: u64, key_len: u64, chunk: u64, bits: u64) {
    let list = record + RECORD_HEAD + key_len;
    let place = list + 8 * (1 + chunk);
    set_word(image, place, word(image, place) ^ bits);
    let mut head = RecordHead::read_from_prefix(&image[record as usize..]).unwrap().0;
    let (prev, len) = (head.prev, u64::from(head.value_len.get()));
    (head.prev, head.checksum) = (0.into(), 0.into());
    let rest = (record + RECORD_HEAD) as usize..(list + len) as usize;
    head.checksum = (xxh3_64(&[head.as_bytes(), &image[rest]].concat()) as u32).into();
    head.prev = prev;
    image[record as usize..(record + RECORD_HEAD) as usize].copy_from_slice(head.as_bytes());
}

/// Tells which bit of which offset was flipped when a read panics.
struct Shown<'a>(&'a str, u32);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}, bit {}", self.0, self.1);
        }
    }
}

/// Flips every bit of every offset. Returns the wrong answers, and the number of errors.
fn flip(sample: &Sample, is_chosen: impl Fn(&str) -> bool) -> (Vec<String>, usize) {
    let (mut wrong, mut errors) = (Vec::new(), 0);
    for (name, change) in changes(sample) {
        if !is_chosen(&name) {
            continue;
        }
        // The pool has less than 2^24 bytes.
        for bit in (0..24).chain([30, 47, 63]) {
            // Which bit has made it panic.
            let _shown = Shown(&name, bit);
            let answers = sample.read(|image| change(image, 1 << bit));
            errors += answers.refused + answers.damaged.len();
            if let Some(first) = answers.wrong.first() {
                wrong.push(format!(
                    "{name}, bit {bit}: {} wrong, {first}",
                    answers.wrong.len()
                ));
            }
            // Whatever reads have met is a finding of a check, too.
            if !answers.damaged.is_empty() && answers.problems.is_empty() {
                wrong.push(format!("{name}, bit {bit}: the checks have found nothing"));
            }
        }
    }
    (wrong, errors)
}

/// No flipped bit of the checkpoint, the catalog and the heads of branches, with right checksums, leads to a
/// panic. Answers can be wrong: who computes checksums may tell other numbers of keys.
#[test]
fn no_flipped_bit_panics() {
    let sample = Sample::new(2);
    let root = root(&sample);
    let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let catalog_len = checkpoint(&sample.image, root).catalog_len.get();
    for _ in 0..400 {
        let (kind, bit) = (rng.random_range(0..3), rng.random_range(0..64));
        let (at, branch) = match kind {
            0 => (rng.random_range(2..size_of::<Checkpoint>() / 8 - 1) as u64 * 8, 0),
            1 => (rng.random_range(0..catalog_len - 7), 0),
            _ => (
                rng.random_range(1..12) * 8,
                rng.random_range(0..sample.branches.len()),
            ),
        };
        let name = format!("kind {kind}, offset {at}, branch {branch}");
        let _shown = Shown(&name, bit);
        sample.read(|image| match kind {
            0 => change_checkpoint(image, root, |checkpoint| {
                let word = &mut checkpoint.as_mut_bytes()[at as usize..at as usize + 8];
                let changed = u64::read_from_bytes(word).unwrap() ^ 1 << bit;
                word.copy_from_slice(&changed.to_le_bytes());
            }),
            1 => change_catalog(image, root, at, 1 << bit),
            _ => {
                let branch = sample.branches[branch];
                set_word(image, branch + at, word(image, branch + at) ^ 1 << bit);
                change_branch(image, branch, 0, 0);
            }
        });
    }
}

#[test]
fn flipped_offsets_give_errors() {
    let sample = Sample::new(2);
    let (wrong, errors) = flip(&sample, |_| true);
    assert!(
        wrong.is_empty(),
        "{} are wrong: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(12)]
    );
    assert!(errors > 1000, "only {errors} errors");
}

/// The test fails where offsets are followed without a look at what is there.
#[test]
fn flips_show_broken_rules() {
    let sample = Sample::new(2);
    let cases = [
        (StoreFault::TrustOffsets, "log_segment of the checkpoint"),
        (StoreFault::TrustOffsets, "child 1 of branch 0"),
        (StoreFault::IgnoreBounds, "child 1 of branch 0"),
    ];
    for (fault, kind) in cases {
        let found = catch_unwind(AssertUnwindSafe(|| {
            fault::with(fault, || flip(&sample, |name| name.starts_with(kind)))
        }));
        let is_noticed = found.is_err() || found.is_ok_and(|(wrong, _)| !wrong.is_empty());
        assert!(is_noticed, "not noticed: {fault:?} at the {kind}");
    }
}
