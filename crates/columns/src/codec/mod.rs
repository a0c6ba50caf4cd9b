//! Codecs of key chunks: how the offsets of a chunk are stored.
//!
//! An *offset* is an ordered key minus the smallest key of its chunk, with one offset reserved for NULL (see
//! `chunk.rs`). All codecs store the same offsets; only the chunk knows their meaning. A codec is one file
//! that implements [`Codec`], and one line in the list of [`dispatch`]. Only `encode.rs` names others: those
//! of plain and of quickly encoded chunks.
//!
//! Invariant: lengths and alignment are checked in O(1) when a chunk is opened, so that no later read leaves
//! its bytes. Damaged contents yield other offsets, never a panic.

pub(crate) mod bit_packed;
pub(crate) mod choose;
pub(crate) mod chunk;
pub(crate) mod chunk_predicate;
mod code_map;
mod constant;
mod delta;
mod dictionary;
pub(crate) mod dispatch;
pub(crate) mod encode;
pub(crate) mod plain;
pub(crate) mod reads;
mod run_length;
mod run_starts;
mod sections;
pub(crate) mod selected_rows;
pub(crate) mod sketch;
mod stats;
pub(crate) mod strings;

pub(crate) use code_map::CodeMap;
pub use dispatch::Encoding;

use crate::codec::chunk_predicate::ChunkPredicate;
use crate::codec::reads::ChunkReads;
use crate::format::{BLOCK, FORMAT_MARKED};
use crate::kernel::{BlockMask, Code, Lane};
use crate::read::bitset::Bitset;
use stats::ChunkStats;
use std::ops::Range;

/// Returns the first format of segments that has the codec with this number, of keys or of strings.
pub(crate) fn format_of(id: u8) -> u32 {
    let format = dispatch::KeyCodec::format_of(id).or_else(|| strings::StringsCodec::format_of(id));
    format.unwrap_or(FORMAT_MARKED)
}

/// The unit in which the rows of a chunk are looked up by their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupUnit {
    /// Each row, by its own code.
    Row,
    /// Each distinct code of the chunk, for all rows that have it.
    Entry,
    /// Each run of equal codes, for all of its rows.
    Run,
}

/// A way to store the offsets of a chunk. `L` is always the lane of the chunk's width.
pub(crate) trait Codec<'a>: Copy + std::fmt::Debug {
    /// The number of the codec in [`ChunkEntry::encoding`](crate::format::ChunkEntry::encoding).
    const ID: u8;

    /// The first format of segments that has the codec: a `FORMAT_` constant. Programs that know an older one
    /// only refuse tables with the codec.
    const FORMAT: u32;

    /// The unit of lookups by [`probe`](Self::probe).
    const LOOKUP_UNIT: LookupUnit = LookupUnit::Row;

    /// The number of wanted rows of a block from which decoding the whole block is faster than decoding each
    /// of them (measured with the benchmark `scan_speed`).
    const WHOLE_BLOCK_ROWS: usize;

    /// Returns the cost of a chunk in bytes, or a lower bound of it: its size, and
    /// [`decode_penalty`](stats::decode_penalty) for a codec that is slower to decode than bit-packed
    /// offsets. `None` if the offsets cannot be stored this way.
    fn estimate(stats: &ChunkStats<'_>) -> Option<usize>;

    /// Encodes the chunk that the statistics describe to words, for which [`estimate`](Self::estimate)
    /// returned a cost. `None` if the exact cost turns out to be `limit` or more.
    fn encode(stats: &ChunkStats<'_>, limit: usize) -> Option<Vec<u64>>;

    /// Opens a chunk of `rows` offsets of `width` bits. `None` if the length of `bytes` does not match.
    fn open(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self>;

    /// Returns the bytes that every reader of the chunk needs, beside the header and the blocks.
    fn shared_bytes(&self) -> &'a [u8] {
        &[]
    }

    /// Returns the bytes of consecutive blocks, in at most two ranges.
    fn blocks_bytes<L: Lane>(&self, blocks: Range<usize>) -> [&'a [u8]; 2];

    /// Decodes a block. Offsets after the last row of the chunk are unspecified.
    fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]);

    /// Returns a block whose offsets are stored as they are.
    fn stored_block<L: Lane>(&self, block: usize) -> Option<&'a [L; BLOCK]> {
        let _ = block;
        None
    }

    /// Decodes the offset of one row.
    fn get<L: Lane>(&self, row: usize) -> L;

    /// Returns the bit-packed numbers of which single rows can be read without the rest of their block.
    fn packed_rows(&self) -> Option<&bit_packed::BitPackedCodec<'a>> {
        None
    }

    /// Translates a predicate on offsets to one on the numbers that the codec stores for each row.
    fn translate<L: Lane>(&self, predicate: ChunkPredicate) -> ChunkPredicate {
        predicate
    }

    /// Evaluates a [translated](Self::translate) predicate for the rows of a block. `scratch` holds a block
    /// of 64-bit lanes.
    fn evaluate<L: Lane>(&self, block: usize, predicate: &ChunkPredicate, scratch: &mut [u64]) -> BlockMask;

    /// Adds to a map from offsets to codes what this codec looks up instead.
    fn prepare<L: Lane, C: Code>(&self, map: &mut CodeMap<C>) {
        let _ = map;
    }

    /// Decodes a block to codes.
    fn read_codes<L: Lane, C: Code>(
        &self,
        block: usize,
        map: &CodeMap<C>,
        scratch: &mut [u64],
        codes: &mut [C; BLOCK],
    );

    /// Decodes the codes of a few rows, counted from `block` on, that lie in `blocks` blocks, and reports
    /// what it reads. Returns false, with nothing done, if [`read_block_rows`](Self::read_block_rows) or
    /// whole blocks are better.
    fn read_rows<L: Lane, C: Code>(
        &self,
        reads: ChunkReads<'_>,
        (block, blocks): (usize, usize),
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        let _ = (reads, block, blocks, rows, map, codes);
        false
    }

    /// Decodes the codes of some rows of one block, whatever block they are counted from. Returns false, with
    /// nothing done, if decoding the whole block is better.
    fn read_block_rows<L: Lane, C: Code>(
        &self,
        block: usize,
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        let _ = (block, rows, map, codes);
        false
    }

    /// Translates a set of slots, which `map` maps to, to a set of the numbers that the codec stores for each
    /// row.
    fn translate_slots(&self, map: &CodeMap<u32>, slots: &Bitset) -> Option<Bitset> {
        let _ = (map, slots);
        None
    }

    /// Returns the rows of a block whose slot, the stored number plus `shift`, is in the
    /// [translated](Self::translate_slots) set. `None` if the block has to be decoded for that.
    fn probe<L: Lane>(&self, block: usize, shift: u32, slots: &Bitset) -> Option<BlockMask> {
        let _ = (block, shift, slots);
        None
    }
}
