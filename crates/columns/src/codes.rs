//! Codes of a column, block by block, for kernels that look at every row.
//!
//! A reader returns the codes of 1,024 rows, or of some of them, in the narrowest integer that holds the
//! column's, or positions in an array of the caller instead of codes. Selected rows may belong to several
//! consecutive blocks. `ChunkInfo` has encoding, base, width, zone and distinct values of a chunk without
//! reading it.

use crate::chunk::{Body, KeysChunk, width_of};
use crate::column::Column;
use crate::encoding::runs::Runs;
use crate::format::{
    BLOCK, ENCODING_DICTIONARY, ENCODING_MARKED, ENCODING_PACKED, ENCODING_PLAIN, ENCODING_RUNS,
    ENCODING_STEPS,
};
use crate::kernel::{self, Lane, with_lane};
use crate::mask::lanes;
use crate::{CodePredicate, Result};
use zerocopy::IntoBytes;

/// Rows of a block; chunks have a whole number of them, but for the last.
pub const BLOCK_ROWS: usize = BLOCK;

/// An integer that codes are read into: `u8`, `u16`, `u32` or `u64`.
pub trait Code: Lane {
    /// The code as 64 bits.
    #[inline(always)]
    fn number(self) -> u64 {
        self.widen()
    }
}
impl Code for u8 {}
impl Code for u16 {}
impl Code for u32 {}
impl Code for u64 {}

/// How the codes of a chunk are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// All rows have the same code, which takes no bytes.
    Constant,
    /// The distance from the chunk's smallest code, bit-packed.
    Packed,
    /// The same in whole bytes.
    Plain,
    /// Bit-packed positions in a sorted list of the chunk's codes.
    Dictionary,
    /// Bit-packed steps between codes that ascend.
    Steps,
    /// Runs of equal codes.
    Runs,
}

/// What is known of a chunk without reading it.
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

/// Reads the codes of a column in blocks of 1024 rows, as `C`. Keeps a block of room, and of a chunk that has one the
/// list of its codes; for one thread.
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
    onto: Onto<C>,
    /// The chunk that was read last, and its number.
    open: Option<(usize, Open<'a, C>)>,
    room: Vec<u64>,
}

/// What becomes of codes that are read.
#[derive(Debug, Clone, Copy)]
struct Onto<C> {
    /// What they are cut off at.
    most: C,
    /// What NULL becomes.
    null: C,
}

#[derive(Debug)]
struct Open<'a, C> {
    chunk: KeysChunk<'a>,
    /// What to add to a local value to get its code, or what is read instead.
    shift: C,
    /// The codes in the chunk's list, and behind them any others, up to [`list_size`].
    list: Vec<C>,
}

impl Column {
    /// Bits that its codes need: what [`code_reader`](Self::code_reader) must have at least.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes).
    pub fn code_bits(&self) -> Result<u32> {
        Ok(width_of(self.codes()?.max_code()) as u32)
    }

    /// What is known of a chunk without reading it. O(1).
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes), [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
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
            encoding: match entry.encoding {
                ENCODING_PACKED if entry.width > 0 => Encoding::Packed,
                ENCODING_PLAIN => Encoding::Plain,
                ENCODING_DICTIONARY => Encoding::Dictionary,
                ENCODING_STEPS => Encoding::Steps,
                ENCODING_RUNS | ENCODING_MARKED => Encoding::Runs,
                _ => Encoding::Constant,
            },
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
        self.reader_onto(
            0,
            Onto {
                most,
                null: C::default(),
            },
        )
    }

    /// Reads places in an array instead of codes: `min(code + add, most)`, where the sum wraps at the width of `C`, and
    /// `most` for NULL. What lies at `most` is then what is out of range, and every number that is read is a place.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes).
    ///
    /// # Panics
    /// If `C` has fewer bits than [`code_bits`](Self::code_bits).
    pub fn place_reader<C: Code>(&self, add: u64, most: C) -> Result<CodeReader<'_, C>> {
        self.reader_onto(add, Onto { most, null: most })
    }

    fn reader_onto<C: Code>(&self, add: u64, onto: Onto<C>) -> Result<CodeReader<'_, C>> {
        let (bits, space) = (self.code_bits()?, self.codes()?);
        assert!(
            bits as usize <= C::BITS,
            "codes of {bits} bits do not fit {}",
            C::BITS
        );
        Ok(CodeReader {
            column: self,
            key_to_code: space.key_to_code().wrapping_add(add),
            onto,
            open: None,
            room: vec![0; BLOCK],
        })
    }
}

impl<'a, C: Code> CodeReader<'a, C> {
    /// Reads the codes of a block of a chunk; returns how many rows it has, from the first of `codes` on. What is behind
    /// them means nothing. No code exceeds the column's `max_code`, nor any other number that is read its `most`.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block.
    pub fn read(&mut self, chunk: usize, block: usize, codes: &mut [C; BLOCK_ROWS]) -> Result<usize> {
        self.open(chunk)?;
        let Some((_, open)) = &self.open else { return Ok(0) };
        let (chunk, onto) = (&open.chunk, self.onto);
        let rows = chunk.rows_of(block);
        chunk.reads(block..block + 1);
        match chunk.body() {
            Body::List(list) => with_lane!(list.positions().width(), P => {
                let positions = lanes::<P>(&mut self.room);
                list.positions().unpack(block, positions);
                let list = &open.list[..list_size::<P>(list.positions().width())];
                for (code, position) in codes.iter_mut().zip(positions) {
                    *code = list[position.widen() as usize];
                }
            }),
            Body::Runs(runs) => with_lane!(chunk.width(), L => {
                runs.read::<L, C>(block, codes, |value| open.code(value.widen(), onto));
            }),
            Body::Plain(plain) => {
                with_lane!(chunk.width(), L => open.codes(plain.block::<L>(block), onto, codes));
            }
            Body::Packed(_) | Body::Steps(_) => with_lane!(chunk.width(), L => {
                let values = lanes::<L>(&mut self.room);
                chunk.read_block(block, values);
                open.codes(values, onto, codes);
            }),
        }
        Ok(rows)
    }

    /// Reads the codes of some rows, counted from the start of a block and ascending; they may lie in blocks behind it too.
    /// Few of a block are read one by one, many with their block. `codes` gets one for each.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such chunk or block, or a row is outside of the chunk; if `codes` has not the length of `rows`.
    pub fn read_rows(&mut self, chunk: usize, block: usize, rows: &[u16], codes: &mut [C]) -> Result<()> {
        assert_eq!(rows.len(), codes.len(), "one code for each row");
        self.open(chunk)?;
        let (Some((_, open)), Some((first, last))) = (&self.open, rows.first().zip(rows.last())) else {
            return Ok(());
        };
        assert!(
            block * BLOCK + usize::from(*last) < open.chunk.rows(),
            "row outside of the chunk"
        );
        let blocks = usize::from(*last) / BLOCK - usize::from(*first) / BLOCK + 1;
        let onto = self.onto;
        match open.chunk.body() {
            _ if rows.len() >= blocks * MANY => {}
            Body::Packed(packed) => {
                open.chunk.reads_rows(block, rows);
                with_lane!(open.chunk.width(), L => match open.chunk.null() {
                    None => packed.rows::<L, C>(block, rows, (open.shift, onto.most), codes),
                    Some(_) => {
                        packed.rows::<L, C>(block, rows, (C::default(), C::truncate(u64::MAX)), codes);
                        codes.iter_mut().for_each(|code| *code = open.code(code.widen(), onto));
                    }
                });
                return Ok(());
            }
            Body::List(list) => {
                open.chunk.reads_rows(block, rows);
                let most = C::truncate(open.list.len() as u64 - 1);
                with_lane!(list.positions().width(), P => {
                    list.positions().rows::<P, C>(block, rows, (C::default(), most), codes);
                });
                codes
                    .iter_mut()
                    .for_each(|code| *code = open.list[code.widen() as usize]);
                return Ok(());
            }
            _ => {}
        }
        if let Body::Runs(runs) = open.chunk.body()
            && rows.len() < blocks * FEW
        {
            with_lane!(open.chunk.width(), L => open.rows_of_runs::<L>(runs, (block, rows), onto, codes));
            return Ok(());
        }
        if rows.len() < blocks * MANY {
            open.chunk.reads_rows(block, rows);
        }
        let mut done = 0;
        for rows in by_block(rows) {
            let of_rows = &mut codes[done..done + rows.len()];
            self.read_rows_of(chunk, block + usize::from(rows[0]) / BLOCK, rows, of_rows)?;
            done += rows.len();
        }
        Ok(())
    }

    /// As [`read_rows`](Self::read_rows), rows of one block, whatever block they count from.
    fn read_rows_of(&mut self, chunk: usize, block: usize, rows: &[u16], codes: &mut [C]) -> Result<()> {
        let Some((_, open)) = &self.open else {
            return Ok(());
        };
        let onto = self.onto;
        let row_of = |row: u16| usize::from(row) % BLOCK;
        match open.chunk.body() {
            Body::Plain(plain) => with_lane!(open.chunk.width(), L => {
                let values = plain.block::<L>(block);
                for (code, &row) in codes.iter_mut().zip(rows) {
                    *code = open.code(values[row_of(row)].widen(), onto);
                }
            }),
            Body::Runs(runs) if rows.len() < MANY => with_lane!(open.chunk.width(), L => {
                let (marks, values) = runs.of_block::<L>(block);
                let numbers = &mut [0; MANY][..rows.len()];
                kernel::runs_of(&marks, rows, numbers);
                for (code, &run) in codes.iter_mut().zip(&*numbers) {
                    let value = values.get(usize::from(run)).copied().unwrap_or_default();
                    *code = open.code(value.widen(), onto);
                }
            }),
            _ => {
                let mut all = [C::default(); BLOCK];
                self.read(chunk, block, &mut all)?;
                for (code, &row) in codes.iter_mut().zip(rows) {
                    *code = all[row_of(row)];
                }
            }
        }
        Ok(())
    }

    /// A chunk, what to add to a local value that is not NULL to get its code, and the codes of its list, if it has one, with any
    /// behind them.
    pub(crate) fn chunk(&mut self, chunk: usize) -> Result<(&KeysChunk<'a>, C, &[C])> {
        self.open(chunk)?;
        match &self.open {
            Some((_, open)) => Ok((&open.chunk, open.shift, &open.list)),
            None => unreachable!("it was opened"),
        }
    }

    /// Whether any row of a chunk can match, as far as its smallest and largest code tell. O(1), O(log n) for a set.
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
        let shift = C::truncate(chunk.key_base().wrapping_add(self.key_to_code));
        let list = self.open.take().map_or_else(Vec::new, |(_, open)| open.list);
        let mut open = Open { chunk, shift, list };
        if let Body::List(list) = chunk.body() {
            let size = with_lane!(list.positions().width(), P => list_size::<P>(list.positions().width()));
            if open.list.len() < size {
                open.list.resize(size, C::default());
            }
            with_lane!(chunk.width(), L => for (i, value) in list.values::<L>().iter().enumerate() {
                open.list[i] = open.code(value.widen(), self.onto);
            });
        }
        self.open = Some((number, open));
        Ok(())
    }
}

impl<C: Code> Open<'_, C> {
    /// The code of a local value.
    #[inline(always)]
    fn code(&self, value: u64, onto: Onto<C>) -> C {
        if Some(value) == self.chunk.null() {
            return onto.null;
        }
        C::truncate(value).plus(self.shift).min(onto.most)
    }

    /// The codes of rows in runs, few of a block: what is read first for all of them is fetched side by side, and so is the rest.
    fn rows_of_runs<L: Lane>(
        &self,
        runs: &Runs<'_>,
        (block, rows): (usize, &[u16]),
        onto: Onto<C>,
        codes: &mut [C],
    ) {
        let number = |rows: &[u16]| block + usize::from(rows[0]) / BLOCK;
        let starts = by_block(rows).map(|rows| runs.starts(number(rows)..number(rows) + 1));
        self.chunk.fetch(starts);
        let (mut at, mut numbers) = (vec![0; rows.len()], vec![0; rows.len()]);
        let values = runs.values::<L>();
        let mut done = 0;
        for rows in by_block(rows) {
            let (of_block, range) = (number(rows), done..done + rows.len());
            kernel::runs_of(&runs.marks(of_block), rows, &mut numbers[range.clone()]);
            let first = runs.runs(of_block..of_block + 1).start;
            for (at, run) in at[range.clone()].iter_mut().zip(&numbers[range]) {
                *at = first + usize::from(*run);
            }
            done += rows.len();
        }
        let lines = at
            .iter()
            .map(|at| values.get(*at..at + 1).unwrap_or_default().as_bytes());
        self.chunk.fetch(lines);
        for (code, at) in codes.iter_mut().zip(&at) {
            *code = self.code(values.get(*at).copied().unwrap_or_default().widen(), onto);
        }
    }

    /// The codes of local values.
    fn codes<L: Lane>(&self, values: &[L; BLOCK], onto: Onto<C>, codes: &mut [C; BLOCK]) {
        match self.chunk.null() {
            None => kernel::shift(values, self.shift, onto.most, codes),
            Some(_) => {
                for (code, value) in codes.iter_mut().zip(values) {
                    *code = self.code(value.widen(), onto);
                }
            }
        }
    }
}

/// From so many rows of a block on, all of them are read.
const MANY: usize = 256;

/// Up to so many rows of a block, on average, those in runs are looked up in steps.
const FEW: usize = 16;

/// Rows by block.
fn by_block(rows: &[u16]) -> impl Iterator<Item = &[u16]> + Clone {
    rows.chunk_by(|a, b| a / BLOCK as u16 == b / BLOCK as u16)
}

/// How long a list must be for every position of so many bits to lie in it: as long as there are numbers in the lane,
/// so that looking positions up needs no check, unless that is too long.
#[inline(always)]
fn list_size<P: Lane>(width: usize) -> usize {
    if P::BITS <= 16 { 1 << P::BITS } else { 1 << width }
}
