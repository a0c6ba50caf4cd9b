//! Places of a pool that are worth damaging: those that are in use, each kind about as often as the others.

use std::ops::Range;

use halocline_workloads::SplitMix64;

use crate::image::{Image, LOG_COUNTS, Object, SLOT, SLOTS, SUPERBLOCK};
use crate::items::ITEMS;
use crate::segments::{BRANCH, CHECKPOINT, LEAF, STORES, StorePages};

/// Bytes by which the parts of an object that are in use are told from the others.
const LINE: usize = 256;

/// Draws a place. Returns a name for it and its bytes.
pub(crate) fn draw(image: &Image, rng: &mut SplitMix64) -> (String, Range<usize>) {
    let prefix = match rng.below(100) {
        0..7 => {
            let start = rng.below(SLOTS as u64) as usize * SLOT;
            return ("superblock".to_owned(), start..start + SUPERBLOCK);
        }
        7..14 => return ("directory".to_owned(), image.directory.clone()),
        14..18 => return ("file".to_owned(), 0..image.used()),
        18..40 => "table/",
        40..54 => "index/",
        54..62 => "log",
        62..74 => "tree/",
        74..94 => return of_stores(image, rng),
        _ => ITEMS,
    };
    let objects = image.of_kind(prefix);
    let object = objects[rng.below(objects.len() as u64) as usize];
    let extent = rng.below(object.extents.len() as u64) as usize;
    let bytes = match prefix {
        _ if !object.extents[extent].sums.is_empty() && rng.below(20) == 0 => {
            object.extents[extent].sums.clone()
        }
        "log" if rng.below(6) == 0 => log_counts(object.extents[extent].bytes.clone()),
        // The end of a log is not in use.
        "log" => log_records(image, object.extents[extent].bytes.clone()),
        ITEMS => used_line(image, object, extent, rng),
        _ => object.extents[extent].bytes.clone(),
    };
    (format!("{} extent {extent}", object.name), bytes)
}

/// Draws a page of the stores, a frame or a record, or the batch of a transaction.
fn of_stores(image: &Image, rng: &mut SplitMix64) -> (String, Range<usize>) {
    let pages = StorePages::new(image);
    let one_of = |places: &[usize], len: usize, rng: &mut SplitMix64| {
        let start = places[rng.below(places.len() as u64) as usize];
        start..start + len
    };
    let (name, bytes) = match rng.below(20) {
        0..2 => ("checkpoint", one_of(&pages.checkpoints, CHECKPOINT, rng)),
        2..4 => ("catalog", pages.catalog.clone()),
        4..8 => ("leaf", one_of(&pages.leaves, LEAF, rng)),
        8..11 => ("branch", one_of(&pages.branches, BRANCH, rng)),
        11..15 => {
            let frame = &pages.frames[rng.below(pages.frames.len() as u64) as usize];
            ("frame", frame.bytes.clone())
        }
        15..18 if !pages.tail.is_empty() => {
            let frame = &pages.tail[rng.below(pages.tail.len() as u64) as usize];
            ("frame after the checkpoint", frame.bytes.clone())
        }
        18 => {
            let batches = image.of_kind("stores/decided");
            match batches.first() {
                Some(batch) => ("batch", batch.extents[0].bytes.clone()),
                None => ("catalog", pages.catalog.clone()),
            }
        }
        _ => {
            let objects = image.of_kind(STORES);
            let object = objects[rng.below(objects.len() as u64) as usize];
            let extent = rng.below(object.extents.len() as u64) as usize;
            ("extent", object.extents[extent].bytes.clone())
        }
    };
    (format!("stores {name}"), bytes)
}

/// Draws bytes of an extent that are not all zero.
fn used_line(image: &Image, object: &Object, extent: usize, rng: &mut SplitMix64) -> Range<usize> {
    let bytes = object.extents[extent].bytes.clone();
    let lines = bytes
        .clone()
        .step_by(LINE)
        .map(|start| start..(start + LINE).min(bytes.end));
    let is_used = |line: &Range<usize>| image.bytes[line.clone()].iter().any(|byte| *byte != 0);
    let used: Vec<Range<usize>> = lines.filter(is_used).collect();
    match used.len() {
        0 => bytes,
        count => used[rng.below(count as u64) as usize].clone(),
    }
}

/// Returns the bytes of a log up to the end of its last record.
pub(crate) fn log_records(image: &Image, extent: Range<usize>) -> Range<usize> {
    let records = extent.start..extent.end - LOG_COUNTS;
    let last = image.bytes[records].iter().rposition(|byte| *byte != 0);
    extent.start..extent.start + last.map_or(1, |last| last + 1)
}

/// Returns the bytes of the counts of its records.
pub(crate) fn log_counts(extent: Range<usize>) -> Range<usize> {
    extent.end - LOG_COUNTS..extent.end
}
