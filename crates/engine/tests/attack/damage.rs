//! Random damage: what disks, cables, and programs that overwrite a file do to its bytes.

use std::collections::BTreeSet;
use std::ops::Range;

use halocline_workloads::SplitMix64;

use crate::image::{BLOCK, Image, LOG_COUNTS, SLOT, SLOTS, SUPERBLOCK, set_word};

/// The part of a pool that a changed byte belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The file as a whole: it was cut off.
    File,
    /// A copy of the superblock.
    Superblock(usize),
    Directory,
    /// An object's extents.
    Object(String),
    /// Bytes beside an object's extents by which damage is found and told from other damage: checksums of
    /// blocks, counts of records. Without it the object may still be read.
    Redundant(String),
}

/// A damaged file.
#[derive(Debug)]
pub(crate) struct Damaged {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the file, if they are more: the rest are a hole.
    pub(crate) len: Option<u64>,
    /// Whose bytes differ now; what nobody owns may differ, too.
    pub(crate) owners: BTreeSet<Owner>,
    /// Describes the change.
    pub(crate) story: String,
}

/// Draws damage to a pool.
pub(crate) fn draw(image: &Image, rng: &mut SplitMix64) -> Damaged {
    let mut bytes = image.bytes.clone();
    let mut story = String::new();
    let times = [1, 1, 1, 1, 1, 1, 2, 2, 3, 5][rng.below(10) as usize];
    for _ in 0..times {
        let (name, region) = region(image, rng);
        let done = mutate(&mut bytes, &region, image.used(), rng);
        story += &format!("{name} {region:?}: {done}; ");
    }
    let owners = owners(image, &bytes);
    Damaged {
        bytes,
        len: None,
        owners,
        story,
    }
}

/// Bytes that are worth damaging.
fn region(image: &Image, rng: &mut SplitMix64) -> (String, Range<usize>) {
    let prefix = match rng.below(100) {
        0..8 => {
            let start = rng.below(SLOTS as u64) as usize * SLOT;
            return ("superblock".to_owned(), start..start + SUPERBLOCK);
        }
        8..16 => return ("directory".to_owned(), image.directory.clone()),
        16..20 => return ("file".to_owned(), 0..image.used()),
        20..50 => "table/",
        50..70 => "index/",
        70..80 => "log",
        _ => "tree/",
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
        _ => object.extents[extent].bytes.clone(),
    };
    (format!("{} extent {extent}", object.name), bytes)
}

/// The bytes of a log up to the end of its last record.
fn log_records(image: &Image, extent: Range<usize>) -> Range<usize> {
    let records = extent.start..extent.end - LOG_COUNTS;
    let last = image.bytes[records].iter().rposition(|byte| *byte != 0);
    extent.start..extent.start + last.map_or(1, |last| last + 1)
}

/// The counts of its records.
fn log_counts(extent: Range<usize>) -> Range<usize> {
    extent.end - LOG_COUNTS..extent.end
}

/// Changes bytes of a region, or of the blocks it is in; says how.
fn mutate(bytes: &mut Vec<u8>, region: &Range<usize>, used: usize, rng: &mut SplitMix64) -> String {
    let at = region.start + rng.below(region.len() as u64) as usize;
    let at = at.min(bytes.len() - 1);
    let some = |rng: &mut SplitMix64| {
        let longest = 1 << rng.below(13);
        at..(at + 1 + rng.below(longest) as usize)
            .min(region.end)
            .min(bytes.len())
    };
    match rng.below(100) {
        0..40 => {
            let bit = rng.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of {at}")
        }
        40..50 => {
            let at = at.next_multiple_of(8).min(bytes.len() - 8);
            let value = match rng.below(4) {
                0 => 0,
                1 => u64::MAX,
                2 => rng.below(1 << 20),
                _ => rng.next_u64(),
            };
            set_word(bytes, at, value);
            format!("word {at} = {value}")
        }
        50..65 => {
            let range = some(rng);
            bytes[range.clone()].fill(0);
            format!("zeros at {range:?}")
        }
        65..75 => {
            let range = some(rng);
            bytes[range.clone()].fill_with(|| rng.next_u64() as u8);
            format!("garbage at {range:?}")
        }
        75..95 => {
            let blocks = (bytes.len().min(used) / BLOCK) as u64;
            if blocks == 0 {
                return "nothing is left to swap".to_owned();
            }
            // What was cut off may end within a block.
            let one = (at / BLOCK).min(blocks as usize - 1);
            let other = rng.below(blocks) as usize;
            let block = |number: usize| number * BLOCK..(number + 1) * BLOCK;
            if rng.below(2) == 0 {
                bytes.copy_within(block(other), one * BLOCK);
                return format!("block {one} is a copy of {other}");
            }
            let (low, high) = (one.min(other), one.max(other));
            if low < high {
                let (front, back) = bytes.split_at_mut(high * BLOCK);
                front[block(low)].swap_with_slice(&mut back[..BLOCK]);
            }
            format!("blocks {one} and {other} swapped")
        }
        _ => {
            let sector = at / 512 * 512..(at / 512 + 1) * 512;
            match rng.below(4) {
                0 => {
                    bytes.truncate(at);
                    format!("cut off at {at}")
                }
                _ => {
                    bytes[sector.clone()].fill(0);
                    format!("sector {sector:?} lost")
                }
            }
        }
    }
}

/// Whose bytes differ from the intact ones.
fn owners(image: &Image, bytes: &[u8]) -> BTreeSet<Owner> {
    let differs = |range: &Range<usize>| bytes.get(range.clone()) != Some(&image.bytes[range.clone()]);
    let mut owners = BTreeSet::new();
    if bytes.len() < image.bytes.len() {
        owners.insert(Owner::File);
    }
    for slot in 0..SLOTS {
        if differs(&(slot * SLOT..slot * SLOT + SUPERBLOCK)) {
            owners.insert(Owner::Superblock(slot));
        }
    }
    if differs(&image.directory) {
        owners.insert(Owner::Directory);
    }
    for object in &image.objects {
        let is_log = object.name == "log";
        let mut extents = object.extents.iter().map(|extent| {
            if is_log {
                log_records(image, extent.bytes.clone())
            } else {
                extent.bytes.clone()
            }
        });
        if extents.any(|extent| differs(&extent)) {
            owners.insert(Owner::Object(object.name.clone()));
        }
        let mut beside = object.extents.iter().map(|extent| {
            if is_log {
                log_counts(extent.bytes.clone())
            } else {
                extent.sums.clone()
            }
        });
        if beside.any(|extent| differs(&extent)) {
            owners.insert(Owner::Redundant(object.name.clone()));
        }
    }
    owners
}
