//! Random damage: what disks, cables, and programs that overwrite a file do to its bytes.

use std::collections::BTreeSet;
use std::ops::Range;

use halocline_workloads::SplitMix64;

use crate::image::{BLOCK, Image, SLOT, SLOTS, SUPERBLOCK, set_word};
use crate::places::{self, log_counts, log_records};

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
        let (name, region) = places::draw(image, rng);
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
