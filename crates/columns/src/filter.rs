//! Rows of a block by what their codes are found to be in a set of places: the probe of a join on packed codes.
//!
//! Packed codes are looked up as they are unpacked, runs once each, and codes of a chunk with a dictionary by
//! their position there.

use crate::chunk::Body;
use crate::codes::CodeReader;
use crate::column::Column;
use crate::kernel::{self, Values, with_lane};
use crate::places::PlaceBits;
use crate::select::BlockMask;
use crate::{BLOCK_ROWS, Result};
use std::ops::Range;

/// Keeps rows whose code, and a number added to it, is the place of a bit; for one thread. NULL has none. Codes are looked up as they
/// are unpacked, those of a run once, and those of a chunk with a list of its codes by their position there.
#[derive(Debug)]
pub struct CodeFilter<'a> {
    column: &'a Column,
    bits: &'a PlaceBits,
    /// Reads places.
    reader: CodeReader<'a, u32>,
    /// Of a chunk with a list, by its number: which of its codes are kept, by position.
    listed: Option<(usize, PlaceBits)>,
    places: Box<[u32; BLOCK_ROWS]>,
}

impl Column {
    /// A filter of its rows by the places `code + add`, where the sum wraps at 32 bits.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes).
    ///
    /// # Panics
    /// If codes need more than 32 bits.
    pub fn filter<'a>(&'a self, add: u64, bits: &'a PlaceBits) -> Result<CodeFilter<'a>> {
        Ok(CodeFilter {
            column: self,
            bits,
            reader: self.place_reader(add, bits.places())?,
            listed: None,
            places: Box::new([0; BLOCK_ROWS]),
        })
    }
}

impl<'a> CodeFilter<'a> {
    /// Whether the codes of a chunk are looked up fewer times than it has rows, by far.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn by_runs(&mut self, chunk: usize) -> Result<bool> {
        let (chunk, ..) = self.reader.chunk(chunk)?;
        Ok(matches!(chunk.body(), Body::Runs(_)))
    }

    /// Whether every row of a chunk is looked up by its own code.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn by_rows(&mut self, chunk: usize) -> Result<bool> {
        let (chunk, ..) = self.reader.chunk(chunk)?;
        Ok(matches!(
            chunk.body(),
            Body::Packed(_) | Body::Plain(_) | Body::Steps(_)
        ))
    }

    /// Says which blocks of a chunk [`keep`](Self::keep) is about to be asked for, some of them at least.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block.
    pub fn reads(&mut self, chunk: usize, blocks: Range<usize>) -> Result<()> {
        let (chunk, ..) = self.reader.chunk(chunk)?;
        chunk.reads(blocks);
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
        let (chunk, add, list) = self.reader.chunk(number)?;
        chunk.rows_of(block);
        let bits = self.bits;
        let kept = match chunk.body() {
            _ if chunk.null().is_some() => None,
            Body::Packed(packed) => with_lane!(chunk.width(), L => {
                Some(kernel::lookup::<L>(packed.values(block), add, bits))
            }),
            Body::Plain(plain) => with_lane!(chunk.width(), L => {
                Some(kernel::lookup::<L>(Values::Lanes(plain.block(block)), add, bits))
            }),
            Body::List(list_body) => {
                let listed = self.listed.take().filter(|(of, _)| *of == number);
                let (_, listed) = self.listed.insert(listed.unwrap_or_else(|| {
                    let mut listed = PlaceBits::new(list.len() as u32);
                    let kept = (0..).zip(list).filter(|(_, place)| bits.has(**place) == 1);
                    kept.for_each(|(position, _)| {
                        listed.set(position);
                    });
                    (number, listed)
                }));
                with_lane!(list_body.positions().width(), P => {
                    Some(kernel::lookup::<P>(list_body.positions().values(block), 0, listed))
                })
            }
            Body::Runs(runs) => with_lane!(chunk.width(), L => {
                let (marks, values) = runs.of_block::<L>(block);
                Some(kernel::spread_bits(&marks, &kernel::lookup(Values::Lanes(values), add, bits)))
            }),
            Body::Steps(_) => None,
        };
        let kept = match kept {
            Some(kept) => kept,
            None => {
                self.reader.read(number, block, &mut self.places)?;
                kernel::lookup(Values::Lanes(&self.places[..]), 0, bits)
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

    /// The column.
    pub fn column(&self) -> &'a Column {
        self.column
    }
}
