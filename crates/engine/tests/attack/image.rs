//! A pool file as bytes in memory, taken apart as docs/format/file.md describes it.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

/// Bytes from one superblock copy to the next.
pub(crate) const SLOT: usize = 4096;
/// Superblock copies.
pub(crate) const SLOTS: usize = 4;
/// Bytes of a superblock.
pub(crate) const SUPERBLOCK: usize = 128;
/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;
/// Checksums of blocks in a page of them.
pub(crate) const SUMS_PER_PAGE: usize = 511;
/// Bytes of the counts at the end of a log.
pub(crate) const LOG_COUNTS: usize = 128;
/// Bytes of the header of a directory, of an object in it, and of an extent in it.
const HEADER: usize = 64;
const OBJECT: usize = 48;
const EXTENT: usize = 32;

/// The newest generation of a pool.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    /// Where the newest superblock is.
    pub(crate) superblock: usize,
    /// Where the directory is.
    pub(crate) directory: Range<usize>,
    pub(crate) objects: Vec<Object>,
}

/// An object of the directory.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) name: String,
    /// Where its entry in the directory is.
    pub(crate) entry: usize,
    /// Where its metadata is.
    pub(crate) meta: Range<usize>,
    pub(crate) extents: Vec<Extent>,
}

/// An extent of an object.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// Where its entry in the directory is.
    pub(crate) entry: usize,
    pub(crate) bytes: Range<usize>,
    /// The checksums of its blocks, if it has them.
    pub(crate) sums: Range<usize>,
}

impl Image {
    /// # Panics
    /// If it is no pool, or a damaged one.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let valid = (0..SLOTS).map(|slot| slot * SLOT).filter(|at| {
            let slot = &bytes[*at..*at + SUPERBLOCK];
            slot.starts_with(b"HALOCLIN") && xxh3_64(&slot[..120]) == word(slot, 120)
        });
        let superblock = valid
            .max_by_key(|at| word(&bytes, at + 32))
            .expect("a superblock");
        let start = word(&bytes, superblock + 72) as usize;
        let directory = start..start + word(&bytes, superblock + 80) as usize;
        let (count, extents) = (
            word(&bytes, start + 16) as usize,
            word(&bytes, start + 24) as usize,
        );
        let extents_at = start + HEADER + count * OBJECT;
        let heap = extents_at + extents * EXTENT;
        let object = |number: usize| {
            let entry = start + HEADER + number * OBJECT;
            let name = heap + word(&bytes, entry) as usize;
            let meta = heap + word(&bytes, entry + 8) as usize;
            let lengths = word(&bytes, entry + 16);
            let first = word(&bytes, entry + 32);
            let extents = first..first + word(&bytes, entry + 40);
            let extent = |number: u64| {
                let entry = extents_at + number as usize * EXTENT;
                let from = word(&bytes, entry) as usize;
                let end = from + word(&bytes, entry + 8) as usize;
                let sums = end.next_multiple_of(BLOCK);
                let pages = match word(&bytes, entry + 24) {
                    1 => (end - from).div_ceil(BLOCK).div_ceil(SUMS_PER_PAGE),
                    _ => 0,
                };
                Extent {
                    entry,
                    bytes: from..end,
                    sums: sums..sums + pages * BLOCK,
                }
            };
            Object {
                name: String::from_utf8(bytes[name..name + lengths as u32 as usize].to_vec()).unwrap(),
                entry,
                meta: meta..meta + (lengths >> 32) as usize,
                extents: extents.map(extent).collect(),
            }
        };
        let objects = (0..count).map(object).collect();
        Self {
            superblock,
            directory,
            objects,
            bytes,
        }
    }

    /// The end of all that is in use.
    pub(crate) fn used(&self) -> usize {
        let extents = self.objects.iter().flat_map(|object| &object.extents);
        let ends = extents.map(|extent| extent.sums.end).chain([self.directory.end]);
        ends.max().unwrap_or(0).next_multiple_of(BLOCK)
    }

    /// The objects whose names begin so.
    pub(crate) fn of_kind(&self, prefix: &str) -> Vec<&Object> {
        let objects = self.objects.iter();
        objects.filter(|object| object.name.starts_with(prefix)).collect()
    }
}

/// Returns true if an object changes in place, so that nothing has a checksum of all of it: a log or a slab.
pub(crate) fn is_mutable(name: &str) -> bool {
    name == "log" || is_slab(name)
}

/// Returns true if an object is a slab: the stores, a tree, or records of items.
pub(crate) fn is_slab(name: &str) -> bool {
    name == "stores" || name.starts_with("tree/") || name.starts_with("memcached/")
}

/// The number in 8 bytes.
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Stores a number in 8 bytes.
pub(crate) fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
