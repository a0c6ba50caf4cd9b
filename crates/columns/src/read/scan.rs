//! Reading the values of a column as Arrow arrays: ranges of rows, and single rows.

use crate::codec::chunk::KeyChunk;
use crate::error::damaged;
use crate::format::BLOCK;
use crate::kernel::{Lane, with_lane};
use crate::read::bytes_array::BytesBuilder;
use crate::read::column::Column;
use crate::read::dictionary::Dictionary;
use crate::read::segment::check_rows;
use crate::write::physical::{Native, Physical, boolean_array, primitive_array, with_native};
use crate::{ColumnsError, Result, RowId};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder};
use arrow_select::take::take;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Which rows of a chunk are wanted.
enum Wanted<'a> {
    Range(Range<usize>),
    /// Single rows, counted from the given first row of the chunk.
    Rows(&'a [RowId], usize),
}

impl Wanted<'_> {
    /// Calls `each` with the packed value of every wanted row, in order.
    #[inline(always)]
    fn for_each(&self, chunk: &KeyChunk<'_>, mut each: impl FnMut(u64)) {
        with_lane!(chunk.width(), L => match self {
            Self::Range(rows) => chunk.for_each_block::<L>(rows.clone(), |values| {
                values.iter().for_each(|&value| each(value.widen()));
            }),
            Self::Rows(rows, first) => chunk.for_each_row::<L>(rows, *first, |value| each(value.widen())),
        });
    }

    fn len(&self) -> usize {
        match self {
            Self::Range(rows) => rows.len(),
            Self::Rows(rows, _) => rows.len(),
        }
    }
}

impl Column {
    /// The values of `rows`, an array of the column's type. Decodes about one value per nanosecond.
    ///
    /// # Errors
    /// [`ColumnsError::RowsOutOfRange`](crate::ColumnsError::RowsOutOfRange),
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged),
    /// [`ColumnsError::TooLarge`](crate::ColumnsError::TooLarge) for more than 2 GiB of strings in one array.
    pub fn scan(&self, rows: Range<usize>) -> Result<ArrayRef> {
        self.scan_ranges(&[rows])
    }

    /// The values of several ranges of rows, in the order given. Each is decoded from front to back, so that
    /// long ones cost as much as a [`scan`](Self::scan); for many short ones [`gather`](Self::gather) is
    /// quicker.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn scan_ranges(&self, ranges: &[Range<usize>]) -> Result<ArrayRef> {
        ranges.iter().try_for_each(|rows| check_rows(rows, self.rows()))?;
        let wanted = ranges.iter().flat_map(|rows| self.chunk_ranges(rows.clone()));
        let wanted = wanted.map(|(chunk, within)| (chunk, Wanted::Range(within)));
        self.read(ranges.iter().map(Range::len).sum(), wanted)
    }

    /// The values of single rows, in the order given; they may repeat. Quickest when sorted: a block with
    /// many of them is unpacked once.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn gather(&self, rows: &[RowId]) -> Result<ArrayRef> {
        let end = rows.iter().max().map_or(0, |&row| row as usize + 1);
        check_rows(&(0..end), self.rows())?;
        self.read_ahead(rows);
        let size = self.chunk_rows();
        let runs = rows.chunk_by(move |a, b| *a as usize / size == *b as usize / size);
        let wanted = runs.map(|run| {
            let chunk = run[0] as usize / size;
            (chunk, Wanted::Rows(run, chunk * size))
        });
        self.read(rows.len(), wanted)
    }

    /// Lets the pages of far apart rows be read side by side if they are not in memory.
    fn read_ahead(&self, rows: &[RowId]) {
        let plain_strings = matches!(self.physical(), Physical::Bytes) && self.code_space().is_none();
        if plain_strings || rows.len() * BLOCK > self.rows() {
            return;
        }
        halocline_media::read_ahead(rows.len(), |i| {
            let row = rows[i] as usize;
            // What is damaged is told when it is read.
            let chunk = self.packed_ahead(row / self.chunk_rows()).ok();
            chunk.map_or(&[], |chunk| {
                let block = row % self.chunk_rows() / BLOCK;
                let [places, values] = chunk.blocks_bytes(block..block + 1);
                if values.is_empty() { places } else { values }
            })
        });
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
        let mut nulls = NullBufferBuilder::new(len);
        for (number, wanted) in wanted {
            let chunk = self.packed(number)?;
            let base = chunk.key_base();
            let Some(null) = chunk.null() else {
                nulls.append_n_non_nulls(wanted.len());
                with_lane!(chunk.width(), L => match &wanted {
                    Wanted::Range(rows) => chunk.for_each_block::<L>(rows.clone(), |block| {
                        values.extend(block.iter().map(|&value| N::value(base.wrapping_add(value.widen()))));
                    }),
                    Wanted::Rows(rows, first) => chunk.for_each_row::<L>(rows, *first, |value| {
                        values.push(N::value(base.wrapping_add(value.widen())));
                    }),
                });
                continue;
            };
            wanted.for_each(&chunk, |value| {
                nulls.append(value != null);
                values.push(if value == null {
                    N::default()
                } else {
                    N::value(base.wrapping_add(value))
                });
            });
        }
        primitive_array(self.data_type(), values, nulls.finish())
    }

    fn read_booleans<'a>(
        &self,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<ArrayRef> {
        let mut values = BooleanBufferBuilder::new(len);
        let mut nulls = NullBufferBuilder::new(len);
        for (number, wanted) in wanted {
            let chunk = self.packed(number)?;
            let (base, null) = (chunk.key_base(), chunk.null());
            wanted.for_each(&chunk, |value| {
                let is_null = Some(value) == null;
                nulls.append(!is_null);
                values.append(!is_null && base.wrapping_add(value) != 0);
            });
        }
        Ok(boolean_array(values.finish(), nulls.finish()))
    }

    /// The array of strings that were read of this column.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`] if they are not UTF-8, [`ColumnsError::TooLarge`].
    fn strings_of(&self, builder: BytesBuilder) -> Result<ArrayRef> {
        builder.finish().map_err(|error| match error {
            ColumnsError::Arrow(error) => damaged(self.column_place(), error.to_string()),
            other => other,
        })
    }

    fn read_dictionary<'a>(
        &self,
        dictionary: &Dictionary,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<ArrayRef> {
        let mut ranks: Vec<u32> = Vec::with_capacity(len);
        let mut nulls = NullBufferBuilder::new(len);
        for (number, wanted) in wanted {
            let chunk = self.packed(number)?;
            // Ranks are below the dictionary's length, which fits 32 bits; larger ones are damage.
            let (base, start) = (chunk.key_base(), ranks.len());
            let rank = |value: u64| u32::try_from(base.wrapping_add(value)).unwrap_or(u32::MAX);
            match chunk.null() {
                None => {
                    nulls.append_n_non_nulls(wanted.len());
                    wanted.for_each(&chunk, |value| ranks.push(rank(value)));
                }
                Some(null) => wanted.for_each(&chunk, |value| {
                    nulls.append(value != null);
                    ranks.push(if value == null { 0 } else { rank(value) });
                }),
            }
            let largest = ranks[start..].iter().fold(0, |largest, &rank| largest.max(rank));
            if largest as usize >= dictionary.len().max(1) {
                return Err(damaged(
                    self.place(number),
                    "refers to a string that its dictionary lacks",
                ));
            }
        }
        let nulls = nulls.finish();
        let Some(strings) = self.dictionary_values(dictionary, len)? else {
            let mut builder = BytesBuilder::new(self.data_type(), len);
            for (row, &rank) in ranks.iter().enumerate() {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    builder.push_null();
                } else {
                    builder.push(dictionary.string(rank.into())?);
                }
            }
            return self.strings_of(builder);
        };
        Ok(take(&strings, &UInt32Array::new(ranks.into(), nulls), None)?)
    }

    /// The strings of the dictionary as an array: kept, if it is small; made for `rows` to be read, if they
    /// are many.
    fn dictionary_values(&self, dictionary: &Dictionary, rows: usize) -> Result<Option<ArrayRef>> {
        let kept = self.kept_strings();
        if let Some(strings) = kept.and_then(OnceLock::get) {
            return Ok(Some(Arc::clone(strings)));
        }
        let small = dictionary.stored_bytes() <= KEPT_BYTES;
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
        let strings = self.strings_of(builder)?;
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
                Wanted::Rows(rows, first) => chunk.gather(rows, first, &mut builder),
            };
            read.map_err(|what| damaged(self.place(number), what))?;
        }
        self.strings_of(builder)
    }
}

/// Dictionaries up to this size are kept as arrays in DRAM once they were read.
const KEPT_BYTES: usize = 64 << 10;
