//! Lies of the superblock: where the directory is, how long it and the file are, which generation it is.

use halocline_workloads::SplitMix64;

use crate::damage::Owner;
use crate::image::{SLOT, SLOTS, SUPERBLOCK, set_word};

use super::{Draft, lie_in, seal};

/// Version, features, generations, boot, length of the file, offset, length and checksum of the directory.
const FIELDS: [(usize, usize); 11] = [
    (8, 4),
    (12, 4),
    (32, 8),
    (40, 8),
    (48, 8),
    (64, 8),
    (72, 8),
    (80, 8),
    (88, 8),
    (96, 8),
    (104, 8),
];
/// Directories that are longer than memory, in a file that is as long.
const LONG: [u64; 3] = [1 << 30, 10 << 30, 300 << 30];

pub(super) fn lie(draft: &mut Draft<'_>, rng: &mut SplitMix64) {
    draft.owners.extend([Owner::File, Owner::Directory]);
    let at = draft.image.superblock;
    if rng.below(4) == 0 {
        let len = LONG[rng.below(LONG.len() as u64) as usize];
        let file = len + (16 << 20);
        set_word(&mut draft.bytes, at + 64, file);
        set_word(&mut draft.bytes, at + 80, len);
        draft.len = Some(file);
        draft.story = format!("a directory of {len} bytes");
    } else {
        draft.story = "superblock, ".to_owned() + &lie_in(&mut draft.bytes, at, &FIELDS, rng);
    }
    seal::superblock(&mut draft.bytes, at);
    let all = rng.below(2) == 0;
    let honest = draft.bytes[at..at + SUPERBLOCK].to_vec();
    for slot in (0..SLOTS).map(|slot| slot * SLOT).filter(|_| all) {
        draft.bytes[slot..slot + SUPERBLOCK].copy_from_slice(&honest);
    }
}
