//! Hostile pools: files whose checksums are all right, and whose contents lie.
//!
//! Each kind of lie has a file; what it leaves is sealed, so that the program gets as far as the lie.

mod contents;
mod directory;
mod log;
mod metadata;
mod seal;
mod slab;
mod stores;
mod superblock;

use std::collections::BTreeSet;

use halocline_workloads::SplitMix64;

use crate::damage::{Damaged, Owner};
use crate::image::{Image, word};

/// A file that is being made.
#[derive(Debug)]
struct Draft<'a> {
    image: &'a Image,
    bytes: Vec<u8>,
    /// Bytes of the file, if they are more: the rest are a hole.
    len: Option<u64>,
    owners: BTreeSet<Owner>,
    story: String,
}

/// Draws a lie.
pub(crate) fn draw(image: &Image, rng: &mut SplitMix64) -> Damaged {
    let mut draft = Draft {
        image,
        bytes: image.bytes.clone(),
        len: None,
        owners: BTreeSet::new(),
        story: String::new(),
    };
    match rng.below(100) {
        0..8 => superblock::lie(&mut draft, rng),
        8..24 => directory::lie(&mut draft, rng),
        24..36 => metadata::lie(&mut draft, rng),
        36..58 => contents::lie(&mut draft, rng),
        58..68 => log::lie(&mut draft, rng),
        68..82 => slab::lie(&mut draft, rng),
        _ => stores::lie(&mut draft, rng),
    }
    Damaged {
        bytes: draft.bytes,
        len: draft.len,
        owners: draft.owners,
        story: draft.story,
    }
}

/// A number that a program may stumble over.
fn number(rng: &mut SplitMix64, honest: u64) -> u64 {
    const NUMBERS: [u64; 16] = [
        0,
        1,
        7,
        4096,
        1 << 16,
        1 << 20,
        (1 << 31) - 1,
        1 << 31,
        u32::MAX as u64,
        1 << 33,
        1 << 40,
        1 << 60,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 7,
        u64::MAX,
    ];
    match rng.below(8) {
        0 => honest.wrapping_add(1),
        1 => honest.wrapping_sub(1),
        2 => honest.wrapping_mul(2),
        3 => honest ^ (1 << rng.below(64)),
        4 => rng.next_u64() >> rng.below(64),
        _ => NUMBERS[rng.below(NUMBERS.len() as u64) as usize],
    }
}

/// Stores such a number in one of the fields of a structure: pairs of an offset from its start and a width in
/// bytes.
fn lie_in(bytes: &mut [u8], at: usize, fields: &[(usize, usize)], rng: &mut SplitMix64) -> String {
    let (offset, width) = fields[rng.below(fields.len() as u64) as usize];
    let field = &mut bytes[at + offset..at + offset + width];
    let mut word = [0; 8];
    word[..width].copy_from_slice(field);
    let honest = u64::from_le_bytes(word);
    let value = number(rng, honest);
    field.copy_from_slice(&value.to_le_bytes()[..width]);
    format!("field {offset} at {at}: {value} instead of {honest}; ")
}

/// Bytes of the directory after its heap.
fn directory_tail(image: &Image) -> usize {
    let start = image.directory.start;
    let parts = [(16, 48), (24, 32), (32, 1)];
    let sum: usize = parts
        .iter()
        .map(|(at, width)| word(&image.bytes, start + at) as usize * width)
        .sum();
    image.directory.len() - 64 - sum
}
