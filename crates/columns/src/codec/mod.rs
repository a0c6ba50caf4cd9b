//! Codecs of key chunks: how the offsets of a chunk are stored.
//!
//! An *offset* is an ordered key minus the smallest key of its chunk, with one offset reserved for NULL (see
//! `chunk.rs`). All codecs store the same offsets; only the chunk knows their meaning. A codec is one file
//! that implements [`Codec`], and one line in the list of [`codecs!`] below.
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
pub(crate) mod plain;
mod run_length;
mod run_starts;
mod sections;
pub(crate) mod sketch;
pub(crate) mod strings;

pub(crate) use code_map::CodeMap;

use crate::Encoding;
use crate::codec::chunk::KeyChunk;
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::format::BLOCK;
use crate::kernel::{Lane, with_lane};
use crate::read::bitset::Bitset;
use crate::read::codes::Code;
use crate::read::select::BlockMask;
use choose::ChunkStats;
use std::ops::Range;

/// A way to store the offsets of a chunk. `L` is always the lane of the chunk's width.
pub(crate) trait Codec<'a>: Copy + std::fmt::Debug {
    /// The number of the codec in [`ChunkEntry::encoding`](crate::format::ChunkEntry::encoding).
    const ID: u8;

    /// The name under which statistics report it.
    const ENCODING: Encoding;

    /// The number of wanted rows of a block from which decoding the whole block is faster than decoding each
    /// of them (measured with the benchmark `scan_speed`).
    const WHOLE_BLOCK_ROWS: usize;

    /// Returns the cost of a chunk in bytes, or a lower bound of it: its size, and
    /// [`decode_penalty`](choose::decode_penalty) for a codec that is slower to decode than bit-packed
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

    /// Decodes a block. Offsets behind the last row of the chunk are unspecified.
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

    /// Decodes the codes of a few rows, counted from `block` on, that lie in `blocks` blocks. Returns false,
    /// with nothing done, if [`read_block_rows`](Self::read_block_rows) or whole blocks are better.
    fn read_rows<L: Lane, C: Code>(
        &self,
        chunk: &KeyChunk<'_>,
        (block, blocks): (usize, usize),
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        let _ = (chunk, block, blocks, rows, map, codes);
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

/// Estimates and encodes by one codec.
#[derive(Debug)]
pub(crate) struct Encoder {
    id: u8,
    estimate: fn(&ChunkStats<'_>) -> Option<usize>,
    encode: fn(&ChunkStats<'_>, usize) -> Option<Vec<u64>>,
}

/// Generates [`KeyCodec`] and the list of encoders from the list of codecs. Two codecs may share a number if
/// their widths differ.
macro_rules! codecs {
    ($($name:ident($codec:ty) if $accepts:expr),* $(,)?) => {
        /// An opened codec.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum KeyCodec<'a> {
            $($name($codec)),*
        }

        /// Returns the encoders of all codecs.
        #[allow(clippy::extra_unused_lifetimes, reason = "the types of the list name it")]
        fn encoders<'a>() -> [Encoder; [$(stringify!($name)),*].len()] {
            [$(Encoder {
                id: <$codec as Codec<'a>>::ID,
                estimate: <$codec as Codec<'a>>::estimate,
                encode: <$codec as Codec<'a>>::encode,
            }),*]
        }

        impl<'a> KeyCodec<'a> {
            /// Opens the bytes of a chunk.
            ///
            /// # Errors
            /// A text that says what does not match.
            pub(crate) fn open(
                id: u8,
                width: usize,
                rows: usize,
                bytes: &'a [u8],
            ) -> Result<KeyCodec<'a>, &'static str> {
                $(
                    let accepts: fn(usize) -> bool = $accepts;
                    if id == <$codec as Codec<'a>>::ID && accepts(width) {
                        let codec = <$codec as Codec<'a>>::open(width, rows, bytes);
                        return codec.map(KeyCodec::$name).ok_or("chunk has the wrong length");
                    }
                )*
                Err("unknown encoding of keys")
            }

            /// Returns the public name of the codec with that number, for a chunk of that width.
            pub(crate) fn encoding_of(id: u8, width: usize) -> Option<Encoding> {
                $(
                    let accepts: fn(usize) -> bool = $accepts;
                    if id == <$codec as Codec<'a>>::ID && accepts(width) {
                        return Some(<$codec as Codec<'a>>::ENCODING);
                    }
                )*
                None
            }

            pub(crate) fn encoding(&self) -> Encoding {
                fn of<'a, T: Codec<'a>>(_: &T) -> Encoding {
                    T::ENCODING
                }
                match self { $(KeyCodec::$name(codec) => of(codec)),* }
            }

            pub(crate) fn whole_block_rows(&self) -> usize {
                fn of<'a, T: Codec<'a>>(_: &T) -> usize {
                    T::WHOLE_BLOCK_ROWS
                }
                match self { $(KeyCodec::$name(codec) => of(codec)),* }
            }

            pub(crate) fn shared_bytes(&self) -> &'a [u8] {
                match self { $(KeyCodec::$name(codec) => codec.shared_bytes()),* }
            }

            pub(crate) fn blocks_bytes(&self, width: usize, blocks: Range<usize>) -> [&'a [u8]; 2] {
                with_lane!(width, L => match self {
                    $(KeyCodec::$name(codec) => codec.blocks_bytes::<L>(blocks)),*
                })
            }

            pub(crate) fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
                match self { $(KeyCodec::$name(codec) => codec.unpack(block, out)),* }
            }

            #[inline]
            pub(crate) fn stored_block<L: Lane>(&self, block: usize) -> Option<&'a [L; BLOCK]> {
                match self { $(KeyCodec::$name(codec) => codec.stored_block(block)),* }
            }

            #[inline]
            pub(crate) fn get<L: Lane>(&self, row: usize) -> L {
                match self { $(KeyCodec::$name(codec) => codec.get(row)),* }
            }

            pub(crate) fn packed_rows(&self) -> Option<&bit_packed::BitPackedCodec<'a>> {
                match self { $(KeyCodec::$name(codec) => codec.packed_rows()),* }
            }

            pub(crate) fn translate(&self, width: usize, predicate: ChunkPredicate) -> ChunkPredicate {
                with_lane!(width, L => match self {
                    $(KeyCodec::$name(codec) => codec.translate::<L>(predicate)),*
                })
            }

            pub(crate) fn evaluate(
                &self,
                width: usize,
                block: usize,
                predicate: &ChunkPredicate,
                scratch: &mut [u64],
            ) -> BlockMask {
                match self {
                    $(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.evaluate::<L>(block, predicate, scratch)
                    })),*
                }
            }

            pub(crate) fn prepare<C: Code>(&self, width: usize, map: &mut CodeMap<C>) {
                with_lane!(width, L => match self {
                    $(KeyCodec::$name(codec) => codec.prepare::<L, C>(map)),*
                });
            }

            #[inline]
            pub(crate) fn read_codes<C: Code>(
                &self,
                width: usize,
                block: usize,
                map: &CodeMap<C>,
                scratch: &mut [u64],
                codes: &mut [C; BLOCK],
            ) {
                match self {
                    $(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.read_codes::<L, C>(block, map, scratch, codes)
                    })),*
                }
            }

            pub(crate) fn read_rows<C: Code>(
                &self,
                chunk: &KeyChunk<'_>,
                blocks: (usize, usize),
                rows: &[u16],
                map: &CodeMap<C>,
                codes: &mut [C],
            ) -> bool {
                match self {
                    $(KeyCodec::$name(codec) => with_lane!(chunk.width(), L => {
                        codec.read_rows::<L, C>(chunk, blocks, rows, map, codes)
                    })),*
                }
            }

            pub(crate) fn read_block_rows<C: Code>(
                &self,
                width: usize,
                block: usize,
                rows: &[u16],
                map: &CodeMap<C>,
                codes: &mut [C],
            ) -> bool {
                match self {
                    $(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.read_block_rows::<L, C>(block, rows, map, codes)
                    })),*
                }
            }

            pub(crate) fn translate_slots(&self, map: &CodeMap<u32>, slots: &Bitset) -> Option<Bitset> {
                match self { $(KeyCodec::$name(codec) => codec.translate_slots(map, slots)),* }
            }

            pub(crate) fn probe(
                &self,
                width: usize,
                block: usize,
                shift: u32,
                slots: &Bitset,
            ) -> Option<BlockMask> {
                match self {
                    $(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.probe::<L>(block, shift, slots)
                    })),*
                }
            }
        }
    };
}

codecs! {
    Constant(constant::ConstantCodec) if |width| width == 0,
    BitPacked(bit_packed::BitPackedCodec<'a>) if |_| true,
    Plain(plain::PlainCodec<'a>) if |_| true,
    Dictionary(dictionary::DictionaryCodec<'a>) if |_| true,
    Delta(delta::DeltaCodec<'a>) if |_| true,
    RunLengths(run_length::RunLengthCodec<'a, run_length::Lengths<'a>>) if |_| true,
    RunStarts(run_length::RunLengthCodec<'a, run_length::Starts<'a>>) if |_| true,
}
