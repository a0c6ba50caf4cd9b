//! The bytes of a segment: one directory extent (header, column headers, chunk entries) and part extents
//! (chunks and dictionaries). docs/format/tables.md has the same tables; a test compares them.
//!
//! Which fields are trusted when: opening a table checks the magic, the version, the header checksums and
//! that the chunk entries lie within the directory extent. Sketches are checked when they are read. A chunk
//! entry is checked when its chunk is read; chunk bytes are covered by the pool's extent checksum and by
//! `ChunkEntry::checksum`, which only `Table::check` verifies.

pub(crate) mod directory;
#[cfg(test)]
mod format_tests;
pub(crate) mod meta;
pub(crate) mod sketches;
pub(crate) mod wide;

use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const _: () = assert!(
    cfg!(target_endian = "little"),
    "pools are little-endian and read in place"
);

/// First eight bytes of a directory extent.
pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"HLCSEG1\0";
/// First eight bytes of a dictionary.
pub(crate) const DICTIONARY_MAGIC: [u8; 8] = *b"HLCDIC1\0";
/// Chunks and dictionaries start at multiples of this within a part.
pub(crate) const ALIGN: usize = 64;
/// Rows that are packed together (fixed by the bit-packing layout).
pub(crate) const BLOCK: usize = 1024;
/// Bytes of a packed block per bit of width.
pub(crate) const BLOCK_BYTES_PER_BIT: usize = BLOCK / 8;

/// Start of a directory extent.
#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct SegmentHeader {
    /// [`SEGMENT_MAGIC`].
    pub magic: [u8; 8],
    /// xxh3-64 of the headers (segment and columns) with this field zero.
    pub checksum: u64,
    /// Rows of the segment.
    pub rows: u64,
    /// Rows per chunk, a multiple of [`BLOCK`].
    pub chunk_rows: u32,
    /// Columns.
    pub columns: u32,
    /// Part extents that follow the directory extent in the object.
    pub parts: u32,
    /// Bytes of the sketches of the columns, 0 if there are none.
    pub sketches_len: u32,
    /// Offset of the sketches in the directory extent.
    pub sketches: u64,
    /// xxh3-64 of the sketches.
    pub sketches_checksum: u64,
    /// Zero.
    pub reserved: [u32; 2],
}

/// One per column, right after the segment header.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ColumnHeader {
    /// Smallest key of the column (0 if it has no value).
    pub min: u64,
    /// Largest key of the column.
    pub max: u64,
    /// NULLs.
    pub nulls: u64,
    /// Distinct values: exact for dictionary columns, else an estimate; 0 = unknown. The sketches, if there
    /// are any, say the same in a form that can be merged.
    pub distinct: u64,
    /// Offset of the chunk entries in the directory extent.
    pub entries: u64,
    /// xxh3-64 of the chunk entries.
    pub entries_checksum: u64,
    /// Bytes of chunks and dictionary.
    pub bytes: u64,
    /// Offset of the dictionary within its part.
    pub dictionary_offset: u64,
    /// Bytes of the dictionary, 0 if there is none.
    pub dictionary_len: u64,
    /// Part that holds the dictionary.
    pub dictionary_part: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// A `KIND_` constant.
    pub kind: u32,
    /// Zero.
    pub reserved: [u32; 11],
}

/// Fixed-size values, decimals only if all of them have a key: chunks hold keys.
pub(crate) const KIND_KEYS: u32 = 1;
/// Strings, or decimals as strings, of low cardinality: chunks hold ranks in the dictionary.
pub(crate) const KIND_DICTIONARY: u32 = 2;
/// Strings, or decimals as strings, as they are.
pub(crate) const KIND_STRINGS: u32 = 3;

/// One per chunk and column.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct ChunkEntry {
    /// Offset within the part, a multiple of [`ALIGN`].
    pub offset: u64,
    /// Bytes, 0 for a constant chunk.
    pub len: u64,
    /// Smallest key (rank; first eight bytes for strings as they are), 0 if all rows are NULL.
    pub min: u64,
    /// Largest key.
    pub max: u64,
    /// Packed value that means NULL, if there are NULLs: 0, and values are packed from 1 up; or, when 64
    /// bits leave no room for that, a value that no row has, and values are packed from 0 up.
    pub null_marker: u64,
    /// xxh3-64 of the chunk's bytes.
    pub checksum: u64,
    /// Rows.
    pub rows: u32,
    /// NULLs.
    pub nulls: u32,
    /// Index of the part.
    pub part: u32,
    /// An `CODEC_` constant.
    pub encoding: u8,
    /// Bits per packed value.
    pub width: u8,
    /// Distinct values of the chunk, NULL not counted, about: 0 = unknown, 65535 = this many or more.
    pub distinct: u16,
}

impl ChunkEntry {
    /// Returns the offset that means NULL.
    pub(crate) fn null(&self) -> Option<u64> {
        (self.nulls > 0).then_some(self.null_marker)
    }
}

/// `value - min` (+ 1 beside NULLs) in `width` bits, in blocks of [`BLOCK`]; width 0 takes no bytes.
pub(crate) const CODEC_BIT_PACKED: u8 = 0;
/// Strings, bytes as they are.
pub(crate) const CODEC_RAW_STRINGS: u8 = 1;
/// Strings, compressed one by one with the chunk's symbol table (FSST).
pub(crate) const CODEC_FSST: u8 = 2;
/// Offsets in lanes, in the order of the rows, in blocks of [`BLOCK`]. This codec and those up to 6 came with
/// format 2.
pub(crate) const CODEC_PLAIN: u8 = 3;
/// Positions in a sorted list of the chunk's offsets.
pub(crate) const CODEC_DICTIONARY: u8 = 4;
/// Differences of offsets that ascend in every block.
pub(crate) const CODEC_DELTA: u8 = 5;
/// Lengths of runs of equal offsets.
pub(crate) const CODEC_RUN_LENGTHS: u8 = 6;
/// Runs of equal offsets, with a bitmap of their first rows. This codec came with format 3.
pub(crate) const CODEC_RUN_STARTS: u8 = 7;

/// Segments whose chunks are packed keys and strings.
pub(crate) const FORMAT_PACKED: u32 = 1;
/// Segments with any codec up to [`CODEC_RUN_LENGTHS`].
pub(crate) const FORMAT_ENCODED: u32 = 2;
/// Segments with any codec.
pub(crate) const FORMAT_MARKED: u32 = 3;
/// Segments with any codec, and with decimals that are stored like strings.
pub(crate) const FORMAT_WIDE: u32 = 4;

/// Start of a chunk with the codec dictionary, delta or run lengths; its sections follow, each starting at a
/// multiple of [`ALIGN`].
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct KeysHeader {
    /// Number of distinct offsets, or of runs.
    pub count: u32,
    /// Bits per packed position or difference.
    pub width: u32,
    /// The number to add to each packed difference.
    pub step: u64,
    /// Zero.
    pub reserved: [u64; 6],
}

/// Start of a chunk of strings; sections follow in the order of the fields, each starting at a multiple of
/// [`ALIGN`].
#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct StringsHeader {
    /// Symbols (u64 each), then their lengths (u8 each).
    pub symbols: u32,
    /// Bits per offset; offsets are packed in blocks and count from the block's base.
    pub offset_width: u32,
    /// Offset of the block bases in the chunk: one u64 per block and one for the end, counted from
    /// `bytes_at`.
    pub bases_at: u64,
    /// Offset of the packed string starts.
    pub offsets_at: u64,
    /// Offset of the validity bitmap (bit set = not NULL), 0 if there are no NULLs.
    pub validity_at: u64,
    /// Offset of the strings' bytes.
    pub bytes_at: u64,
    /// Number of the strings' bytes.
    pub bytes_len: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// Start of a dictionary: then the strings' bytes in order, then at a multiple of 8 `count + 1` offsets.
#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct DictionaryHeader {
    /// [`DICTIONARY_MAGIC`].
    pub magic: [u8; 8],
    /// Strings.
    pub count: u64,
    /// Bytes of all strings.
    pub bytes_len: u64,
    /// Bytes per offset: 4 or 8.
    pub offset_bytes: u32,
    /// Zero.
    pub reserved: [u32; 9],
}

const _: () = {
    assert!(size_of::<SegmentHeader>() == 64 && offset_of!(SegmentHeader, sketches) == 40);
    assert!(size_of::<ColumnHeader>() == 128 && offset_of!(ColumnHeader, kind) == 80);
    assert!(size_of::<ChunkEntry>() == 64 && offset_of!(ChunkEntry, rows) == 48);
    assert!(size_of::<KeysHeader>() == 64 && offset_of!(KeysHeader, step) == 8);
    assert!(size_of::<StringsHeader>() == 64 && size_of::<DictionaryHeader>() == 64);
};

/// Computes the checksum of this format, 64-bit xxh3.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Rounds `value` up to a multiple of [`ALIGN`].
pub(crate) fn align_up(value: usize) -> usize {
    value.next_multiple_of(ALIGN)
}
