//! Checksums that are right whatever they are of.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::image::{BLOCK, Extent, Image, SLOT, SLOTS, SUMS_PER_PAGE, SUPERBLOCK, is_mutable, set_word};

/// Makes the checksums of all immutable extents right, then those of what names them.
pub(super) fn all(bytes: &mut [u8], image: &Image) {
    for object in image.objects.iter().filter(|object| !is_mutable(&object.name)) {
        for extent in &object.extents {
            let sum = xxh3_64(&bytes[extent.bytes.clone()]);
            set_word(bytes, extent.entry + 16, sum);
            blocks(bytes, extent, sum);
        }
    }
    directory(bytes, image);
}

/// Makes the checksums of an extent's blocks right; `sum`: that of the extent.
fn blocks(bytes: &mut [u8], extent: &Extent, sum: u64) {
    let blocks: Vec<u64> = bytes[extent.bytes.clone()].chunks(BLOCK).map(xxh3_64).collect();
    for (number, page) in bytes[extent.sums.clone()].chunks_exact_mut(BLOCK).enumerate() {
        page.fill(0);
        let sums = blocks.iter().skip(number * SUMS_PER_PAGE).take(SUMS_PER_PAGE);
        for (at, sum) in sums.enumerate() {
            set_word(page, at * 8, *sum);
        }
        let end = SUMS_PER_PAGE * 8;
        let own = xxh3_64_with_seed(&page[..end], sum.wrapping_add(number as u64));
        set_word(page, end, own);
    }
}

/// Makes the checksum of the directory right, and all superblocks lead to it.
pub(super) fn directory(bytes: &mut [u8], image: &Image) {
    let sum = xxh3_64(&bytes[image.directory.clone()]);
    set_word(bytes, image.superblock + 88, sum);
    superblocks(bytes, image.superblock);
}

/// Makes a superblock right, and all others copies of it.
pub(super) fn superblocks(bytes: &mut [u8], at: usize) {
    superblock(bytes, at);
    for slot in (0..SLOTS).map(|slot| slot * SLOT) {
        bytes.copy_within(at..at + SUPERBLOCK, slot);
    }
}

/// Makes the checksum of a superblock right.
pub(super) fn superblock(bytes: &mut [u8], at: usize) {
    let sum = xxh3_64(&bytes[at..at + 120]);
    set_word(bytes, at + 120, sum);
}
