//! Strings compressed by FSST (Boncz, Neumann and Leis, PVLDB 13(11), 2020) with a table of symbols of their
//! chunk.

use super::constant::Constant;
use super::{Defect, Head, StoredStrings, StringCodec, StringList, StringsRoom};
use crate::format::{CODEC_FSST, FORMAT_PACKED};
use crate::kernel::{FSST_INSIDE, SafeDecompressor, fsst_decode, fsst_decode_all};
use crate::read::bytes_array::BytesBuilder;
use fsst::{Compressor, Symbol};
use std::cmp::Ordering;

/// Chunks with fewer bytes than this are not compressed: the symbol table would outweigh what it saves.
const WORTH_COMPRESSING: usize = 4096;
/// Bytes of a symbol and its length in the table: all symbols come first, then all lengths.
const SYMBOL_BYTES: usize = 9;

const DANGLING: Defect = "a compressed string ends within an escape";

/// The symbol table of a chunk.
#[derive(Debug)]
pub(crate) struct Fsst(Box<SymbolTable>);

#[derive(Debug)]
struct SymbolTable {
    symbols: [Symbol; 255],
    lengths: [u8; 255],
}

impl StringCodec for Fsst {
    const ID: u8 = CODEC_FSST;
    const FORMAT: u32 = FORMAT_PACKED;

    type Decoder<'a> = SafeDecompressor<'a>;

    fn encode<'a>(list: &StringList<'a>) -> Option<StoredStrings<'a>> {
        if list.bytes.len() < WORTH_COMPRESSING {
            return None;
        }
        let strings = list.strings();
        let compressor = Compressor::train(&strings);
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(&strings, &mut bytes, &mut ends);
        let symbols = compressor.symbol_table();
        let symbol_bytes = symbols.iter().flat_map(|symbol| symbol.to_u64().to_le_bytes());
        let table: Vec<u8> = symbol_bytes
            .chain(compressor.symbol_lengths().iter().copied())
            .collect();
        (bytes.len() + table.len() < list.bytes.len()).then(|| StoredStrings {
            symbols: symbols.len(),
            table,
            bytes: bytes.into(),
            ends: ends.into(),
        })
    }

    fn open(count: usize, bytes: &[u8]) -> Option<Self> {
        let (symbols, lengths) = bytes.get(..count.checked_mul(SYMBOL_BYTES)?)?.split_at(count * 8);
        let mut table = Box::new(SymbolTable {
            symbols: [Symbol::ZERO; 255],
            lengths: [1; 255],
        });
        table.lengths.get_mut(..count)?.copy_from_slice(lengths);
        for (symbol, bytes) in table.symbols.iter_mut().zip(symbols.chunks_exact(8)) {
            *symbol = Symbol::from_slice(bytes.try_into().ok()?);
        }
        Some(Self(table))
    }

    fn decoder(&self) -> Result<SafeDecompressor<'_>, Defect> {
        SafeDecompressor::new(&self.0.symbols, &self.0.lengths).ok_or("a symbol is longer than 8 bytes")
    }

    fn decode(decoder: &SafeDecompressor<'_>, codes: &[u8], out: &mut BytesBuilder) -> Result<(), Defect> {
        if out.push_with(|bytes| fsst_decode(decoder, codes, bytes)) {
            Ok(())
        } else {
            Err(DANGLING)
        }
    }

    fn head(decoder: &SafeDecompressor<'_>, first: u8) -> Option<Head> {
        let (symbol, len) = decoder.symbol(first)?;
        let bytes = symbol.to_le_bytes();
        Some(Head { bytes, len })
    }

    fn compare(
        decoder: &SafeDecompressor<'_>,
        stored: &[u8],
        constant: &Constant,
    ) -> Result<Ordering, Defect> {
        let (mut at, mut codes) = (0, stored.iter());
        while let Some(&code) = codes.next() {
            let (symbol, len) = match decoder.symbol(code) {
                Some(symbol) => symbol,
                None => (u64::from(*codes.next().ok_or(DANGLING)?), 1),
            };
            let (word, left) = (constant.word(at), constant.len() - at);
            let differing = symbol ^ word;
            // Bytes past the symbol, or past the constant, are not compared.
            let first = differing.trailing_zeros() as usize / 8;
            if first < len.min(left) {
                let byte = |word: u64| word.to_le_bytes()[first];
                return Ok(byte(symbol).cmp(&byte(word)));
            }
            if len > left {
                return Ok(Ordering::Greater);
            }
            at += len;
        }
        Ok(at.cmp(&constant.len()))
    }

    fn decode_all<'b>(
        decoder: &SafeDecompressor<'_>,
        stored: &'b [u8],
        starts: &mut [u32],
        room: &'b mut StringsRoom,
    ) -> Result<&'b [u8], Defect> {
        let StringsRoom {
            bytes,
            places,
            single,
        } = room;
        if starts.is_empty() {
            single.clear();
            return if fsst_decode(decoder, stored, single) {
                Ok(single.as_slice())
            } else {
                Err(DANGLING)
            };
        }
        let decoded = fsst_decode_all(decoder, stored, bytes, places).ok_or(DANGLING)?;
        for start in starts {
            *start = places[*start as usize];
            if *start == FSST_INSIDE {
                return Err(DANGLING);
            }
        }
        Ok(&bytes[..decoded])
    }
}
