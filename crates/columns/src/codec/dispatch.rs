//! The list of codecs, and the dispatch to them: [`KeyCodec`] is an opened codec of any kind.
//!
//! The list is at the end of this file, by the names under which statistics report codecs.

use super::{CodeMap, Codec, LookupUnit, bit_packed, constant, delta, dictionary, plain, run_length};
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::codec::reads::ChunkReads;
use crate::codec::stats::ChunkStats;
use crate::format::BLOCK;
use crate::kernel::{BlockMask, Code, Lane, with_lane};
use crate::read::bitset::Bitset;
use std::ops::Range;

/// How the codes of a chunk are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// All rows have the same code, which takes no bytes.
    Constant,
    /// Bit-packed distances from the chunk's smallest code.
    BitPacked,
    /// The same distances in whole bytes.
    Plain,
    /// Bit-packed positions in a sorted dictionary of the chunk's codes.
    Dictionary,
    /// Bit-packed differences between ascending codes.
    Delta,
    /// Runs of equal codes.
    RunLength,
}

/// Estimates and encodes by one codec.
#[derive(Debug)]
pub(crate) struct Encoder {
    pub(crate) id: u8,
    /// Returns true if the codec stores offsets of this width.
    pub(crate) accepts: fn(usize) -> bool,
    pub(crate) estimate: fn(&ChunkStats<'_>) -> Option<usize>,
    pub(crate) encode: fn(&ChunkStats<'_>, usize) -> Option<Vec<u64>>,
}

/// Generates [`KeyCodec`] and the lists of encoders and encodings from the list of codecs. Two codecs may
/// share a number if their widths differ.
macro_rules! codecs {
    ($($encoding:ident { $($name:ident($codec:ty) if $accepts:expr),+ $(,)? })*) => {
        /// An opened codec.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum KeyCodec<'a> {
            $($($name($codec)),+),*
        }

        /// Returns the encoders of all codecs.
        #[allow(clippy::extra_unused_lifetimes, reason = "the types of the list name it")]
        pub(crate) fn encoders<'a>() -> [Encoder; [$($(stringify!($name)),+),*].len()] {
            [$($(Encoder {
                id: <$codec as Codec<'a>>::ID,
                accepts: $accepts,
                estimate: <$codec as Codec<'a>>::estimate,
                encode: <$codec as Codec<'a>>::encode,
            }),+),*]
        }

        impl Encoding {
            /// All encodings.
            pub const ALL: [Self; [$(stringify!($encoding)),*].len()] = [$(Self::$encoding),*];

            /// Returns the unit in which rows of such a chunk are looked up by their codes.
            pub fn lookup_unit(self) -> LookupUnit {
                KeyCodec::lookup_unit_of(self)
            }
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
                $($(
                    let accepts: fn(usize) -> bool = $accepts;
                    if id == <$codec as Codec<'a>>::ID && accepts(width) {
                        let codec = <$codec as Codec<'a>>::open(width, rows, bytes);
                        return codec.map(KeyCodec::$name).ok_or("chunk has the wrong length");
                    }
                )+)*
                Err("unknown encoding of keys")
            }

            /// Returns the public name of the codec with that number, for a chunk of that width.
            pub(crate) fn encoding_of(id: u8, width: usize) -> Option<Encoding> {
                $($(
                    let accepts: fn(usize) -> bool = $accepts;
                    if id == <$codec as Codec<'a>>::ID && accepts(width) {
                        return Some(Encoding::$encoding);
                    }
                )+)*
                None
            }

            /// Returns the first format of segments that has the codec with that number; `None` if there is
            /// no such codec of keys.
            pub(crate) fn format_of(id: u8) -> Option<u32> {
                $($(
                    if id == <$codec as Codec<'a>>::ID {
                        return Some(<$codec as Codec<'a>>::FORMAT);
                    }
                )+)*
                None
            }

            /// Returns the unit of lookups in chunks with an encoding, whose codecs all have the same.
            fn lookup_unit_of(encoding: Encoding) -> LookupUnit {
                match encoding { $(Encoding::$encoding => [$(<$codec as Codec<'a>>::LOOKUP_UNIT),+][0]),* }
            }

            pub(crate) fn lookup_unit(&self) -> LookupUnit {
                match self { $($(KeyCodec::$name(_) => <$codec as Codec<'a>>::LOOKUP_UNIT),+),* }
            }

            pub(crate) fn whole_block_rows(&self) -> usize {
                match self { $($(KeyCodec::$name(_) => <$codec as Codec<'a>>::WHOLE_BLOCK_ROWS),+),* }
            }

            pub(crate) fn shared_bytes(&self) -> &'a [u8] {
                match self { $($(KeyCodec::$name(codec) => codec.shared_bytes()),+),* }
            }

            pub(crate) fn blocks_bytes(&self, width: usize, blocks: Range<usize>) -> [&'a [u8]; 2] {
                with_lane!(width, L => match self {
                    $($(KeyCodec::$name(codec) => codec.blocks_bytes::<L>(blocks)),+),*
                })
            }

            pub(crate) fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
                match self { $($(KeyCodec::$name(codec) => codec.unpack(block, out)),+),* }
            }

            #[inline]
            pub(crate) fn stored_block<L: Lane>(&self, block: usize) -> Option<&'a [L; BLOCK]> {
                match self { $($(KeyCodec::$name(codec) => codec.stored_block(block)),+),* }
            }

            #[inline]
            pub(crate) fn get<L: Lane>(&self, row: usize) -> L {
                match self { $($(KeyCodec::$name(codec) => codec.get(row)),+),* }
            }

            pub(crate) fn packed_rows(&self) -> Option<&bit_packed::BitPackedCodec<'a>> {
                match self { $($(KeyCodec::$name(codec) => codec.packed_rows()),+),* }
            }

            pub(crate) fn translate(&self, width: usize, predicate: ChunkPredicate) -> ChunkPredicate {
                with_lane!(width, L => match self {
                    $($(KeyCodec::$name(codec) => codec.translate::<L>(predicate)),+),*
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
                    $($(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.evaluate::<L>(block, predicate, scratch)
                    })),+),*
                }
            }

            pub(crate) fn prepare<C: Code>(&self, width: usize, map: &mut CodeMap<C>) {
                with_lane!(width, L => match self {
                    $($(KeyCodec::$name(codec) => codec.prepare::<L, C>(map)),+),*
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
                    $($(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.read_codes::<L, C>(block, map, scratch, codes)
                    })),+),*
                }
            }

            pub(crate) fn read_rows<C: Code>(
                &self,
                width: usize,
                reads: ChunkReads<'_>,
                blocks: (usize, usize),
                rows: &[u16],
                map: &CodeMap<C>,
                codes: &mut [C],
            ) -> bool {
                match self {
                    $($(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.read_rows::<L, C>(reads, blocks, rows, map, codes)
                    })),+),*
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
                    $($(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.read_block_rows::<L, C>(block, rows, map, codes)
                    })),+),*
                }
            }

            pub(crate) fn translate_slots(&self, map: &CodeMap<u32>, slots: &Bitset) -> Option<Bitset> {
                match self { $($(KeyCodec::$name(codec) => codec.translate_slots(map, slots)),+),* }
            }

            pub(crate) fn probe(
                &self,
                width: usize,
                block: usize,
                shift: u32,
                slots: &Bitset,
            ) -> Option<BlockMask> {
                match self {
                    $($(KeyCodec::$name(codec) => with_lane!(width, L => {
                        codec.probe::<L>(block, shift, slots)
                    })),+),*
                }
            }
        }
    };
}

codecs! {
    Constant { Constant(constant::ConstantCodec) if |width| width == 0 }
    BitPacked { BitPacked(bit_packed::BitPackedCodec<'a>) if |_| true }
    Plain { Plain(plain::PlainCodec<'a>) if |_| true }
    Dictionary { Dictionary(dictionary::DictionaryCodec<'a>) if |_| true }
    Delta { Delta(delta::DeltaCodec<'a>) if |_| true }
    RunLength {
        RunLengths(run_length::RunLengthCodec<'a, run_length::Lengths<'a>>) if |_| true,
        RunStarts(run_length::RunLengthCodec<'a, run_length::Starts<'a>>) if |_| true,
    }
}
