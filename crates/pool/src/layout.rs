//! The durable format: all constants and structures, and nothing else. `docs/format/file.md` has the same as
//! tables, which a test compares with this file.
//!
//! Invariants: all integers are little-endian, structures have no padding and alignment 1, reserved bytes are
//! zero, and durable bytes contain offsets from the start of the pool, never addresses.

use std::mem::{offset_of, size_of};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The newest format that this build reads and writes: that of pools with features.
pub const FORMAT_VERSION: u32 = 4;

/// The format of pools with slabs and without features.
pub(crate) const FORMAT_WITH_SLABS: u32 = 3;

/// The format of pools with logs and without slabs.
pub(crate) const FORMAT_WITH_LOGS: u32 = 2;

/// The format of pools without logs and slabs, which the oldest programs can read.
pub(crate) const FORMAT_WITHOUT_LOGS: u32 = 1;

/// The first bytes of each superblock, in every version of the format.
pub(crate) const MAGIC: [u8; 8] = *b"HALOCLIN";

/// The first bytes of each directory.
pub(crate) const DIRECTORY_MAGIC: [u8; 8] = *b"HLDIRECT";

/// Offset of the first byte that extents may use, after the superblocks.
pub(crate) const DATA_START: u64 = 16 << 10;

/// Distance between superblock copies: each has a page of its own.
pub(crate) const SLOT_SIZE: u64 = 4 << 10;

/// Number of superblock copies: publishes write 0 and 1 alternately, syncs write 2 and 3.
pub(crate) const SLOTS: usize = 4;

/// Alignment and size unit of extents.
pub(crate) const BLOCK: u64 = 4 << 10;

/// Alignment of extents of at least this many bytes, so that huge pages can map them.
pub(crate) const HUGE: u64 = 2 << 20;

/// Extents of more bytes than this are followed by block checksums; shorter ones are verified as a whole.
pub(crate) const SUMMED_FROM: u64 = 64 << 10;

/// Block checksums per page of 4 KiB, which ends with the checksum of the page.
pub(crate) const SUMS_PER_PAGE: u64 = 511;

/// Value of [`ExtentEntry::sums`] for an extent that is followed by checksums of its blocks.
pub(crate) const SUMS_FOLLOW: u64 = 1;

/// Bytes of the reserve of a pool, beside those for its directory and its logs.
pub(crate) const RESERVE: u64 = 512 << 10;

/// Bytes of a new pool.
pub(crate) const INITIAL_LEN: u64 = 2 << 20;

/// Maximum length of an object's name, in bytes.
pub const MAX_NAME: usize = 255;

/// Maximum length of an object's metadata, in bytes.
pub const MAX_META: usize = 64 << 20;

/// Offset of a word that each vacuum changes to tell other open handles that free space may have lost its
/// blocks. It has no meaning for handles opened later.
pub(crate) const VACUUMS: u64 = 2048;

/// The version of the layout of logs with a count at the end of the extent.
pub(crate) const LOG_VERSION: u32 = 1;

/// Bytes of the two counts at the end of a log's extent.
pub(crate) const LOG_COUNTS: u64 = 128;

/// The newest version of the layout of slabs.
pub(crate) const SLAB_VERSION: u32 = 2;

/// The first version of the layout of slabs with room for node checksums in each chunk.
pub(crate) const SLAB_WITH_SUMS: u32 = 2;

/// Bytes of a node checksum.
pub(crate) const NODE_SUM: u64 = 4;

/// Value that stands for the checksum of a node that was closed without one.
pub(crate) const NO_SUM: u32 = u32::MAX;

/// State of a slab that is being written, or was when its writer died: node checksums are invalid.
pub(crate) const SLAB_OPEN: u64 = u64::from_le_bytes(*b"slabopen");

/// State of a slab that is being written, or was when its writer died, while the owner's word stays valid:
/// node checksums are invalid.
pub(crate) const SLAB_OPEN_WORD: u64 = u64::from_le_bytes(*b"slabword");

/// State of a slab that was closed cleanly: node checksums are valid.
pub(crate) const SLAB_CLOSED: u64 = u64::from_le_bytes(*b"slabshut");

/// Minimum size of a slab node, of which every node size is a multiple.
pub(crate) const MIN_NODE_SIZE: u32 = 256;

/// Maximum size of a slab node.
pub(crate) const MAX_NODE_SIZE: u32 = 64 << 10;

/// Bytes of the head of a slab, at the start of its first chunk.
pub(crate) const SLAB_HEAD: u64 = 4 << 10;

/// Offset in the head of the owner's root, which extends to the end of the head.
pub(crate) const SLAB_ROOT: u64 = 256;

/// Base of the lock bytes of slabs: each has the byte of its first chunk's block number.
pub(crate) const LOCK_SLABS: u64 = 1 << 61;

/// The lock of the readers beside the writer of a slab that pin number 0; that of number n is n bytes
/// further.
pub(crate) const LOCK_SLAB_PINS: u64 = 3 << 60;

/// Base of the lock bytes: far beyond any data, where a byte can only be locked.
pub(crate) const LOCK_BASE: u64 = 1 << 62;

/// The writer's lock.
pub(crate) const LOCK_WRITER: u64 = LOCK_BASE;

/// The lock that protects the synced superblocks.
pub(crate) const LOCK_SYNC: u64 = LOCK_BASE + 1;

/// A classic lock held beside the writer's, from which others learn its process id.
pub(crate) const LOCK_WRITER_PID: u64 = LOCK_BASE + 2;

/// A lock that each open handle shares, and that is exclusive while the file is shortened.
pub(crate) const LOCK_OPEN: u64 = LOCK_BASE + 3;

/// Base of the classic locks held beside those of slabs, from which others learn the process that has a slab
/// open.
pub(crate) const LOCK_SLAB_PIDS: u64 = 3 << 61;

/// The lock of the readers of generation 0; that of generation g is g bytes further.
pub(crate) const LOCK_READERS: u64 = LOCK_BASE + 4096;

/// A superblock, one of four copies, which leads to the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U32,
    pub(crate) reserved_a: U32,
    pub(crate) uuid: [u8; 16],
    pub(crate) generation: U64,
    pub(crate) synced_generation: U64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) file_len: U64,
    pub(crate) directory_offset: U64,
    pub(crate) directory_len: U64,
    pub(crate) directory_checksum: U64,
    pub(crate) incompatible: U64,
    pub(crate) read_compatible: U64,
    pub(crate) compatible: U64,
    pub(crate) checksum: U64,
}

/// Header of a directory, followed by the objects, the extents and the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct DirectoryHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) generation: U64,
    pub(crate) object_count: U64,
    pub(crate) extent_count: U64,
    pub(crate) heap_len: U64,
    pub(crate) limbo_count: U64,
    pub(crate) reserved: [u8; 16],
}

/// An object of a directory. Name and metadata are ranges of the heap, extents a range of the directory's
/// extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ObjectEntry {
    pub(crate) name_offset: U64,
    pub(crate) meta_offset: U64,
    pub(crate) name_len: U32,
    pub(crate) meta_len: U32,
    pub(crate) kind: U32,
    pub(crate) reserved: U32,
    pub(crate) first_extent: U64,
    pub(crate) extent_count: U64,
}

/// An extent of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ExtentEntry {
    pub(crate) offset: U64,
    pub(crate) len: U64,
    pub(crate) checksum: U64,
    pub(crate) sums: U64,
}

/// Header of the limbo list, after the heap of a directory, followed by its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LimboHeader {
    pub(crate) synced: U64,
    pub(crate) reserved: U64,
}

/// An entry of the limbo list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LimboEntry {
    pub(crate) offset: U64,
    pub(crate) len: U64,
    pub(crate) born: U64,
    pub(crate) freed: U64,
}

/// Header of a log record, followed by the payload, zeros up to a multiple of 8, and the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RecordHeader {
    pub(crate) len: U32,
    pub(crate) salt: U32,
}

/// Metadata of a log that has a count at its end; logs of older versions have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LogMeta {
    pub(crate) version: U32,
    pub(crate) reserved: U32,
}

/// One of the two counts at the end of a log's extent, which belongs to one start. Each word but the first
/// holds a value with a checksum of its own, so that it is stored atomically and never torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LogCount {
    pub(crate) start: U64,
    pub(crate) end: U64,
    pub(crate) records: U64,
    pub(crate) seen_end: U64,
    pub(crate) seen_records: U64,
    pub(crate) reserved: [u8; 24],
}

/// Metadata of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SlabMeta {
    pub(crate) version: U32,
    pub(crate) node_size: U32,
    pub(crate) owner: [u8; 8],
}

/// The beginning of the head of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SlabHead {
    pub(crate) boot_id: [u8; 16],
    pub(crate) unsynced: U64,
    pub(crate) root_sum: U64,
    pub(crate) state: U64,
    pub(crate) owner_word: U64,
    pub(crate) reserved: [u8; 16],
}

impl SlabHead {
    /// Offset of the state. A store of the whole head writes it last of the values that differ.
    pub(crate) const STATE: u64 = offset_of!(SlabHead, state) as u64;

    /// Offset of the owner's word, which is stored before the state.
    pub(crate) const OWNER_WORD: u64 = offset_of!(SlabHead, owner_word) as u64;
}

/// Alignment of records.
pub(crate) const RECORD_ALIGN: u64 = 8;

/// Bytes of a record besides payload and padding: the header and the checksum.
pub(crate) const RECORD_OVERHEAD: u64 = 16;

/// Bytes of a superblock that its checksum covers: all before it.
pub(crate) const SUPERBLOCK_SUMMED: usize = offset_of!(Superblock, checksum);

const _: () = {
    assert!(size_of::<Superblock>() == 128);
    assert!(offset_of!(Superblock, version) == 8);
    assert!(offset_of!(Superblock, uuid) == 16);
    assert!(offset_of!(Superblock, generation) == 32);
    assert!(offset_of!(Superblock, boot_id) == 48);
    assert!(offset_of!(Superblock, file_len) == 64);
    assert!(offset_of!(Superblock, directory_checksum) == 88);
    assert!(offset_of!(Superblock, incompatible) == 96);
    assert!(offset_of!(Superblock, checksum) == 120);
    assert!(size_of::<DirectoryHeader>() == 64);
    assert!(offset_of!(DirectoryHeader, limbo_count) == 40);
    assert!(size_of::<LimboHeader>() == 16 && size_of::<LimboEntry>() == 32);
    assert!(size_of::<ObjectEntry>() == 48);
    assert!(size_of::<ExtentEntry>() == 32);
    assert!(size_of::<SlabMeta>() == 16);
    assert!(offset_of!(SlabHead, state) == 32 && offset_of!(SlabHead, owner_word) == 40);
    assert!(size_of::<SlabHead>() == 64 && SLAB_ROOT >= 64 && SLAB_HEAD == BLOCK);
    assert!(size_of::<LogMeta>() == 8);
    assert!(2 * size_of::<LogCount>() as u64 == LOG_COUNTS && LOG_COUNTS < BLOCK);
    assert!(offset_of!(LogCount, end) == 8 && offset_of!(LogCount, seen_end) == 24);
    assert!(size_of::<RecordHeader>() as u64 + 8 == RECORD_OVERHEAD);
    assert!((SUMS_PER_PAGE + 1) * 8 == BLOCK);
    assert!(RECORD_OVERHEAD.is_multiple_of(RECORD_ALIGN) && BLOCK.is_multiple_of(RECORD_ALIGN));
    assert!(
        VACUUMS.is_multiple_of(8) && VACUUMS >= size_of::<Superblock>() as u64 && VACUUMS + 8 <= SLOT_SIZE
    );
    assert!(SLOTS as u64 * SLOT_SIZE == DATA_START);
    assert!(DATA_START.is_multiple_of(BLOCK) && HUGE.is_multiple_of(BLOCK) && INITIAL_LEN > DATA_START);
    assert!(BLOCK.is_multiple_of(halocline_media::PAGE));
};

/// Returns the checksum of durable bytes: xxh3-64 with seed 0.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Returns the space that an extent of `len` bytes occupies, in bytes.
pub(crate) fn blocks(len: u64) -> u64 {
    len.next_multiple_of(BLOCK)
}
