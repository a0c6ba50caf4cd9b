//! Chunks of strings: bit-packed starts, so that any string is found without decoding another, and the bytes
//! that a [codec](super) makes of the strings.
//!
//! Sections of a chunk, each at a multiple of 64: header, the codec's table, block bases, packed starts (each
//! counted from the base of its block), validity bitmap, bytes. A NULL takes no bytes. Damaged sections give
//! errors or wrong strings, never a read outside of the chunk.

use super::block::{BlockStrings, DecodedStrings};
use super::{Defect, StringsCodec, StringsDecoder, StringsRoom};
use crate::format::{ALIGN, BLOCK, BLOCK_BYTES_PER_BIT, ChunkEntry, StringsHeader};
use crate::kernel::{self, BlockMask, Lane, unpack, unpack_one, with_lane};
use crate::read::bytes_array::BytesBuilder;
use crate::read::row_selection::{SelectedBlock, SelectedBlocks};
use std::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

const HEADER: usize = size_of::<StringsHeader>();
/// Selected rows of a block from which the starts of all of its strings are unpacked.
const WHOLE_BLOCK_ROWS: usize = 24;
/// Selected rows of a block from which all of its strings are decoded.
const DECODED_BLOCK_ROWS: usize = BLOCK * 3 / 8;
/// Stored bytes of a block up to which its strings are looked at together.
const WHOLE_BLOCK_BYTES: usize = 1 << 20;
pub(super) const LENGTH: Defect = "a section of the chunk lies outside of it";

/// A chunk of strings, checked and ready to be read.
#[derive(Debug)]
pub(crate) struct StringsChunk<'a> {
    entry: &'a ChunkEntry,
    bases: &'a [u64],
    offsets: &'a [u8],
    width: usize,
    validity: Option<&'a [u8]>,
    bytes: &'a [u8],
    /// `None` if all rows are NULL.
    codec: Option<StringsCodec>,
}

impl<'a> StringsChunk<'a> {
    /// Checks the header and the sections' places. O(1), and O(symbols) to load the symbol table.
    ///
    /// # Errors
    /// A text that says what is wrong with the chunk.
    pub(crate) fn new(entry: &'a ChunkEntry, chunk: &'a [u8]) -> Result<Self, Defect> {
        let rows = entry.rows as usize;
        let mut this = Self {
            entry,
            bases: &[],
            offsets: &[],
            width: 0,
            validity: None,
            bytes: &[],
            codec: None,
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
        let codec = StringsCodec::open(entry.encoding, header.symbols as usize, &chunk[HEADER..]);
        this.codec = Some(codec?);
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

    /// Returns the rows of a block that are not NULL. Bits after the last row are unspecified.
    pub(crate) fn validity_of(&self, block: usize) -> BlockMask {
        let Some(validity) = self.validity else {
            return [if self.entry.nulls > 0 { 0 } else { u64::MAX }; BLOCK / 64];
        };
        let mut mask = BlockMask::default();
        let bytes = &validity[block * BLOCK / 8..];
        let bytes = &bytes[..bytes.len().min(BLOCK / 8)];
        mask.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        mask
    }

    /// Returns the stored strings of a block; `None` if they are so long that they are better looked at one
    /// by one, or all rows of the chunk are NULL.
    ///
    /// # Errors
    /// A text that says what is wrong with the chunk.
    pub(crate) fn strings_of(&self, block: usize) -> Result<Option<BlockStrings<'a>>, Defect> {
        let Some(&[base, end]) = self.bases.get(block..block + 2) else {
            return Ok(None);
        };
        let bytes = self.stored(base, end)?;
        if bytes.len() > WHOLE_BLOCK_BYTES {
            return Ok(None);
        }
        let mut starts = [0; BLOCK + 1];
        with_lane!(self.width, L => {
            let mut lanes = [L::default(); BLOCK];
            unpack(self.width, self.lanes::<L>(block), &mut lanes);
            starts.iter_mut().zip(lanes).for_each(|(start, lane)| *start = lane.widen() as u32);
        });
        let rows = (self.entry.rows as usize - block * BLOCK).min(BLOCK);
        BlockStrings::new(bytes, starts, rows).map(Some)
    }

    /// Calls `each` with the stored bytes of some rows of a block, `None` for NULL. All starts of the block
    /// are unpacked.
    fn for_each_of_block(
        &self,
        block: usize,
        mut rows: impl Iterator<Item = usize>,
        each: &mut impl FnMut(Option<&'a [u8]>) -> Result<(), Defect>,
    ) -> Result<(), Defect> {
        if self.bases.is_empty() {
            return rows.try_for_each(|_| each(None));
        }
        let mut starts = [0u64; BLOCK + 1];
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
        for row in rows {
            let stored = if self.is_null(block * BLOCK + row) {
                None
            } else {
                let (start, end) = (base.wrapping_add(starts[row]), base.wrapping_add(starts[row + 1]));
                Some(self.stored(start, end)?)
            };
            each(stored)?;
        }
        Ok(())
    }

    /// Returns the stored bytes of one row; `None` if it is NULL. O(1).
    pub(crate) fn stored_one(&self, row: usize) -> Result<Option<&'a [u8]>, Defect> {
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
    /// A text that says what is wrong with the chunk.
    pub(crate) fn read(&self, rows: Range<usize>, out: &mut BytesBuilder) -> Result<(), Defect> {
        let (decoder, mut room) = (self.decoder()?, StringsRoom::default());
        let mut row = rows.start;
        while row < rows.end {
            let (block, first) = (row / BLOCK, row % BLOCK);
            let last = (rows.end - block * BLOCK).min(BLOCK);
            match decoder.as_ref().zip(self.strings_of(block)?) {
                Some((decoder, strings)) => {
                    let valid = self.validity_of(block);
                    strings.for_each_part(first..last, decoder, &mut room, |first, part| {
                        out.push_all(part.bytes, part.ends(), &valid, first);
                    })?;
                }
                None => {
                    let mut each = |stored: Option<&'a [u8]>| push(decoder.as_ref(), stored, out);
                    self.for_each_of_block(block, first..last, &mut each)?;
                }
            }
            row = block * BLOCK + last;
        }
        Ok(())
    }

    /// Appends the strings of selected rows to `out`.
    ///
    /// # Errors
    /// A text that says what is wrong with the chunk.
    pub(crate) fn read_selected(
        &self,
        selected: SelectedBlocks<'_>,
        out: &mut BytesBuilder,
    ) -> Result<(), Defect> {
        let (decoder, mut room) = (self.decoder()?, StringsRoom::default());
        for SelectedBlock { number, mask, rows } in selected.iter() {
            if rows >= DECODED_BLOCK_ROWS
                && let Some((decoder, strings)) = decoder.as_ref().zip(self.strings_of(number)?)
            {
                let (valid, is_whole) = (self.validity_of(number), rows == strings.rows());
                strings.for_each_part(0..strings.rows(), decoder, &mut room, |first, part| {
                    if is_whole {
                        out.push_all(part.bytes, part.ends(), &valid, first)
                    } else {
                        push_selected(&part, first, mask, &valid, out)
                    }
                })?;
                continue;
            }
            let mut each = |stored: Option<&'a [u8]>| push(decoder.as_ref(), stored, out);
            let mut of_block = kernel::set_bits(mask);
            if rows < WHOLE_BLOCK_ROWS {
                of_block.try_for_each(|row| each(self.stored_one(number * BLOCK + row)?))?;
            } else {
                self.for_each_of_block(number, of_block, &mut each)?;
            }
        }
        Ok(())
    }

    /// Appends the strings of single rows to `out`; `rows` are offset by `first`.
    ///
    /// # Errors
    /// A text that says what is wrong with the chunk.
    pub(crate) fn gather(&self, rows: &[u32], first: usize, out: &mut BytesBuilder) -> Result<(), Defect> {
        let decoder = self.decoder()?;
        rows.iter()
            .try_for_each(|&row| push(decoder.as_ref(), self.stored_one(row as usize - first)?, out))
    }

    pub(crate) fn decoder(&self) -> Result<Option<StringsDecoder<'_>>, Defect> {
        self.codec.as_ref().map(StringsCodec::decoder).transpose()
    }
}

/// Pushes the selected ones of some decoded strings, the first of which is row `first` of the block.
fn push_selected(
    strings: &DecodedStrings<'_>,
    first: usize,
    selected: &BlockMask,
    valid: &BlockMask,
    out: &mut BytesBuilder,
) {
    let is_set = |mask: &BlockMask, row: usize| mask[row / 64] >> (row % 64) & 1 == 1;
    for row in (first..first + strings.rows).filter(|row| is_set(selected, *row)) {
        if is_set(valid, row) {
            out.push(strings.get(row - first))
        } else {
            out.push_null()
        }
    }
}

fn push(
    decoder: Option<&StringsDecoder<'_>>,
    stored: Option<&[u8]>,
    out: &mut BytesBuilder,
) -> Result<(), Defect> {
    match (decoder, stored) {
        (Some(decoder), Some(stored)) => decoder.decode(stored, out),
        _ => {
            out.push_null();
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::encode::Encoded;
    use crate::codec::strings::pending::PendingStrings;
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
        #![proptest_config(ProptestConfig::with_cases(30))]

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
