//! Chunks of strings as they are: each string compressed by itself (FSST) with the symbol table of its chunk, or raw
//! where that is smaller; bit-packed starts, so that any string is found without decoding another.
//!
//! Sections of a chunk, each at a multiple of 64: header, symbols and their lengths, block bases, packed starts (each
//! counted from the base of its block), validity bitmap, bytes. A NULL takes no bytes. Damaged sections give errors
//! or wrong strings, never a read outside of the chunk.

use crate::bytes_array::BytesBuilder;
use crate::chunk::{Encoded, pack_block, width_of};
use crate::format::{
    ALIGN, BLOCK, BLOCK_BYTES_PER_BIT, ChunkEntry, ENCODING_FSST, ENCODING_RAW, StringsHeader, align_up,
    checksum,
};
use crate::kernel::{Lane, SafeDecompressor, fsst_decode, unpack, unpack_one, with_lane};
use fsst::{Compressor, Symbol};
use std::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

const HEADER: usize = size_of::<StringsHeader>();

/// Chunks with fewer bytes than this are stored raw: the symbol table would outweigh what it saves.
const WORTH_COMPRESSING: usize = 4096;

/// The first eight bytes as a big-endian number: sorts like the strings as far as it goes.
pub(crate) fn prefix_key(string: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = string.len().min(8);
    bytes[..len].copy_from_slice(&string[..len]);
    u64::from_be_bytes(bytes)
}

/// Strings on their way into a chunk.
#[derive(Debug, Default)]
pub(crate) struct PendingStrings {
    bytes: Vec<u8>,
    /// End of each string in `bytes`.
    ends: Vec<u64>,
    /// Rows that are NULL, sorted.
    nulls: Vec<u32>,
}

impl PendingStrings {
    pub(crate) fn rows(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u64);
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.ends.len() as u32);
        self.ends.push(self.bytes.len() as u64);
    }

    fn strings(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(&start, &end)| &self.bytes[start as usize..end as usize])
            .collect()
    }

    /// Encodes the strings as one chunk and empties this.
    ///
    /// # Panics
    /// If there is no string.
    pub(crate) fn encode(&mut self) -> Encoded {
        let rows = self.rows();
        let mut entry = ChunkEntry {
            rows: rows as u32,
            nulls: self.nulls.len() as u32,
            encoding: ENCODING_RAW,
            ..Default::default()
        };
        if self.nulls.len() == rows {
            self.clear();
            return Encoded {
                entry,
                words: Vec::new(),
            };
        }
        let strings = self.strings();
        (entry.min, entry.max) = prefix_bounds(&strings, &self.nulls);
        let compressed = if self.bytes.len() >= WORTH_COMPRESSING {
            compress(&strings)
        } else {
            None
        };
        let words = match &compressed {
            Some((compressor, bytes, ends)) => {
                entry.encoding = ENCODING_FSST;
                self.lay_out(
                    compressor.symbol_table(),
                    compressor.symbol_lengths(),
                    bytes,
                    ends,
                )
            }
            None => self.lay_out(&[], &[], &self.bytes, &self.ends),
        };
        entry.len = (words.len() * 8) as u64;
        entry.checksum = checksum(words.as_bytes());
        self.clear();
        Encoded { entry, words }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.nulls.clear();
    }

    fn lay_out(&self, symbols: &[Symbol], lengths: &[u8], bytes: &[u8], ends: &[u64]) -> Vec<u64> {
        let rows = ends.len();
        let blocks = rows.div_ceil(BLOCK);
        let start = |row: usize| if row == 0 { 0 } else { ends[row - 1] };
        let bases: Vec<u64> = (0..blocks)
            .map(|block| start(block * BLOCK))
            .chain([bytes.len() as u64])
            .collect();
        let longest = bases.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        let width = width_of(longest);

        let bases_at = HEADER + align_up(symbols.len() * 9);
        let offsets_at = bases_at + align_up(bases.len() * 8);
        let validity_at = offsets_at + align_up(blocks * width * BLOCK_BYTES_PER_BIT);
        let has_nulls = !self.nulls.is_empty();
        let bytes_at = validity_at + if has_nulls { align_up(rows.div_ceil(8)) } else { 0 };
        let header = StringsHeader {
            symbols: symbols.len() as u32,
            offset_width: width as u32,
            bases_at: bases_at as u64,
            offsets_at: offsets_at as u64,
            validity_at: if has_nulls { validity_at as u64 } else { 0 },
            bytes_at: bytes_at as u64,
            bytes_len: bytes.len() as u64,
            reserved: [0; 2],
        };

        let mut words = vec![0u64; offsets_at / 8];
        let out = words.as_mut_bytes();
        out[..HEADER].copy_from_slice(header.as_bytes());
        for (symbol, at) in symbols.iter().zip((HEADER..).step_by(8)) {
            out[at..at + 8].copy_from_slice(&symbol.to_u64().to_le_bytes());
        }
        out[HEADER + symbols.len() * 8..][..lengths.len()].copy_from_slice(lengths);
        out[bases_at..][..bases.len() * 8].copy_from_slice(bases.as_bytes());
        let mut starts = [0; BLOCK];
        for (block, base) in bases[..blocks].iter().enumerate() {
            let rows = block * BLOCK..((block + 1) * BLOCK).min(rows);
            starts
                .iter_mut()
                .zip(rows.clone())
                .for_each(|(out, row)| *out = start(row) - base);
            pack_block(width, &starts[..rows.len()], &mut words);
        }
        words.resize((bytes_at + bytes.len()).div_ceil(8), 0);
        let out = words.as_mut_bytes();
        if has_nulls {
            let validity = &mut out[validity_at..][..rows.div_ceil(8)];
            validity.fill(0xFF);
            self.nulls
                .iter()
                .for_each(|&row| validity[row as usize / 8] &= !(1 << (row % 8)));
        }
        out[bytes_at..][..bytes.len()].copy_from_slice(bytes);
        words
    }
}

fn prefix_bounds(strings: &[&[u8]], nulls: &[u32]) -> (u64, u64) {
    let mut nulls = nulls.iter().peekable();
    let (mut min, mut max) = (u64::MAX, 0);
    for (row, string) in (0u32..).zip(strings) {
        if nulls.next_if_eq(&&row).is_none() {
            let key = prefix_key(string);
            (min, max) = (min.min(key), max.max(key));
        }
    }
    (min, max)
}

/// The strings compressed one by one and the end of each, if that saves anything.
fn compress(strings: &Vec<&[u8]>) -> Option<(Compressor, Vec<u8>, Vec<u64>)> {
    let compressor = Compressor::train(strings);
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(strings, &mut bytes, &mut ends);
    let raw: usize = strings.iter().map(|string| string.len()).sum();
    (bytes.len() + compressor.n_symbols() * 9 < raw).then_some((compressor, bytes, ends))
}

/// What decompresses the strings of one chunk.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    symbols: [Symbol; 255],
    lengths: [u8; 255],
}

/// A chunk of strings, checked and ready to be read.
#[derive(Debug)]
pub(crate) struct StringsChunk<'a> {
    entry: &'a ChunkEntry,
    bases: &'a [u64],
    offsets: &'a [u8],
    width: usize,
    validity: Option<&'a [u8]>,
    bytes: &'a [u8],
    table: Option<Box<SymbolTable>>,
}

/// Why a chunk cannot be read.
type Defect = &'static str;

impl<'a> StringsChunk<'a> {
    /// Checks the header and the sections' places. O(1), and O(symbols) to load the symbol table.
    ///
    /// # Errors
    /// What is wrong with the chunk.
    pub(crate) fn new(entry: &'a ChunkEntry, chunk: &'a [u8]) -> Result<Self, Defect> {
        const LENGTH: Defect = "a section of the chunk lies outside of it";
        let rows = entry.rows as usize;
        let mut this = Self {
            entry,
            bases: &[],
            offsets: &[],
            width: 0,
            validity: None,
            bytes: &[],
            table: None,
        };
        if entry.nulls >= entry.rows {
            return Ok(this);
        }
        let (header, _) =
            StringsHeader::ref_from_prefix(chunk).map_err(|_| "chunk is shorter than its header")?;
        let section = |at: u64, len: usize| {
            let at = usize::try_from(at).ok().filter(|at| at % ALIGN == 0)?;
            chunk.get(at..at.checked_add(len)?)
        };
        let blocks = rows.div_ceil(BLOCK);
        this.width = header.offset_width as usize;
        if this.width > 64 {
            return Err("string offsets are wider than 64 bits");
        }
        let bases = section(header.bases_at, (blocks + 1) * 8).ok_or(LENGTH)?;
        this.bases = <[u64]>::ref_from_bytes(bases).map_err(|_| "chunk is not aligned")?;
        this.offsets = section(header.offsets_at, blocks * this.width * BLOCK_BYTES_PER_BIT).ok_or(LENGTH)?;
        let bytes_len = usize::try_from(header.bytes_len).map_err(|_| LENGTH)?;
        this.bytes = section(header.bytes_at, bytes_len).ok_or(LENGTH)?;
        if entry.nulls > 0 {
            this.validity = Some(section(header.validity_at, rows.div_ceil(8)).ok_or(LENGTH)?);
        }
        if entry.encoding == ENCODING_FSST {
            this.table = Some(load_symbols(header.symbols as usize, &chunk[HEADER..]).ok_or(LENGTH)?);
        } else if entry.encoding != ENCODING_RAW {
            return Err("unknown encoding of strings");
        }
        Ok(this)
    }

    fn is_null(&self, row: usize) -> bool {
        match self.validity {
            Some(validity) => validity[row / 8] >> (row % 8) & 1 == 0,
            None => self.entry.nulls > 0,
        }
    }

    fn stored(&self, start: u64, end: u64) -> Result<&'a [u8], Defect> {
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        range
            .and_then(|(start, end)| self.bytes.get(start..end))
            .ok_or("a string lies outside of its chunk")
    }

    fn lanes<L: Lane>(&self, block: usize) -> &'a [L] {
        let len = self.width * BLOCK_BYTES_PER_BIT;
        <[L]>::ref_from_bytes(&self.offsets[block * len..(block + 1) * len]).expect("sections are aligned")
    }

    /// Calls `each` with the stored bytes of every one of `rows`, `None` for NULL.
    fn for_each_stored(
        &self,
        rows: Range<usize>,
        mut each: impl FnMut(Option<&'a [u8]>) -> Result<(), Defect>,
    ) -> Result<(), Defect> {
        if self.bases.is_empty() {
            return rows.into_iter().try_for_each(|_| each(None));
        }
        let mut starts = [0u64; BLOCK + 1];
        let mut row = rows.start;
        while row < rows.end {
            let (block, first) = (row / BLOCK, row % BLOCK);
            let last = (rows.end - block * BLOCK).min(BLOCK);
            with_lane!(self.width, L => {
                let mut lanes = [L::default(); BLOCK];
                unpack(self.width, self.lanes::<L>(block), &mut lanes);
                starts.iter_mut().zip(lanes).for_each(|(start, lane)| *start = lane.widen());
            });
            let (base, in_block) = (
                self.bases[block],
                (self.entry.rows as usize - block * BLOCK).min(BLOCK),
            );
            starts[in_block] = self.bases[block + 1].wrapping_sub(base);
            for i in first..last {
                if self.is_null(block * BLOCK + i) {
                    each(None)?;
                } else {
                    each(Some(self.stored(
                        base.wrapping_add(starts[i]),
                        base.wrapping_add(starts[i + 1]),
                    )?))?;
                }
            }
            row = block * BLOCK + last;
        }
        Ok(())
    }

    /// The stored bytes of one row. O(1).
    fn stored_one(&self, row: usize) -> Result<Option<&'a [u8]>, Defect> {
        if self.bases.is_empty() || self.is_null(row) {
            return Ok(None);
        }
        let (block, i) = (row / BLOCK, row % BLOCK);
        let base = self.bases[block];
        let start = |i: usize| -> u64 {
            with_lane!(self.width, L => unpack_one(self.width, self.lanes::<L>(block), i).widen())
        };
        let end = if i + 1 < BLOCK && row + 1 < self.entry.rows as usize {
            base.wrapping_add(start(i + 1))
        } else {
            self.bases[block + 1]
        };
        self.stored(base.wrapping_add(start(i)), end).map(Some)
    }

    /// Appends the strings of `rows` to `out`.
    ///
    /// # Errors
    /// What is wrong with the chunk.
    pub(crate) fn read(&self, rows: Range<usize>, out: &mut BytesBuilder) -> Result<(), Defect> {
        let decoder = self.decoder()?;
        self.for_each_stored(rows, |stored| push(&decoder, stored, out))
    }

    /// Appends the strings of single rows to `out`; `rows` are offset by `first`.
    ///
    /// # Errors
    /// What is wrong with the chunk.
    pub(crate) fn gather(&self, rows: &[u32], first: usize, out: &mut BytesBuilder) -> Result<(), Defect> {
        let decoder = self.decoder()?;
        rows.iter()
            .try_for_each(|&row| push(&decoder, self.stored_one(row as usize - first)?, out))
    }

    fn decoder(&self) -> Result<Option<SafeDecompressor<'_>>, Defect> {
        match &self.table {
            None => Ok(None),
            Some(table) => SafeDecompressor::new(&table.symbols, &table.lengths)
                .map(Some)
                .ok_or("a symbol is longer than 8 bytes"),
        }
    }
}

fn push(
    decoder: &Option<SafeDecompressor<'_>>,
    stored: Option<&[u8]>,
    out: &mut BytesBuilder,
) -> Result<(), Defect> {
    match (stored, decoder) {
        (None, _) => out.push_null(),
        (Some(bytes), None) => out.push(bytes),
        (Some(codes), Some(decoder)) => {
            if !out.push_with(|bytes| fsst_decode(decoder, codes, bytes)) {
                return Err("a compressed string ends within an escape");
            }
        }
    }
    Ok(())
}

fn load_symbols(count: usize, bytes: &[u8]) -> Option<Box<SymbolTable>> {
    let symbols = bytes.get(..count.checked_mul(8)?)?;
    let lengths = bytes.get(count * 8..count * 9)?;
    let mut table = Box::new(SymbolTable {
        symbols: [Symbol::ZERO; 255],
        lengths: [1; 255],
    });
    if count > table.symbols.len() {
        return None;
    }
    for (symbol, bytes) in table.symbols.iter_mut().zip(symbols.chunks_exact(8)) {
        *symbol = Symbol::from_slice(bytes.try_into().ok()?);
    }
    table.lengths[..count].copy_from_slice(lengths);
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_schema::DataType;
    use proptest::prelude::*;

    fn encode(strings: &[Option<Vec<u8>>]) -> Encoded {
        let mut pending = PendingStrings::default();
        strings.iter().for_each(|string| match string {
            Some(string) => pending.push(string),
            None => pending.push_null(),
        });
        pending.encode()
    }

    fn check(strings: &[Option<Vec<u8>>], rows: Range<usize>) {
        let encoded = encode(strings);
        let chunk = StringsChunk::new(&encoded.entry, encoded.bytes()).expect("valid");
        let mut scanned = BytesBuilder::new(&DataType::Binary, rows.len());
        chunk.read(rows.clone(), &mut scanned).expect("readable");
        let mut gathered = BytesBuilder::new(&DataType::BinaryView, rows.len());
        let single: Vec<u32> = rows.clone().map(|row| row as u32 + 5).collect();
        chunk.gather(&single, 5, &mut gathered).expect("readable");
        let (scanned, gathered) = (
            scanned.finish().expect("bytes"),
            gathered.finish().expect("bytes"),
        );
        for (i, expected) in strings[rows].iter().enumerate() {
            let scanned = scanned.is_valid(i).then(|| scanned.as_binary::<i32>().value(i));
            let gathered = gathered.is_valid(i).then(|| gathered.as_binary_view().value(i));
            assert_eq!(scanned, expected.as_deref());
            assert_eq!(gathered, expected.as_deref());
        }
    }

    fn words(seed: &[Option<u16>]) -> Vec<Option<Vec<u8>>> {
        const WORDS: [&str; 6] = ["", "furiously ", "pending \u{e9}", "deposits", "\u{1F980}", "a"];
        let string = |n: u16| {
            (0..n % 5)
                .map(|i| WORDS[usize::from(n / (i + 1)) % 6])
                .collect::<String>()
        };
        seed.iter().map(|n| n.map(|n| string(n).into_bytes())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn strings_come_back(
            seed in proptest::collection::vec(proptest::option::weighted(0.9, any::<u16>()), 1..2500),
            from in 0usize..2500,
            len in 0usize..2500,
        ) {
            let strings = words(&seed);
            let from = from.min(strings.len());
            let to = (from + len).min(strings.len());
            check(&strings, from..to);
        }

        #[test]
        fn binary_comes_back(strings in proptest::collection::vec(
            proptest::option::weighted(0.8, proptest::collection::vec(any::<u8>(), 0..40)), 1..400)) {
            check(&strings, 0..strings.len());
        }

        #[test]
        fn damaged_chunks_never_panic(
            at in any::<proptest::sample::Index>(), byte in any::<u8>(), rows in 1100usize..1500, null in any::<bool>(),
        ) {
            let seed: Vec<Option<u16>> =
                (0..rows).map(|i| (!null || i % 7 != 0).then_some((i * 31) as u16)).collect();
            let mut encoded = encode(&words(&seed));
            let at = at.index(encoded.words.len() * 8);
            encoded.words.as_mut_bytes()[at] = byte;
            if let Ok(chunk) = StringsChunk::new(&encoded.entry, encoded.words.as_bytes()) {
                let mut out = BytesBuilder::new(&DataType::Utf8, rows);
                if chunk.read(0..rows, &mut out).is_ok() {
                    let _ = out.finish();
                }
                let mut out = BytesBuilder::new(&DataType::Utf8View, rows);
                let _ = chunk.gather(&[0, 1023, 1024, rows as u32 - 1], 0, &mut out);
            }
        }
    }
}
