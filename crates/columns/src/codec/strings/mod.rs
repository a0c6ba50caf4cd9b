//! Codecs of string chunks: how the bytes of the strings of a chunk are stored.
//!
//! All chunks of strings have the same [sections](chunk); a codec decides what is in the section of bytes,
//! and in the table that decodes them. A codec is one file that implements [`StringCodec`], and one line in
//! the list of [`string_codecs!`] below.

pub(crate) mod block;
pub(crate) mod chunk;
pub(crate) mod constant;
pub(crate) mod filter;
#[cfg(test)]
mod filter_tests;
mod fsst;
mod heads;
pub(crate) mod pending;
mod raw;

use crate::read::bytes_array::BytesBuilder;
use constant::Constant;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The reason why a chunk cannot be read.
pub(crate) type Defect = &'static str;

/// The strings of a chunk; a NULL is empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StringList<'a> {
    /// All strings, one after the other.
    pub(crate) bytes: &'a [u8],
    /// The end of each in `bytes`.
    pub(crate) ends: &'a [u64],
}

impl<'a> StringList<'a> {
    pub(crate) fn strings(&self) -> Vec<&'a [u8]> {
        let starts = std::iter::once(&0).chain(self.ends);
        let range = |(&start, &end): (&u64, &u64)| &self.bytes[start as usize..end as usize];
        starts.zip(self.ends).map(range).collect()
    }
}

/// The strings of a chunk as a codec stores them.
#[derive(Debug)]
pub(crate) struct StoredStrings<'a> {
    /// Number of symbols in the table.
    pub(crate) symbols: usize,
    /// The table that decodes the bytes.
    pub(crate) table: Vec<u8>,
    /// The stored strings, one after the other.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The end of each in `bytes`.
    pub(crate) ends: Cow<'a, [u64]>,
}

/// The bytes that strings begin with, up to eight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) bytes: [u8; 8],
    pub(crate) len: usize,
}

impl Head {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Room for decoded strings, which keeps its size from one use to the next.
#[derive(Debug, Default)]
pub(crate) struct StringsRoom {
    /// Strings that are decoded together, and the places of their codes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) places: Vec<u32>,
    /// A string that is decoded alone.
    pub(crate) single: Vec<u8>,
}

/// A way to store strings, each so that it is decoded without the others.
pub(crate) trait StringCodec: Sized {
    /// The number of the codec in [`ChunkEntry::encoding`](crate::format::ChunkEntry::encoding).
    const ID: u8;

    /// The first format of segments that has the codec: a `FORMAT_` constant.
    const FORMAT: u32;

    /// A decoder of strings, made once for many of them.
    type Decoder<'a>
    where
        Self: 'a;

    /// Encodes the strings of a chunk. `None` if another codec is better.
    fn encode<'a>(list: &StringList<'a>) -> Option<StoredStrings<'a>>;

    /// Opens a chunk whose table has this number of symbols and starts at the beginning of `table`. `None`
    /// if it does not fit.
    fn open(symbols: usize, table: &[u8]) -> Option<Self>;

    /// Returns the decoder.
    ///
    /// # Errors
    /// The table is damaged.
    fn decoder(&self) -> Result<Self::Decoder<'_>, Defect>;

    /// Appends a stored string to `out`.
    ///
    /// # Errors
    /// It cannot be decoded.
    fn decode(decoder: &Self::Decoder<'_>, stored: &[u8], out: &mut BytesBuilder) -> Result<(), Defect>;

    /// Returns the bytes that every string begins with whose stored bytes begin with `first`. `None` if that
    /// byte alone says nothing.
    fn head(decoder: &Self::Decoder<'_>, first: u8) -> Option<Head>;

    /// Compares a stored string with a constant. No more of it is decoded than decides.
    ///
    /// # Errors
    /// It cannot be decoded.
    fn compare(decoder: &Self::Decoder<'_>, stored: &[u8], constant: &Constant) -> Result<Ordering, Defect>;

    /// Decodes strings that are stored one after the other, without a loop for each of them. `starts` are
    /// their starts in `stored`, which ascend up to its length, and become their starts in the result; a
    /// single string needs none.
    ///
    /// # Errors
    /// They cannot be decoded.
    ///
    /// # Panics
    /// From 512 MiB on, unless there are no starts.
    fn decode_all<'b>(
        decoder: &Self::Decoder<'_>,
        stored: &'b [u8],
        starts: &mut [u32],
        room: &'b mut StringsRoom,
    ) -> Result<&'b [u8], Defect>;
}

/// Generates [`StringsCodec`], [`StringsDecoder`] and [`encode`] from the list of codecs, the first of which
/// that returns anything encodes a chunk.
macro_rules! string_codecs {
    ($($name:ident($codec:ty)),* $(,)?) => {
        /// An opened codec.
        #[derive(Debug)]
        pub(crate) enum StringsCodec {
            $($name($codec)),*
        }

        impl StringsCodec {
            /// Opens a chunk by the number of its codec.
            ///
            /// # Errors
            /// A text that says what does not match.
            pub(crate) fn open(id: u8, symbols: usize, table: &[u8]) -> Result<Self, Defect> {
                match id {
                    $(<$codec>::ID => <$codec>::open(symbols, table).map(Self::$name).ok_or(chunk::LENGTH),)*
                    _ => Err("unknown encoding of strings"),
                }
            }

            /// Returns the first format of segments that has the codec with that number; `None` if there is
            /// no such codec of strings.
            pub(crate) fn format_of(id: u8) -> Option<u32> {
                match id {
                    $(<$codec>::ID => Some(<$codec>::FORMAT),)*
                    _ => None,
                }
            }

            /// Returns the decoder.
            ///
            /// # Errors
            /// The table is damaged.
            pub(crate) fn decoder(&self) -> Result<StringsDecoder<'_>, Defect> {
                match self { $(Self::$name(codec) => codec.decoder().map(StringsDecoder::$name)),* }
            }
        }

        /// Encodes the strings of a chunk; returns the number of the codec, too.
        pub(crate) fn encode<'a>(list: &StringList<'a>) -> (u8, StoredStrings<'a>) {
            let encoded = None$(.or_else(|| <$codec>::encode(list).map(|stored| (<$codec>::ID, stored))))*;
            encoded.expect("the last codec encodes everything")
        }

        /// The decoder of the strings of a chunk.
        pub(crate) enum StringsDecoder<'a> {
            $($name(<$codec as StringCodec>::Decoder<'a>)),*
        }

        impl StringsDecoder<'_> {
            /// Appends a stored string to `out`.
            ///
            /// # Errors
            /// It cannot be decoded.
            pub(crate) fn decode(&self, stored: &[u8], out: &mut BytesBuilder) -> Result<(), Defect> {
                match self { $(Self::$name(decoder) => <$codec>::decode(decoder, stored, out)),* }
            }

            /// Calls [`StringCodec::head`] of the codec.
            pub(crate) fn head(&self, first: u8) -> Option<Head> {
                match self { $(Self::$name(decoder) => <$codec>::head(decoder, first)),* }
            }

            /// Calls [`StringCodec::compare`] of the codec.
            ///
            /// # Errors
            /// If the string cannot be decoded.
            #[inline]
            pub(crate) fn compare(&self, stored: &[u8], constant: &Constant) -> Result<Ordering, Defect> {
                match self { $(Self::$name(decoder) => <$codec>::compare(decoder, stored, constant)),* }
            }

            /// Calls [`StringCodec::decode_all`] of the codec.
            ///
            /// # Errors
            /// If the strings cannot be decoded.
            pub(crate) fn decode_all<'b>(
                &self,
                stored: &'b [u8],
                starts: &mut [u32],
                room: &'b mut StringsRoom,
            ) -> Result<&'b [u8], Defect> {
                match self { $(Self::$name(decoder) => <$codec>::decode_all(decoder, stored, starts, room)),* }
            }
        }
    };
}

string_codecs! {
    Fsst(fsst::Fsst),
    Raw(raw::Raw),
}
