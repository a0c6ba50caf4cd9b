//! Rows of a block by what their codes are found to be in a set of places: the probe of a join on packed
//! codes.
//!
//! Packed codes are looked up as they are unpacked, runs once each, and codes of a chunk with a dictionary by
//! their position there.

use crate::kernel::{self, BlockMask, Values};
use crate::read::bitset::Bitset;
use crate::read::codes::CodeReader;
use crate::read::column::Column;
use crate::{BLOCK_ROWS, LookupUnit, Result};
use std::ops::Range;

/// Keeps rows whose code, and a number added to it, is the place of a bit; for one thread. NULL has none.
/// Codes are looked up as they are unpacked, those of a run once, and those of a chunk with a list of its
/// codes by their position there.
#[derive(Debug)]
pub struct CodeFilter<'a> {
    column: &'a Column,
    bits: &'a Bitset,
    /// Reads places.
    reader: CodeReader<'a, u32>,
    /// The number of a chunk, and the set translated to what its codec stores, if it needs that.
    translated: Option<(usize, Option<Bitset>)>,
    places: Box<[u32; BLOCK_ROWS]>,
}

impl Column {
    /// Creates a filter of the column's rows by the slots `code + add`, where the sum wraps at 32 bits.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes).
    ///
    /// # Panics
    /// If codes need more than 32 bits.
    pub fn filter<'a>(&'a self, add: u64, bits: &'a Bitset) -> Result<CodeFilter<'a>> {
        Ok(CodeFilter {
            column: self,
            bits,
            reader: self.place_reader(add, bits.places())?,
            translated: None,
            places: Box::new([0; BLOCK_ROWS]),
        })
    }
}

impl<'a> CodeFilter<'a> {
    /// Returns true if the codes of a chunk are looked up far fewer times than it has rows.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn by_runs(&mut self, chunk: usize) -> Result<bool> {
        let (chunk, _) = self.reader.chunk(chunk)?;
        Ok(chunk.codec.lookup_unit() == LookupUnit::Run)
    }

    /// Returns true if every row of a chunk is looked up by its own code.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn by_rows(&mut self, chunk: usize) -> Result<bool> {
        let (chunk, _) = self.reader.chunk(chunk)?;
        Ok(chunk.codec.lookup_unit() == LookupUnit::Row)
    }

    /// Says which blocks of a chunk [`keep`](Self::keep) is about to be asked for, some of them at least.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block.
    pub fn reads(&mut self, chunk: usize, blocks: Range<usize>) -> Result<()> {
        let (chunk, _) = self.reader.chunk(chunk)?;
        chunk.report(blocks);
        Ok(())
    }

    /// Clears the bits of a block's rows that are not kept. All rows are looked up, whatever bits are set.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block.
    pub fn keep(&mut self, number: usize, block: usize, mask: &mut BlockMask) -> Result<()> {
        let (chunk, map) = self.reader.chunk(number)?;
        chunk.rows_of(block);
        let kept = if map.has_null() {
            // NULL has no slot, but an offset that would map to one.
            None
        } else {
            // A chunk with a dictionary stores positions. The set is translated to them once for all of its
            // blocks.
            if self.translated.as_ref().is_none_or(|(of, _)| *of != number) {
                self.translated = Some((number, chunk.codec.translate_slots(map, self.bits)));
            }
            let translated = self.translated.as_ref().and_then(|(_, slots)| slots.as_ref());
            chunk.probe(block, map.shift(), translated.unwrap_or(self.bits))
        };
        let kept = match kept {
            Some(kept) => kept,
            None => {
                self.reader.read(number, block, &mut self.places)?;
                // NULL was read as the slot after the last one, whose bit is never set.
                kernel::lookup(Values::Lanes(&self.places[..]), 0, self.bits)
            }
        };
        mask.iter_mut().zip(kept).for_each(|(mask, kept)| *mask &= kept);
        Ok(())
    }

    /// Reads the places of rows: [`CodeReader::read_rows`].
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// As [`CodeReader::read_rows`].
    pub fn read_rows(&mut self, chunk: usize, block: usize, rows: &[u16], places: &mut [u32]) -> Result<()> {
        self.reader.read_rows(chunk, block, rows, places)
    }

    /// Returns the column.
    pub fn column(&self) -> &'a Column {
        self.column
    }
}
