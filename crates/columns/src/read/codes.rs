//! Codes of a column, block by block, for kernels that look at every row.
//!
//! A reader returns the codes of 1,024 rows, or of some of them, in the narrowest integer that holds the
//! column's, or positions in an array of the caller instead of codes. Selected rows may belong to several
//! consecutive blocks. `ChunkInfo` has encoding, base, width, zone and distinct values of a chunk without
//! reading it.

use crate::codec::chunk::KeyChunk;
use crate::codec::dispatch::KeyCodec;
use crate::codec::selected_rows::{WHOLE_BLOCK_CODES, by_block};
use crate::codec::{CodeMap, Encoding};
use crate::format::BLOCK;
use crate::kernel::{self, BlockMask, Code, width_of};
use crate::read::column::Column;
use crate::{CodePredicate, Result};

/// Rows of a block; chunks have a whole number of them, but for the last.
pub const BLOCK_ROWS: usize = BLOCK;

/// Statistics of a chunk that are known without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkInfo {
    /// Rows.
    pub rows: usize,
    /// Rows that are NULL.
    pub nulls: usize,
    /// How codes are stored.
    pub encoding: Encoding,
    /// Smallest code of a value (not NULL), 0 if there is none: what is stored counts from here.
    pub base: u64,
    /// Bits that the distance of a code from `base` needs, with a place for NULL.
    pub width: u32,
    /// Smallest and largest code; NULL is code 0.
    pub zone: (u64, u64),
    /// Distinct values, NULL not counted, to a few percent; `None` if unknown or at least 65,535.
    pub distinct: Option<u32>,
    /// Bytes in the pool.
    pub bytes: u64,
}

/// Reads the codes of a column in blocks of 1024 rows, as `C`. Keeps a block of room, and of a chunk that has
/// one the list of its codes; for one thread.
///
/// ```
/// # use arrow_array::{ArrayRef, Int32Array, RecordBatch};
/// # use halocline_columns::{Table, TableOptions, TableWriter};
/// # use halocline_pool::{Pool, PoolOptions};
/// # use std::sync::Arc;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let pool = Pool::create(directory.path().join("p"), &PoolOptions::default())?;
/// # let days: ArrayRef = Arc::new(Int32Array::from_iter_values((0..5000).map(|i| 19_920_101 + i / 7)));
/// # let batch = RecordBatch::try_from_iter([("day", days)])?;
/// # let txn = pool.begin()?;
/// # let mut writer = TableWriter::new(&txn, "t", batch.schema(), TableOptions::default())?;
/// # writer.write(&batch)?;
/// # writer.finish()?;
/// # txn.commit()?;
/// # let table = Table::open(&pool.snapshot()?, "t")?;
/// let column = table.segments()[0].column(0);
/// let mut reader = column.code_reader::<u16>()?; // codes need 10 bits: see `Column::code_bits`
/// let (mut codes, mut sum) = ([0; 1024], 0);
/// for row in (0..column.rows()).step_by(1024) {
///     let (chunk, block) = (row / column.chunk_rows(), row % column.chunk_rows() / 1024);
///     let rows = reader.read(chunk, block, &mut codes)?;
///     sum += codes[..rows].iter().map(|&code| u64::from(code)).sum::<u64>();
/// }
/// assert_eq!(sum, (0..5000).map(|i| i / 7).sum::<u64>());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CodeReader<'a, C> {
    column: &'a Column,
    key_to_code: u64,
    /// The chunk that was read last, and its number.
    open: Option<(usize, KeyChunk<'a>)>,
    /// The map from the offsets of that chunk to codes.
    map: CodeMap<C>,
    scratch: Vec<u64>,
}

impl Column {
    /// Returns the number of bits that the column's codes need, the minimum for
    /// [`code_reader`](Self::code_reader).
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes).
    pub fn code_bits(&self) -> Result<u32> {
        Ok(width_of(self.codes()?.max_code()) as u32)
    }

    /// Returns the statistics of a chunk, without reading it. O(1).
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes),
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn chunk_info(&self, chunk: usize) -> Result<ChunkInfo> {
        let (zone, space) = (self.zone(chunk)?, self.codes()?);
        let entry = self.keys_entry(chunk)?;
        let valued = entry.nulls < entry.rows;
        Ok(ChunkInfo {
            rows: entry.rows as usize,
            nulls: entry.nulls as usize,
            encoding: KeyCodec::encoding_of(entry.encoding, entry.width.into()).unwrap_or(Encoding::Constant),
            base: if valued { space.code(entry.min) } else { 0 },
            width: entry.width.into(),
            zone,
            distinct: (1..u16::MAX)
                .contains(&entry.distinct)
                .then_some(entry.distinct.into()),
            bytes: entry.len,
        })
    }

    /// Reads its codes in blocks.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes).
    ///
    /// # Panics
    /// If `C` has fewer bits than [`code_bits`](Self::code_bits).
    pub fn code_reader<C: Code>(&self) -> Result<CodeReader<'_, C>> {
        let most = C::truncate(self.codes()?.max_code());
        self.reader_with(0, CodeMap::new(most, C::default()))
    }

    /// Reads places in an array instead of codes: `min(code + add, most)`, where the sum wraps at the width
    /// of `C`, and `most` for NULL. What lies at `most` is then what is out of range, and every number
    /// that is read is a place.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes).
    ///
    /// # Panics
    /// If `C` has fewer bits than [`code_bits`](Self::code_bits).
    pub fn place_reader<C: Code>(&self, add: u64, most: C) -> Result<CodeReader<'_, C>> {
        self.reader_with(add, CodeMap::new(most, most))
    }

    fn reader_with<C: Code>(&self, add: u64, map: CodeMap<C>) -> Result<CodeReader<'_, C>> {
        let (bits, space) = (self.code_bits()?, self.codes()?);
        assert!(
            bits as usize <= C::BITS,
            "codes of {bits} bits do not fit {}",
            C::BITS
        );
        Ok(CodeReader {
            column: self,
            key_to_code: space.key_to_code().wrapping_add(add),
            open: None,
            map,
            scratch: vec![0; BLOCK],
        })
    }
}

impl<'a, C: Code> CodeReader<'a, C> {
    /// Reads the codes of a block of a chunk and returns the number of its rows. Elements of `codes` after
    /// them are unspecified. No code exceeds the column's `max_code`, and no slot its `most`.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block.
    pub fn read(&mut self, chunk: usize, block: usize, codes: &mut [C; BLOCK_ROWS]) -> Result<usize> {
        self.open(chunk)?;
        let Some((_, chunk)) = &self.open else {
            return Ok(0);
        };
        let rows = chunk.rows_of(block);
        chunk.report(block..block + 1);
        let width = chunk.width();
        chunk
            .codec
            .read_codes(width, block, &self.map, &mut self.scratch, codes);
        Ok(rows)
    }

    /// Reads the codes of the rows of a block whose bits are set in `mask`, in order, and returns their
    /// number. Elements of `codes` after them are unspecified.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block.
    pub fn read_masked(
        &mut self,
        chunk: usize,
        block: usize,
        mask: &BlockMask,
        codes: &mut [C; BLOCK_ROWS],
    ) -> Result<usize> {
        let kept = kernel::rows_in(mask);
        let rows = self.read(chunk, block, codes)?;
        if kept == rows {
            return Ok(rows);
        }
        // Compaction writes to the front of the buffer, so it reads from a copy.
        let all = *codes;
        Ok(kernel::compact(&all, mask, codes))
    }

    /// Reads the codes of some rows, counted from the start of a block and ascending; they may lie in blocks
    /// after it too. Few of a block are read one by one, many with their block. `codes` gets one for
    /// each.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block, or a row is outside of the chunk; if `codes` has not the length of
    /// `rows`.
    pub fn read_rows(&mut self, chunk: usize, block: usize, rows: &[u16], codes: &mut [C]) -> Result<()> {
        assert_eq!(rows.len(), codes.len(), "one code for each row");
        self.open(chunk)?;
        let (Some((_, open)), Some((first, last))) = (&self.open, rows.first().zip(rows.last())) else {
            return Ok(());
        };
        assert!(
            block * BLOCK + usize::from(*last) < open.rows(),
            "row outside of the chunk"
        );
        let blocks = usize::from(*last) / BLOCK - usize::from(*first) / BLOCK + 1;
        // Few rows cost less one by one than the unpacking of their blocks, if the codec can read them alone.
        if rows.len() < blocks * WHOLE_BLOCK_CODES {
            let width = open.width();
            if open
                .codec
                .read_rows(width, open.reads, (block, blocks), rows, &self.map, codes)
            {
                return Ok(());
            }
            open.report_rows(block, rows);
        }
        let mut done = 0;
        for rows in by_block(rows) {
            let of_rows = &mut codes[done..done + rows.len()];
            self.read_block_rows(chunk, block + usize::from(rows[0]) / BLOCK, rows, of_rows)?;
            done += rows.len();
        }
        Ok(())
    }

    /// Reads rows of one block as [`read_rows`](Self::read_rows) does, whatever block they are counted from.
    fn read_block_rows(&mut self, chunk: usize, block: usize, rows: &[u16], codes: &mut [C]) -> Result<()> {
        if let Some((_, open)) = &self.open
            && open
                .codec
                .read_block_rows(open.width(), block, rows, &self.map, codes)
        {
            return Ok(());
        }
        let mut all = [C::default(); BLOCK];
        self.read(chunk, block, &mut all)?;
        for (code, row) in codes.iter_mut().zip(rows) {
            *code = all[usize::from(*row) % BLOCK];
        }
        Ok(())
    }

    /// Returns a chunk, and the map from its offsets to codes.
    pub(crate) fn chunk(&mut self, chunk: usize) -> Result<(&KeyChunk<'a>, &CodeMap<C>)> {
        self.open(chunk)?;
        match &self.open {
            Some((_, open)) => Ok((open, &self.map)),
            None => unreachable!("it was opened"),
        }
    }

    /// Returns true if a row of a chunk may match, by its smallest and largest code. O(1), O(log n) for a
    /// set.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn may_match(&self, chunk: usize, predicate: &CodePredicate) -> Result<bool> {
        let (lo, hi) = self.column.zone(chunk)?;
        Ok(match predicate {
            CodePredicate::Set(codes) => codes
                .get(codes.partition_point(|&code| code < lo))
                .is_some_and(|&code| code <= hi),
            predicate => predicate
                .bounds()
                .is_some_and(|(low, high)| low <= hi && high >= lo),
        })
    }

    /// Opens a chunk, unless it is the one that is open.
    fn open(&mut self, number: usize) -> Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| *open == number) {
            return Ok(());
        }
        let chunk = self.column.packed(number)?;
        // Codes fit `C`, so the shift may be truncated: the sum wraps around to the code.
        let shift = C::truncate(chunk.key_base().wrapping_add(self.key_to_code));
        chunk.set_map(&mut self.map, shift);
        self.open = Some((number, chunk));
        Ok(())
    }
}
