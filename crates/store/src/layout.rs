//! The durable format: all constants and structures, and nothing else. `docs/format/stores.md` has the same
//! as tables, which a test compares with this file.
//!
//! Invariants: all integers are little-endian, structures have no padding and alignment 1, reserved bytes are
//! zero, and durable bytes contain offsets from the start of the pool, never addresses.

use std::mem::{offset_of, size_of};

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The owner of the slab, by which opening recognises it.
pub(crate) const OWNER: [u8; 8] = *b"stores\0\0";

/// The pool object that holds all stores.
pub(crate) const OBJECT: &str = "stores";

/// Bytes of a segment, which is one node of the slab.
pub(crate) const SEGMENT: u64 = 64 << 10;

/// Bytes of a leaf.
pub(crate) const LEAF: u64 = 1 << 10;

/// Bytes of a branch.
pub(crate) const BRANCH: u64 = 4 << 10;

/// Alignment of frames and records.
pub(crate) const ALIGN: u64 = 8;

/// Maximum length of a key in bytes.
pub const MAX_KEY: usize = 1 << 10;

/// Maximum length of a value in bytes.
pub const MAX_VALUE: usize = 1 << 20;

/// Values of more bytes than this are stored in chunks of at most this many: four fit a segment, with keys of
/// up to 972 bytes and the heads of a frame and a link.
pub(crate) const CHUNK: usize = 15 << 10;

/// The first bytes of each checkpoint.
pub(crate) const MAGIC: [u8; 8] = *b"HLSTORES";

/// The version of this format. Version 2 added leaves whose checksum covers their place, and records with
/// [`RECORD_FIRST`]; version 3 added records that delete ranges, and catalogs of several parts. A version is
/// durable before the first of what it added is stored.
pub(crate) const VERSION: u32 = 3;

/// The version of the format of a [`DecidedHead`].
pub(crate) const DECIDED_VERSION: u32 = 1;

/// Numbers of commits, frames and checkpoints are less than this: greater ones are damage.
pub(crate) const MAX_NUMBER: u64 = 1 << 56;

/// Distance between the two copies of the checkpoint in the root of the slab. The second one is stored when
/// the first one is durable, so that a crash leaves one of them whole: if both are invalid, they are damaged.
pub(crate) const CHECKPOINT_COPY: u64 = 128;

/// Offset of the [`ReaderEpoch`] in the root of the slab.
pub(crate) const READER_EPOCH: u64 = 256;

/// Tells readers in other processes whether what they have read can still be there. Stored, but never
/// flushed: only readers that run beside the writer compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ReaderEpoch {
    /// Changed by each opening for writing.
    pub openings: U64,
    /// Changed whenever space is used again that a reader may read.
    pub releases: U64,
}

/// A checkpoint: everything before its position in the log is in the trees that its catalog names.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct Checkpoint {
    pub magic: [u8; 8],
    pub version: U32,
    pub reserved: U32,
    /// Number of the checkpoint; of two valid copies the greater one counts.
    pub number: U64,
    /// Offset of the first frame after the checkpoint.
    pub log: U64,
    /// Offset of the segment that it is in.
    pub log_segment: U64,
    /// Sequence number of that frame, and the checksum of the one before.
    pub frame: U64,
    pub chain: U64,
    /// A random number from the creation of the stores, on which the checksums of frames depend.
    pub secret: U64,
    /// The newest commit before it.
    pub commit: U64,
    /// Offset of the catalog's first segment, and the catalog's length in bytes.
    pub catalog: U64,
    pub catalog_len: U64,
    /// xxh3-64 of the last part of the catalog, seeded with that of the parts before.
    pub catalog_sum: U64,
    /// xxh3-64 of the fields before.
    pub checksum: U64,
}

/// The first bytes of each segment of a catalog.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CatalogSegment {
    /// Offset of the next segment of the catalog. Without meaning in the last one.
    pub next: U64,
    pub reserved: U64,
}

/// The first bytes of a catalog, followed by its segment entries and its store entries.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CatalogHead {
    /// Number of segments.
    pub segments: U64,
    /// Number of stores.
    pub stores: U32,
    /// The number that the next new store gets.
    pub next_store: U32,
}

/// The first bytes of a later part of a catalog, followed by the entries of segments and the numbers of
/// dropped stores, and the entries of stores that have changed.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CatalogDelta {
    /// Number of segments.
    pub segments: U64,
    /// Number of stores that have changed.
    pub stores: U32,
    /// Number of stores that were dropped.
    pub dropped: U32,
    /// The number that the next new store gets.
    pub next_store: U32,
    pub reserved: U32,
}

/// The use of a segment; in a later part of a catalog also that it is not in use any more.
pub(crate) const KIND_NONE: u32 = 0;
pub(crate) const KIND_LOG: u32 = 1;
pub(crate) const KIND_LEAVES: u32 = 2;
pub(crate) const KIND_BRANCHES: u32 = 3;

/// The `store` of a segment in which no record has ever counted as needed.
pub(crate) const NO_STORE: u32 = u32::MAX;

/// A segment in use.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SegmentEntry {
    pub offset: U64,
    /// For log segments the bytes of records that are still needed, else a bit for each page in use.
    pub used: U64,
    /// The latest time at which one of its records expires, in ms since 1970; 0 if none does.
    pub expires: U64,
    /// One of the `KIND_` constants.
    pub kind: U32,
    /// Of a log segment, the store whose records only have ever counted as needed in it: its number plus one,
    /// [`NO_STORE`] if none have. 0 if unknown or several stores.
    pub store: U32,
}

/// A store, followed by its name.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct StoreEntry {
    pub id: U32,
    pub name_len: U16,
    /// One more than the level of the root; 0 if there is none, or if it is not known, as in format 1.
    pub levels: U16,
    /// Offset of the root branch, 0 if the tree is empty.
    pub root: U64,
    /// Number of keys.
    pub keys: U64,
    /// Bytes of keys and values.
    pub bytes: U64,
}

/// The head of a frame: one step of the log. Records follow, each at a multiple of [`ALIGN`].
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct FrameHead {
    /// Bytes of the frame, with this head.
    pub len: U32,
    /// `FRAME_` flags.
    pub flags: U16,
    /// Number of records.
    pub records: U16,
    /// Sequence number, one more than that of the frame before.
    pub number: U64,
    /// Checksum of the frame before, so that no frame follows another one than when it was written.
    pub chain: U64,
    /// Commit number, or, in a link, the offset of the segment in which the log goes on.
    pub commit: U64,
    /// xxh3-64 of the fields before and of the checksums of the records.
    pub checksum: U64,
}

/// The batch of this frame goes on in the next one.
pub(crate) const FRAME_MORE: u16 = 1;
/// The records are copies of older ones, which keep their commit numbers.
pub(crate) const FRAME_MOVED: u16 = 2;
/// The log goes on in another segment.
pub(crate) const FRAME_LINK: u16 = 4;
/// All frames before this one were durable when it was written.
pub(crate) const FRAME_FENCED: u16 = 8;

/// The head of a record. The time of expiry, if it has one, the key and the value follow.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct RecordHead {
    pub key_len: U16,
    /// `RECORD_` flags.
    pub flags: U16,
    pub value_len: U32,
    /// The lower half of the xxh3-64 of the record with this field and `prev` zero.
    pub checksum: U32,
    /// The store.
    pub store: U32,
    /// The commit that wrote it.
    pub commit: U64,
    /// Offset of the version before, or 0. Valid only for readers of an older snapshot. A record with
    /// [`RECORD_FIRST`] does not have this field.
    pub prev: U64,
}

/// The key is deleted.
pub(crate) const RECORD_DELETED: u16 = 1;
/// A time of expiry of 8 bytes precedes the key.
pub(crate) const RECORD_EXPIRES: u16 = 2;
/// The value is a list: its length, then the offsets of its chunks.
pub(crate) const RECORD_CHUNKED: u16 = 4;
/// The record is a chunk of the value of its key.
pub(crate) const RECORD_CHUNK: u16 = 8;
/// The record is the first version of its key ever, or a chunk of it: its head ends before `prev`.
pub(crate) const RECORD_FIRST: u16 = 16;
/// The record deletes all older versions of the keys between two bounds, which are its value.
pub(crate) const RECORD_RANGE: u16 = 32;

/// The head of the value of a record that deletes a range. The keys of the bounds follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RangeBounds {
    /// `BOUND_` constants of the lower and of the upper bound.
    pub from: u8,
    pub to: u8,
    /// Bytes of the key of the lower bound.
    pub from_len: U16,
    /// Bytes of the key of the upper bound.
    pub to_len: U16,
}

/// There is no bound.
pub(crate) const BOUND_NONE: u8 = 0;
/// The key of the bound is in the range.
pub(crate) const BOUND_INCLUDED: u8 = 1;
/// The key of the bound is not in the range.
pub(crate) const BOUND_EXCLUDED: u8 = 2;

/// The name of the object with the batch of the newest transaction that has changed tables and stores.
pub(crate) const DECIDED: &str = "stores/decided";

/// The head of the extent of that object. The operations follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DecidedHead {
    /// [`DECIDED_VERSION`].
    pub version: U32,
    pub reserved: U32,
    /// The secret of the log, by which stores are told from others that a pool had before.
    pub secret: U64,
    /// The commit that the batch is.
    pub commit: U64,
    /// Number of operations.
    pub ops: U64,
}

/// An operation, followed by its key and its value.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DecidedOp {
    /// The store.
    pub store: U32,
    pub key_len: U32,
    /// [`NO_VALUE`] for a deletion.
    pub value_len: U32,
}

/// The length of the value of a deletion.
pub(crate) const NO_VALUE: u32 = u32::MAX;

/// Bytes of the head of a frame.
pub(crate) const FRAME_HEAD: u64 = size_of::<FrameHead>() as u64;

/// Bytes of the head of a record.
pub(crate) const RECORD_HEAD: u64 = size_of::<RecordHead>() as u64;

/// Bytes of the head of a record with [`RECORD_FIRST`].
pub(crate) const FIRST_HEAD: u64 = offset_of!(RecordHead, prev) as u64;

const _: () = {
    assert!(size_of::<Checkpoint>() == 104);
    assert!(size_of::<CatalogSegment>() == 16);
    assert!(size_of::<CatalogHead>() == 16);
    assert!(size_of::<CatalogDelta>() == 24);
    assert!(size_of::<SegmentEntry>() == 32);
    assert!(size_of::<StoreEntry>() == 32);
    assert!(size_of::<DecidedHead>() == 32);
    assert!(size_of::<DecidedOp>() == 12);
    assert!(size_of::<ReaderEpoch>() == 16);
    assert!(size_of::<RangeBounds>() == 6);
    assert!(FRAME_HEAD == 40 && RECORD_HEAD == 32 && FIRST_HEAD == 24);
};
