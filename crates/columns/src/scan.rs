//! Reading the values of a column as Arrow arrays: ranges of rows, and single rows.

use crate::bytes_array::BytesBuilder;
use crate::chunk::PackedChunk;
use crate::column::Column;
use crate::dictionary::Dictionary;
use crate::error::damaged;
use crate::kernel::{Lane, with_lane};
use crate::physical::{Native, Physical, boolean_array, primitive_array, with_native};
use crate::table::check_rows;
use crate::{Result, RowId};
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder};
use std::ops::Range;

/// Which rows of a chunk are wanted.
enum Wanted<'a> {
    Range(Range<usize>),
    /// Single rows, counted from the given first row of the chunk.
    Rows(&'a [RowId], usize),
}

impl Wanted<'_> {
    /// Calls `each` with the packed value of every wanted row, in order.
    #[inline(always)]
    fn for_each(&self, chunk: &PackedChunk<'_>, mut each: impl FnMut(u64)) {
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
        check_rows(&rows, self.rows())?;
        let wanted = self
            .chunk_ranges(rows.clone())
            .map(|(chunk, within)| (chunk, Wanted::Range(within)));
        self.read(rows.len(), wanted)
    }

    /// The values of single rows, in the order given; they may repeat. Quickest when sorted: a block with many of
    /// them is unpacked once.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn gather(&self, rows: &[RowId]) -> Result<ArrayRef> {
        let end = rows.iter().max().map_or(0, |&row| row as usize + 1);
        check_rows(&(0..end), self.rows())?;
        let size = self.chunk_rows();
        let runs = rows.chunk_by(move |a, b| *a as usize / size == *b as usize / size);
        let wanted = runs.map(|run| {
            let chunk = run[0] as usize / size;
            (chunk, Wanted::Rows(run, chunk * size))
        });
        self.read(rows.len(), wanted)
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

    fn read_dictionary<'a>(
        &self,
        dictionary: &Dictionary,
        len: usize,
        wanted: impl Iterator<Item = (usize, Wanted<'a>)>,
    ) -> Result<ArrayRef> {
        let mut builder = BytesBuilder::new(self.data_type(), len);
        // With many rows to read, look up each string once.
        let strings: Vec<Option<&[u8]>> = if dictionary.len() <= len {
            dictionary.iter().collect()
        } else {
            Vec::new()
        };
        for (number, wanted) in wanted {
            let chunk = self.packed(number)?;
            let (base, null) = (chunk.key_base(), chunk.null());
            let mut missing = false;
            wanted.for_each(&chunk, |value| {
                if Some(value) == null {
                    return builder.push_null();
                }
                let rank = base.wrapping_add(value);
                let string = if strings.is_empty() {
                    dictionary.get(rank)
                } else {
                    strings.get(rank as usize).copied().flatten()
                };
                match string {
                    Some(string) => builder.push(string),
                    None => missing = true,
                }
            });
            if missing {
                return Err(damaged(
                    self.place(number),
                    "refers to a string that its dictionary lacks",
                ));
            }
        }
        builder.finish()
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
        builder.finish()
    }
}
