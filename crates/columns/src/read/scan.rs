//! Reading the values of a column as Arrow arrays: ranges of rows, selected rows of blocks, and single rows.
//!
//! All of them come as slices of offsets of up to a block, in the lanes of their chunk.
//! One loop for each type makes values of them.

use crate::codec::chunk::KeyChunk;
use crate::error::damaged;
use crate::format::BLOCK;
use crate::kernel::{self, Lane, Values, rows_in, with_lane};
use crate::read::bytes_array::BytesBuilder;
use crate::read::column::Column;
use crate::read::dictionary::Dictionary;
use crate::read::row_selection::{RowSelection, SelectedBlocks};
use crate::read::segment::check_rows;
use crate::read::space::CodeSpace;
use crate::read::validity::{ValidityBuilder, append_words};
use crate::write::physical::{Native, Physical, boolean_array, primitive_array, with_native};
use crate::{ColumnsError, Result, RowId};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_select::take::take;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The wanted rows of a chunk.
enum Wanted<'a> {
    Range(Range<usize>),
    Selected(SelectedBlocks<'a>),
    /// Single rows, counted from the given first row of the chunk.
    Rows(&'a [RowId], usize),
}

impl Wanted<'_> {
    /// Calls `each` with the offsets of the wanted rows, in order, up to a block at a time.
    #[inline]
    fn for_each<L: Lane>(&self, chunk: &KeyChunk<'_>, each: impl FnMut(&[L])) {
        match self {
            Self::Range(rows) => chunk.for_each_block(rows.clone(), each),
            Self::Selected(blocks) => chunk.for_each_selected(*blocks, each),
            Self::Rows(rows, first) => chunk.for_each_row(rows, *first, each),
        }
    }
}

impl Column {
    /// Returns the values of `rows`, an array of the column's type.
    ///
    /// # Errors
    /// [`ColumnsError::RowsOutOfRange`](crate::ColumnsError::RowsOutOfRange),
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged),
    /// [`ColumnsError::TooLarge`](crate::ColumnsError::TooLarge) for more than 2 GiB of strings in one array.
    pub fn scan(&self, rows: Range<usize>) -> Result<ArrayRef> {
        check_rows(&rows, self.rows())?;
        let len = rows.len();
        let wanted = self.chunk_ranges(rows);
        self.read(len, wanted.map(|(chunk, within)| (chunk, Wanted::Range(within))))
    }

    /// Returns the values of the selected rows, in order. Each block is decoded once, or if few of its rows
    /// are selected, each of them.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn decode(&self, selection: &RowSelection) -> Result<ArrayRef> {
        check_rows(&(0..selection.end()), self.rows())?;
        if selection.len() * BLOCK <= self.rows() {
            let rows: Vec<RowId> = selection.rows().collect();
            self.read_many_rows_ahead(&rows);
        }
        let wanted = selection.chunks(self.chunk_rows() / BLOCK);
        self.read(
            selection.len(),
            wanted.map(|(chunk, blocks)| (chunk, Wanted::Selected(blocks))),
        )
    }

    /// Returns the values of single rows, in the order given; they may repeat. Fastest when sorted: a block
    /// with many of them is unpacked once.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn gather(&self, rows: &[RowId]) -> Result<ArrayRef> {
        let end = rows.iter().max().map_or(0, |&row| row as usize + 1);
        check_rows(&(0..end), self.rows())?;
        self.read_many_rows_ahead(rows);
        self.read(rows.len(), self.wanted_rows(rows))
    }

    fn read<'a>(&self, len: usize, wanted: impl Iterator<Item = (usize, Wanted<'a>)>) -> Result<ArrayRef> {
        match (
            self.physical(),
            self.code_space().and_then(|space| space.dictionary()),
        ) {
            (Physical::Bytes, Some(dictionary)) => self.read_dictionary(dictionary, len, wanted),
            (Physical::Bytes, None) => self.read_strings(len, wanted),
            (Physical::Bool, _) => self.read_booleans(len, wanted),
            (physical, _) => with_native!(
                physical,
                N => self.read_native::<N>(len, wanted),
                unreachable!("booleans and strings are handled above")
            ),
        }
    }

    fn read_native<'a, N: Native>(
        &self,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<ArrayRef> {
        let mut values: Vec<N> = Vec::with_capacity(len);
        let mut validity = ValidityBuilder::new(len);
        for (number, wanted) in wanted {
            let chunk = self.packed(number)?;
            let (base, null) = (chunk.key_base(), chunk.null());
            with_lane!(chunk.width(), L => wanted.for_each::<L>(&chunk, |offsets| {
                let start = values.len();
                N::append(offsets, base, &mut values);
                if let Some(nulls) = validity.append(offsets, null) {
                    kernel::set_bits(&nulls).for_each(|row| values[start + row] = N::default());
                }
            }));
        }
        primitive_array(self.data_type(), values, validity.finish())
    }

    fn read_booleans<'a>(
        &self,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<ArrayRef> {
        let mut values = BooleanBufferBuilder::new(len);
        let mut validity = ValidityBuilder::new(len);
        for (number, wanted) in wanted {
            let chunk = self.packed(number)?;
            // The keys are 0 and 1.
            let (is_true, null) = (1_u64.wrapping_sub(chunk.key_base()), chunk.null());
            with_lane!(chunk.width(), L => wanted.for_each::<L>(&chunk, |offsets| {
                let lanes = Values::Lanes(offsets);
                let mut bits = kernel::within(lanes, L::truncate(is_true), L::default());
                if let Some(nulls) = validity.append(offsets, null) {
                    bits.iter_mut().zip(nulls).for_each(|(bits, nulls)| *bits &= !nulls);
                }
                append_words(&mut values, bits, offsets.len());
            }));
        }
        Ok(boolean_array(values.finish(), validity.finish()))
    }

    /// Returns the rank of the string of each of `rows` in the sorted [dictionary](CodeSpace::dictionary) of
    /// the column.
    ///
    /// # Errors
    /// As [`scan`](Self::scan); [`ColumnsError::NoCodes`] if there is no dictionary.
    pub fn scan_ranks(&self, rows: Range<usize>) -> Result<UInt32Array> {
        check_rows(&rows, self.rows())?;
        let len = rows.len();
        let wanted = self.chunk_ranges(rows);
        let wanted = wanted.map(|(chunk, within)| (chunk, Wanted::Range(within)));
        let (ranks, nulls) = self.read_ranks(self.own_dictionary()?, len, wanted)?;
        Ok(UInt32Array::new(ranks.into(), nulls))
    }

    /// Returns the ranks of the strings of single rows, as [`gather`](Self::gather) returns the strings.
    ///
    /// # Errors
    /// As [`scan_ranks`](Self::scan_ranks).
    pub fn gather_ranks(&self, rows: &[RowId]) -> Result<UInt32Array> {
        let end = rows.iter().max().map_or(0, |&row| row as usize + 1);
        check_rows(&(0..end), self.rows())?;
        let (ranks, nulls) = self.read_ranks(self.own_dictionary()?, rows.len(), self.wanted_rows(rows))?;
        Ok(UInt32Array::new(ranks.into(), nulls))
    }

    /// Returns the ranks of the strings of selected rows, as [`decode`](Self::decode) returns the strings.
    ///
    /// # Errors
    /// As [`scan_ranks`](Self::scan_ranks).
    pub fn decode_ranks(&self, selection: &RowSelection) -> Result<UInt32Array> {
        check_rows(&(0..selection.end()), self.rows())?;
        let wanted = selection.chunks(self.chunk_rows() / BLOCK);
        let wanted = wanted.map(|(chunk, blocks)| (chunk, Wanted::Selected(blocks)));
        let (ranks, nulls) = self.read_ranks(self.own_dictionary()?, selection.len(), wanted)?;
        Ok(UInt32Array::new(ranks.into(), nulls))
    }

    fn own_dictionary(&self) -> Result<&Dictionary> {
        let dictionary = self.code_space().and_then(CodeSpace::dictionary);
        dictionary.ok_or_else(|| ColumnsError::NoCodes {
            column: self.name().into(),
        })
    }

    /// Returns single rows by runs of the same chunk.
    fn wanted_rows<'a>(&self, rows: &'a [RowId]) -> impl Iterator<Item = (usize, Wanted<'a>)> + use<'a> {
        let size = self.chunk_rows();
        let runs = rows.chunk_by(move |a, b| *a as usize / size == *b as usize / size);
        runs.map(move |run| {
            let chunk = run[0] as usize / size;
            (chunk, Wanted::Rows(run, chunk * size))
        })
    }

    fn read_dictionary<'a>(
        &self,
        dictionary: &Dictionary,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<ArrayRef> {
        let (ranks, nulls) = self.read_ranks(dictionary, len, wanted)?;
        let Some(strings) = self.dictionary_values(dictionary, len)? else {
            let mut builder = BytesBuilder::new(self.data_type(), len);
            for (row, &rank) in ranks.iter().enumerate() {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    builder.push_null();
                } else {
                    builder.push(dictionary.string(rank.into())?);
                }
            }
            return builder.finish_stored(self.column_place());
        };
        Ok(take(&strings, &UInt32Array::new(ranks.into(), nulls), None)?)
    }

    /// Reads ranks in the dictionary; that of NULL is 0.
    fn read_ranks<'a>(
        &self,
        dictionary: &Dictionary,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<(Vec<u32>, Option<NullBuffer>)> {
        let mut ranks: Vec<u32> = Vec::with_capacity(len);
        let mut validity = ValidityBuilder::new(len);
        // Ranks are below the dictionary's length, which fits 32 bits; larger ones are damage.
        let largest = (dictionary.len() as u64).clamp(1, u32::MAX.into()) as u32 - 1;
        for (number, wanted) in wanted {
            let chunk = self.packed(number)?;
            let (base, null) = (chunk.key_base(), chunk.null());
            let rank = |offset: u64| base.wrapping_add(offset).min(u32::MAX.into()) as u32;
            let mut all_there = true;
            with_lane!(chunk.width(), L => wanted.for_each::<L>(&chunk, |offsets| {
                let start = ranks.len();
                kernel::append(offsets, &mut ranks, rank);
                if let Some(nulls) = validity.append(offsets, null) {
                    kernel::set_bits(&nulls).for_each(|row| ranks[start + row] = 0);
                }
                let there = kernel::within(Values::Lanes(&ranks[start..]), 0, largest);
                all_there &= rows_in(&there) == offsets.len();
            }));
            if !all_there {
                return Err(damaged(
                    self.place(number),
                    "refers to a string that its dictionary lacks",
                ));
            }
        }
        Ok((ranks, validity.finish()))
    }

    /// Returns the strings of the dictionary as an array, which is cached if the dictionary is small. `None`
    /// if decoding a larger one does not pay, as it has more strings than there are `rows` to read, or if it
    /// is empty.
    fn dictionary_values(&self, dictionary: &Dictionary, rows: usize) -> Result<Option<ArrayRef>> {
        let kept = self.kept_strings();
        if let Some(strings) = kept.and_then(OnceLock::get) {
            return Ok(Some(Arc::clone(strings)));
        }
        let small = dictionary.stored_bytes() <= MAX_CACHED_DICTIONARY_BYTES;
        if dictionary.is_empty() || !small && dictionary.len() > rows {
            return Ok(None);
        }
        let kept = kept.filter(|_| small);
        if kept.is_some() {
            // Even if verification is off: they may be kept until it is on again.
            dictionary.verify_again()?;
        }
        let mut builder = BytesBuilder::new(self.data_type(), dictionary.len());
        for rank in 0..dictionary.len() as u32 {
            builder.push(dictionary.string(rank.into())?);
        }
        let strings = builder.finish_stored(self.column_place())?;
        Ok(Some(match kept {
            Some(kept) => Arc::clone(kept.get_or_init(|| strings)),
            None => strings,
        }))
    }

    fn read_strings<'a>(
        &self,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<ArrayRef> {
        let mut builder = BytesBuilder::new(self.data_type(), len);
        for (number, wanted) in wanted {
            let chunk = self.strings(number)?;
            let read = match wanted {
                Wanted::Range(rows) => chunk.read(rows, &mut builder),
                Wanted::Selected(blocks) => chunk.read_selected(blocks, &mut builder),
                Wanted::Rows(rows, first) => chunk.gather(rows, first, &mut builder),
            };
            read.map_err(|what| damaged(self.place(number), what))?;
        }
        builder.finish_stored(self.column_place())
    }
}

/// Dictionaries up to this size are kept as arrays in DRAM once they were read.
const MAX_CACHED_DICTIONARY_BYTES: usize = 64 << 10;
