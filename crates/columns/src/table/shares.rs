//! How a writer shares out its memory.
//!
//! Whatever is written lies, one after the other, in the batch that is being encoded, in chunks that are not
//! full yet, in full ones that wait for a part to be complete, and, if it is a string that may end up in a
//! dictionary, in an interner. Each of these has its share; what is beyond goes to the pool or takes a form
//! that needs less.
//!
//! The shares: 3/8 for chunks that are not full, 1/4 for full chunks that wait for their part, 1/16 for
//! numbers of strings, 3/16 for the strings themselves. Long rows make chunks of fewer rows. Strings that
//! exceed their share get no dictionary, the largest column first.

use crate::format::BLOCK;
use crate::format::wide::{WIDE_BYTES, may_be_wide};
use crate::read::bytes_array::for_each_bytes;
use crate::write::physical::Physical;
use arrow_array::{Array, RecordBatch};
use std::convert::Infallible;

/// Bytes of DRAM by use; about an eighth of the whole is left to the allocator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// Chunks that are not full, and what encoding them takes.
    pub(crate) pending: usize,
    /// Encoded chunks that wait for a part.
    pub(crate) part: usize,
    /// Chunks of string numbers.
    pub(crate) backlog: usize,
    /// Distinct strings, of all columns.
    pub(crate) interners: usize,
}

/// Bytes that interners and chunks that are not full may take each, however small the memory is.
const MIN_SHARE: usize = 256 << 10;

impl Shares {
    /// Divides the `memory` bytes of a writer whose parts have at most `part_limit` bytes.
    pub(crate) fn new(memory: usize, part_limit: usize) -> Self {
        Self {
            pending: (memory / 8 * 3).max(MIN_SHARE),
            part: (memory / 4).min(part_limit),
            backlog: memory / 16,
            interners: (memory / 16 * 3).max(MIN_SHARE),
        }
    }

    /// Returns the number of rows per chunk: 1024 times a power of two and at most `limit`, or `limit`. It is
    /// small enough that the chunks of all columns fit their share, if all rows are like those of `batch`.
    /// `columns` says how values are stored.
    pub(crate) fn chunk_rows(&self, limit: usize, columns: &[Physical], batch: &RecordBatch) -> usize {
        let (mut waiting, mut encoding) = (0, Vec::with_capacity(columns.len()));
        for (physical, array) in columns.iter().zip(batch.columns()) {
            let (wait, encode) = row_bytes(*physical, array);
            waiting += wait;
            encoding.push(encode);
        }
        // As many columns are encoded at once as there are threads.
        encoding.sort_unstable_by(|a, b| b.cmp(a));
        let encoding: usize = encoding.iter().take(rayon::current_num_threads()).sum();
        let fitting = self.pending / (waiting + encoding).max(1);
        let mut rows = BLOCK;
        while rows * 2 <= fitting {
            rows *= 2;
        }
        rows.min(limit)
    }
}

/// Returns the bytes that a row of a column takes before its chunk is full, and the additional bytes while it
/// is encoded.
fn row_bytes(physical: Physical, array: &dyn Array) -> (usize, usize) {
    if physical != Physical::Bytes {
        // A list of the distinct values and positions in it, and what is encoded.
        return (12, 24);
    }
    let strings = if may_be_wide(array.data_type()) {
        WIDE_BYTES
    } else {
        string_bytes(array) / array.len().max(1)
    };
    // Vectors grow by doubling; encoding compresses into one and copies into another.
    (8 + 2 * strings, 24 + 3 * strings)
}

/// Returns the total size in bytes of the strings of an array; 0 if it holds another type.
fn string_bytes(array: &dyn Array) -> usize {
    let Ok(plain) = crate::read::space::unpack_dictionary(array) else {
        return 0;
    };
    if Physical::from_data_type(plain.get().data_type()) != Some(Physical::Bytes) {
        return 0;
    }
    let mut bytes = 0;
    let never: Result<(), Infallible> = for_each_bytes(plain.get(), |value| {
        bytes += value.map_or(0, <[u8]>::len);
        Ok(())
    });
    never.unwrap_or_else(|never| match never {});
    bytes
}

/// The number of rows to read at once so that a batch takes about `bytes`, adjusted from batch to batch.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes: usize,
    most: usize,
    rows: usize,
}

/// Rows of the first batch.
const FIRST_ROWS: usize = 256;
/// Minimum number of rows that are read at once, however long they are.
const MIN_ROWS: usize = 16;

impl Pace {
    /// Creates a pace for batches of about `bytes` bytes and at most `most` rows.
    pub(crate) fn new(bytes: usize, most: usize) -> Self {
        Self {
            bytes,
            most,
            rows: FIRST_ROWS.min(most),
        }
    }

    /// Returns the number of rows for the next batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adjusts the next batch, given that one of `rows` rows took `bytes` bytes.
    pub(crate) fn took(&mut self, rows: usize, bytes: usize) {
        let fitting = self.bytes / (bytes / rows.max(1)).max(1);
        // Later rows may be longer: no leaps.
        self.rows = fitting.min(self.rows * 4).clamp(MIN_ROWS, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn long_rows_make_short_chunks() {
        let batch = |len: usize| {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
            let strings: ArrayRef = Arc::new(StringArray::from_iter_values(vec!["x".repeat(len); 100]));
            RecordBatch::try_from_iter([("n", numbers), ("s", strings)]).expect("two columns")
        };
        let columns = [Physical::I64, Physical::Bytes];
        let rows = |memory, len| Shares::new(memory, usize::MAX).chunk_rows(65_536, &columns, &batch(len));
        assert_eq!(rows(128 << 20, 20), 65_536);
        assert_eq!(rows(32 << 20, 1000), 2048);
        assert_eq!((rows(0, 20), rows(1 << 20, 100_000)), (1024, 1024));
        assert_eq!(Shares::new(1 << 30, 1 << 26).part, 1 << 26);
    }

    #[test]
    fn the_pace_follows_the_rows() {
        let mut pace = Pace::new(1 << 20, 8192);
        assert_eq!(pace.rows(), 256);
        pace.took(256, 256 * 10);
        assert_eq!(pace.rows(), 1024);
        pace.took(1024, 1024 * 10);
        pace.took(4096, 4096 * 10);
        assert_eq!(pace.rows(), 8192);
        pace.took(8192, 8192 * 4096);
        assert_eq!(pace.rows(), 256);
        pace.took(256, 256 << 20);
        assert_eq!(pace.rows(), 16);
    }
}
