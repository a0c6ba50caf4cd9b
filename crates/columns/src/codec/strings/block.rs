//! The strings of a block: [`BlockStrings`].

use super::{Defect, StringsDecoder, StringsRoom};
use crate::format::BLOCK;
use std::ops::Range;

/// Strings that are decoded together: few enough to stay in the cache until they are used.
pub(crate) const PART_ROWS: usize = 256;

/// The stored strings of a block, one after the other.
#[derive(Debug)]
pub(crate) struct BlockStrings<'a> {
    bytes: &'a [u8],
    /// The start of each in `bytes`, and of the one after the last. Those after are unspecified.
    starts: [u32; BLOCK + 1],
    rows: usize,
}

/// Decoded strings, one after the other.
#[derive(Debug)]
pub(crate) struct DecodedStrings<'a> {
    pub(crate) bytes: &'a [u8],
    /// The start of each in `bytes`, and of the one after the last.
    starts: [u32; PART_ROWS + 1],
    pub(crate) rows: usize,
}

impl<'a> BlockStrings<'a> {
    /// Creates the strings of a block of `rows` rows from their `bytes` and the start of each string.
    ///
    /// # Errors
    /// If the starts descend or lie outside of the bytes.
    pub(crate) fn new(bytes: &'a [u8], mut starts: [u32; BLOCK + 1], rows: usize) -> Result<Self, Defect> {
        let end = u32::try_from(bytes.len()).map_err(|_| "the strings of a block are too long")?;
        starts[rows] = end;
        // In one go: no branch for each string.
        let pairs = starts[..rows].iter().zip(&starts[1..=rows]);
        if !pairs.fold(true, |ascends, (start, end)| ascends & (start <= end)) {
            return Err("a string lies outside of its block");
        }
        Ok(Self { bytes, starts, rows })
    }

    /// Returns the number of strings.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the stored bytes of a row; those of NULL are empty.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        assert!(row < self.rows, "there is no row {row}");
        &self.bytes[self.starts[row] as usize..self.starts[row + 1] as usize]
    }

    /// Returns the stored bytes of the rows from one on.
    #[inline]
    pub(crate) fn rows_from(&self, row: usize) -> impl Iterator<Item = &'a [u8]> + '_ {
        let starts = &self.starts[row.min(self.rows)..=self.rows];
        starts
            .windows(2)
            .map(|ends| &self.bytes[ends[0] as usize..ends[1] as usize])
    }

    /// Decodes strings part by part, and calls `each` with the first row and the strings of every part.
    ///
    /// # Errors
    /// They cannot be decoded.
    ///
    /// # Panics
    /// If there are no such rows.
    pub(crate) fn for_each_part(
        &self,
        rows: Range<usize>,
        decoder: &StringsDecoder<'_>,
        room: &mut StringsRoom,
        mut each: impl FnMut(usize, DecodedStrings<'_>),
    ) -> Result<(), Defect> {
        for first in rows.clone().step_by(PART_ROWS) {
            let part = first..rows.end.min(first + PART_ROWS);
            each(first, self.decode(part, decoder, room)?);
        }
        Ok(())
    }

    /// Decodes the strings of up to [`PART_ROWS`] rows together.
    ///
    /// # Errors
    /// They cannot be decoded.
    ///
    /// # Panics
    /// If there are no such rows, or too many.
    pub(crate) fn decode<'b>(
        &self,
        rows: Range<usize>,
        decoder: &StringsDecoder<'_>,
        room: &'b mut StringsRoom,
    ) -> Result<DecodedStrings<'b>, Defect>
    where
        'a: 'b,
    {
        let starts = &self.starts[rows.start..=rows.end];
        let (first, last) = (starts[0], starts[rows.len()]);
        let mut places = [0; PART_ROWS + 1];
        places
            .iter_mut()
            .zip(starts)
            .for_each(|(place, start)| *place = start - first);
        let stored = &self.bytes[first as usize..last as usize];
        let bytes = decoder.decode_all(stored, &mut places[..=rows.len()], room)?;
        Ok(DecodedStrings {
            bytes,
            starts: places,
            rows: rows.len(),
        })
    }
}

impl<'a> DecodedStrings<'a> {
    /// Returns a string; that of NULL is empty.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        &self.bytes[self.starts[row] as usize..self.end(row)]
    }

    /// Returns the end of a string in the bytes.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub(crate) fn end(&self, row: usize) -> usize {
        self.starts[row + 1] as usize
    }

    /// Returns the ends of all strings in the bytes.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.starts[1..=self.rows]
    }
}
