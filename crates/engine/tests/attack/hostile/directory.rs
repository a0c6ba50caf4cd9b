//! Lies of the directory: counts, ranges, extents that overlap each other or what is none, names out of
//! order, and thousands of objects.

use std::ops::Range;

use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::xxh3_64;

use crate::damage::Owner;
use crate::image::{BLOCK, Image, is_mutable, set_word, word};

use super::{Draft, lie_in, seal};

const HEADER: [(usize, usize); 8] = [
    (8, 8),
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 8),
    (0, 8),
];
const OBJECT: [(usize, usize); 8] = [
    (0, 8),
    (8, 8),
    (16, 4),
    (20, 4),
    (24, 4),
    (28, 4),
    (32, 8),
    (40, 8),
];
const EXTENT: [(usize, usize); 4] = [(0, 8), (8, 8), (24, 4), (28, 4)];
const LIMBO: [(usize, usize); 4] = [(0, 8), (8, 8), (16, 8), (24, 8)];
/// Bytes of the header of the limbo list, and of an entry in it.
const LIMBO_HEADER: usize = 16;
const LIMBO_ENTRY: usize = 32;
/// Objects that name the same extents.
const SHARING_OBJECTS: u64 = 8000;

pub(super) fn lie(draft: &mut Draft<'_>, rng: &mut SplitMix64) {
    draft.owners.extend([Owner::File, Owner::Directory]);
    let image = draft.image;
    let start = image.directory.start;
    let object = &image.objects[rng.below(image.objects.len() as u64) as usize];
    let extent = &object.extents[rng.below(object.extents.len() as u64) as usize];
    // What it says of itself need not be so; what others say must.
    draft.owners.insert(Owner::Object(object.name.clone()));
    draft.story = format!("directory, {}, ", object.name);
    let bytes = &mut draft.bytes;
    match rng.below(12) {
        0..2 => draft.story += &lie_in(bytes, start, &HEADER, rng),
        2..4 => draft.story += &lie_in(bytes, object.entry, &OBJECT, rng),
        4..5 => draft.story += &lie_in(bytes, extent.entry, &EXTENT, rng),
        5..7 => {
            let place = place(image, rng);
            let len = match rng.below(3) {
                0 => extent.bytes.len() as u64,
                1 => place.len() as u64,
                _ => extent.bytes.len() as u64 + BLOCK as u64,
            };
            set_word(bytes, extent.entry, place.start as u64);
            set_word(bytes, extent.entry + 8, len);
            let end = (place.start + len as usize).min(bytes.len());
            if rng.below(2) == 0 && !is_mutable(&object.name) {
                let sum = xxh3_64(&bytes[place.start.min(end)..end]);
                set_word(bytes, extent.entry + 16, sum);
            }
            draft.story += &format!("an extent at {place:?} with {len} bytes");
        }
        7..8 => {
            let other = &image.objects[rng.below(image.objects.len() as u64) as usize];
            let entries = (object.entry, other.entry);
            draft.owners.insert(Owner::Object(other.name.clone()));
            match rng.below(2) {
                // Names change places, or both objects get the same one.
                0 => {
                    let name = word(bytes, entries.0);
                    set_word(bytes, entries.0, word(&image.bytes, entries.1));
                    set_word(bytes, entries.1, name);
                }
                _ => {
                    bytes.copy_within(entries.0..entries.0 + 48, entries.1);
                }
            }
            draft.story += &format!("names like {}", other.name);
        }
        8..9 => {
            let byte = [0xff, 0, b'/', 0x80][rng.below(4) as usize];
            let name = object.meta.start - object.name.len();
            bytes[name + rng.below(object.name.len() as u64) as usize] = byte;
            draft.story += &format!("a name with {byte}");
        }
        9..11 => {
            let limbo = image.directory.end - super::directory_tail(image);
            let entries = (image.directory.end - limbo).saturating_sub(LIMBO_HEADER) / LIMBO_ENTRY;
            let entry = limbo + LIMBO_HEADER + rng.below(entries.max(1) as u64) as usize * LIMBO_ENTRY;
            if entries == 0 {
                draft.story += &lie_in(bytes, start, &HEADER, rng);
            } else if rng.below(2) == 0 {
                draft.story += &lie_in(bytes, entry, &LIMBO, rng);
            } else {
                // What is in use is said to be free soon.
                let place = place(image, rng);
                let len = place.len().next_multiple_of(BLOCK) as u64;
                for (field, value) in [(0, place.start as u64), (8, len), (16, 0), (24, 1)] {
                    set_word(bytes, entry + field, value);
                }
                draft.story += &format!("limbo at {place:?}");
            }
        }
        _ => return many(draft, object.entry, rng),
    }
    seal::directory(&mut draft.bytes, image);
}

/// A place that is not free for an extent: another one, or what is none.
fn place(image: &Image, rng: &mut SplitMix64) -> Range<usize> {
    let other = &image.objects[rng.below(image.objects.len() as u64) as usize];
    let extent = &other.extents[rng.below(other.extents.len() as u64) as usize];
    match rng.below(6) {
        0 => 0..BLOCK,
        1 => image.directory.clone(),
        2 => {
            let inside = rng.below(extent.bytes.len().div_ceil(BLOCK) as u64) as usize * BLOCK;
            extent.bytes.start + inside..extent.bytes.end.next_multiple_of(BLOCK)
        }
        3 => image.used() - BLOCK..image.bytes.len(),
        _ => extent.bytes.clone(),
    }
}

/// A directory of thousands of objects, each like the one at `entry` but for its name, at the end of a longer
/// file.
fn many(draft: &mut Draft<'_>, entry: usize, rng: &mut SplitMix64) {
    let image = draft.image;
    let count = SHARING_OBJECTS >> rng.below(4);
    let names: Vec<String> = (0..count).map(|number| format!("table/t{number:05}")).collect();
    let extents = word(&image.bytes, entry + 40);
    let whole = image.objects.iter().find(|object| object.entry == entry).unwrap();
    let mut directory = image.bytes[image.directory.start..image.directory.start + 64].to_vec();
    for (at, value) in [(16, count), (24, extents), (40, 0)] {
        set_word(&mut directory, at, value);
    }
    let (mut heap, meta) = (Vec::new(), &image.bytes[whole.meta.clone()]);
    heap.extend_from_slice(meta);
    for name in &names {
        let mut object = [0; 48];
        set_word(&mut object, 0, heap.len() as u64);
        set_word(&mut object, 16, name.len() as u64 | (meta.len() as u64) << 32);
        object[24..28].copy_from_slice(&image.bytes[entry + 24..entry + 28]);
        set_word(&mut object, 40, extents);
        directory.extend_from_slice(&object);
        heap.extend_from_slice(name.as_bytes());
    }
    let from = whole.extents.first().map_or(0, |extent| extent.entry);
    directory.extend_from_slice(&image.bytes[from..from + extents as usize * 32]);
    set_word(&mut directory, 32, heap.len() as u64);
    directory.extend_from_slice(&heap);
    directory.extend_from_slice(&[0; LIMBO_HEADER]);
    let start = draft.bytes.len().next_multiple_of(BLOCK);
    draft.bytes.resize(start, 0);
    draft.bytes.extend_from_slice(&directory);
    let end = draft.bytes.len().next_multiple_of(BLOCK);
    draft.bytes.resize(end, 0);
    let at = image.superblock;
    for (offset, value) in [
        (64, end as u64),
        (72, start as u64),
        (80, directory.len() as u64),
        (88, xxh3_64(&directory)),
    ] {
        set_word(&mut draft.bytes, at + offset, value);
    }
    seal::superblocks(&mut draft.bytes, at);
    draft.owners.extend(
        image
            .objects
            .iter()
            .map(|object| Owner::Object(object.name.clone())),
    );
    draft.story += &format!("{count} objects of the same extents");
}
