//! Codes for a column of plain strings, or of decimals as strings: their ranks in a sorted dictionary, made
//! within a memory budget.
//!
//! Strings are numbered as they come. When their interner has used its memory, its strings go sorted to
//! scratch space, a *run*, and the numbers of the rows since the run before, which are in scratch space
//! anyway, become ranks within it. In the end the runs are merged into the dictionary; on the way each run
//! learns which rank of the dictionary each of its own is.

use crate::error::damaged;
use crate::read::bytes_array::for_each_bytes;
use crate::table::shares::Pace;
use crate::write::dictionary_writer::DictionaryWriter;
use crate::write::interner::Interner;
use crate::{Column, ColumnsError, Result};
use arrow_array::Array;
use halocline_pool::{ExtentRef, FrozenScratch, ScratchExtent, Txn};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// The number of NULL.
const NULL: u32 = u32::MAX;
/// Rows that are read at once at most.
const BATCH_ROWS: usize = 1 << 16;
/// Numbers that are read or written at once.
const BUFFERED_NUMBERS: usize = 1 << 12;
/// Bytes that the strings of a run may take, however small the memory is.
const MIN_RUN_BYTES: usize = 64 << 10;
/// Bytes of sorted strings that are written at once.
const BUFFER: usize = 256 << 10;

/// The strings of a column in order, and the code of each row: its rank, plus one if there are NULLs, which
/// are 0.
pub struct RankedStrings<'t> {
    /// Returns true if a row is NULL.
    pub has_null: bool,
    /// Different strings.
    pub distinct: u64,
    /// Their [`Dictionary`](crate::Dictionary).
    pub dictionary: ExtentRef,
    /// Runs that were spilled; 0 if all strings fitted the memory.
    pub spilled_runs: usize,
    codes: FrozenScratch<'t>,
}

impl fmt::Debug for RankedStrings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RankedStrings")
            .field("distinct", &self.distinct)
            .field("has_null", &self.has_null)
            .finish_non_exhaustive()
    }
}

impl RankedStrings<'_> {
    /// Reads the codes of the rows from `start` on, one for each element of `out`.
    ///
    /// # Panics
    /// If the column has fewer rows.
    pub fn read(&self, start: usize, out: &mut [u64]) {
        let codes = &self.codes[start * 4..(start + out.len()) * 4];
        for (out, code) in out.iter_mut().zip(codes.as_chunks().0) {
            *out = u64::from(u32::from_le_bytes(*code));
        }
    }
}

/// Ranks the strings of a column without codes, using about `memory` bytes of DRAM; what is beyond is spilled
/// to the pool. Setting `cancel` from anywhere ends it. O(n log n) in the bytes of the strings.
///
/// # Errors
/// [`ColumnsError::TypeMismatch`] if the column holds neither strings nor decimals;
/// [`ColumnsError::RankingCancelled`], [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
pub fn rank_strings<'t>(
    txn: &'t Txn,
    column: &Column,
    memory: usize,
    cancel: &AtomicBool,
) -> Result<RankedStrings<'t>> {
    if !column.is_rankable() {
        return Err(ColumnsError::TypeMismatch {
            column: column.name().into(),
            expected: arrow_schema::DataType::Utf8View,
            got: column.data_type().clone(),
        });
    }
    let column = &column.for_copying();
    let mut ranking = Ranking::new(txn, column.rows(), (memory / 8 * 5).max(MIN_RUN_BYTES))?;
    let mut pace = Pace::new(memory / 16, BATCH_ROWS);
    let mut start = 0;
    while start < column.rows() {
        if cancel.load(Ordering::Relaxed) {
            return Err(ColumnsError::RankingCancelled {
                column: column.name().into(),
            });
        }
        let rows = start..column.rows().min(start + pace.rows());
        let array = column.scan(rows.clone())?;
        pace.took(rows.len(), array.get_array_memory_size());
        ranking.add(&array)?;
        start = rows.end;
    }
    ranking.finish()
}

struct Ranking<'t> {
    txn: &'t Txn,
    /// Strings since the last run.
    interner: Interner,
    memory: usize,
    /// The number of each row: of the strings in the interner, or, in a run, the rank.
    numbers: ScratchExtent<'t>,
    rows: u64,
    runs: Vec<StringRun<'t>>,
    has_null: bool,
}

/// Sorted strings, each after its length (u32), of some rows.
struct StringRun<'t> {
    rows: Range<u64>,
    count: u64,
    strings: FrozenScratch<'t>,
}

impl<'t> Ranking<'t> {
    fn new(txn: &'t Txn, rows: usize, memory: usize) -> Result<Self> {
        Ok(Self {
            txn,
            // Pages that are never touched take no memory.
            interner: Interner::with_capacity(memory),
            memory,
            numbers: txn.scratch(rows as u64 * 4)?,
            rows: 0,
            runs: Vec::new(),
            has_null: false,
        })
    }

    fn add(&mut self, array: &dyn Array) -> Result<()> {
        let mut waiting = Vec::with_capacity(BUFFERED_NUMBERS);
        for_each_bytes(array, |string| {
            match string {
                Some(string) => waiting.push(self.interner.intern(string)),
                None => {
                    self.has_null = true;
                    waiting.push(NULL);
                }
            }
            if waiting.len() == BUFFERED_NUMBERS {
                self.store(&mut waiting);
            }
            // Two more words for the order and the ranks of each string.
            let words = self.interner.len() * 8;
            if self.interner.bytes_len() + self.interner.table_memory() + words > self.memory {
                self.store(&mut waiting);
                self.spill()?;
            }
            Ok::<_, ColumnsError>(())
        })?;
        self.store(&mut waiting);
        Ok(())
    }

    fn store(&mut self, waiting: &mut Vec<u32>) {
        self.numbers.write_at(self.rows * 4, waiting.as_bytes());
        self.rows += waiting.len() as u64;
        waiting.clear();
    }

    /// Returns the rank of each number of the interner, given the numbers in the order of their strings.
    fn ranks(&self, order: &[u32]) -> Vec<u32> {
        let mut ranks = vec![0; order.len()];
        for (rank, &number) in (0..).zip(order) {
            ranks[number as usize] = rank;
        }
        ranks
    }

    /// Makes a run of the interner's strings.
    fn spill(&mut self) -> Result<()> {
        let order = self.interner.sorted();
        let start = self.runs.last().map_or(0, |run| run.rows.end);
        let rows = start..self.rows;
        let ranks = self.ranks(&order);
        renumber(&self.numbers, rows.clone(), |number| match number {
            NULL => NULL,
            number => ranks[number as usize],
        });
        let len = self.interner.bytes_len() + 4 * order.len();
        let scratch = self.txn.scratch(len as u64)?;
        let (mut at, mut buffer) = (0, Vec::with_capacity(BUFFER));
        for &number in &order {
            let string = self.interner.get(number);
            buffer.extend_from_slice(&(string.len() as u32).to_le_bytes());
            buffer.extend_from_slice(string);
            if buffer.len() >= BUFFER {
                scratch.write_at(at, &buffer);
                at += buffer.len() as u64;
                buffer.clear();
            }
        }
        scratch.write_at(at, &buffer);
        tracing::debug!(bytes = len, "spilled a run of strings");
        self.runs.push(StringRun {
            rows,
            count: order.len() as u64,
            strings: scratch.freeze(),
        });
        self.interner.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<RankedStrings<'t>> {
        let first = u32::from(self.has_null);
        let spilled_runs = self.runs.len();
        let (dictionary, distinct) = if self.runs.is_empty() {
            let order = self.interner.sorted();
            let (count, bytes) = (order.len() as u64, self.interner.bytes_len() as u64);
            let mut dictionary = DictionaryWriter::new(self.txn, count, bytes)?;
            order
                .iter()
                .for_each(|&number| dictionary.push(self.interner.get(number)));
            let ranks = self.ranks(&order);
            renumber(&self.numbers, 0..self.rows, |number| match number {
                NULL => 0,
                number => ranks[number as usize] + first,
            });
            (dictionary.finish()?, count)
        } else {
            self.spill()?;
            self.interner = Interner::default();
            self.merge(first)?
        };
        Ok(RankedStrings {
            has_null: self.has_null,
            distinct,
            dictionary,
            spilled_runs,
            codes: self.numbers.freeze(),
        })
    }

    /// Merges the runs; gives the dictionary and its number of strings.
    fn merge(&self, first: u32) -> Result<(ExtentRef, u64)> {
        let count = self.runs.iter().map(|run| run.count).sum();
        let bytes = self.runs.iter().map(|run| run.strings.len() as u64).sum();
        let mut dictionary = DictionaryWriter::new(self.txn, count, bytes)?;
        let mut maps = Vec::with_capacity(self.runs.len());
        let mut rests: Vec<&[u8]> = Vec::with_capacity(self.runs.len());
        let mut heads = BinaryHeap::with_capacity(self.runs.len());
        for (run, of) in self.runs.iter().enumerate() {
            maps.push(Map::new(self.txn.scratch(of.count * 4)?));
            rests.push(&of.strings);
            heads.extend(next(&mut rests[run]).map(|string| Reverse((string, run))));
        }
        let (mut last, mut distinct) = (None, 0u64);
        while let Some(Reverse((string, run))) = heads.pop() {
            if last != Some(string) {
                dictionary.push(string);
                distinct += 1;
                last = Some(string);
            }
            maps[run].push((distinct - 1) as u32 + first);
            heads.extend(next(&mut rests[run]).map(|string| Reverse((string, run))));
        }
        for (run, map) in self.runs.iter().zip(maps) {
            let map = map.finish();
            let codes =
                <[u32]>::ref_from_bytes(&map).map_err(|_| damaged("scratch space", "is not aligned"))?;
            renumber(&self.numbers, run.rows.clone(), |rank| match rank {
                NULL => 0,
                rank => codes[rank as usize],
            });
        }
        Ok((dictionary.finish()?, distinct))
    }
}

/// Takes the next string of a run.
fn next<'a>(run: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = run.split_first_chunk()?;
    let (string, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *run = rest;
    Some(string)
}

/// Replaces the numbers of some rows.
fn renumber(numbers: &ScratchExtent<'_>, rows: Range<u64>, new: impl Fn(u32) -> u32) {
    let mut buffer = vec![0u32; BUFFERED_NUMBERS];
    for start in rows.clone().step_by(BUFFERED_NUMBERS) {
        let buffer = &mut buffer[..(rows.end - start).min(BUFFERED_NUMBERS as u64) as usize];
        numbers.read_at(start * 4, buffer.as_mut_bytes());
        buffer.iter_mut().for_each(|number| *number = new(*number));
        numbers.write_at(start * 4, buffer.as_bytes());
    }
}

/// The code of each rank of a run, while it is made.
struct Map<'t> {
    codes: ScratchExtent<'t>,
    waiting: Vec<u32>,
    stored: u64,
}

impl<'t> Map<'t> {
    fn new(codes: ScratchExtent<'t>) -> Self {
        Self {
            codes,
            waiting: Vec::with_capacity(BUFFERED_NUMBERS / 4),
            stored: 0,
        }
    }

    fn push(&mut self, code: u32) {
        self.waiting.push(code);
        if self.waiting.len() == BUFFERED_NUMBERS / 4 {
            self.store();
        }
    }

    fn store(&mut self) {
        self.codes.write_at(self.stored * 4, self.waiting.as_bytes());
        self.stored += self.waiting.len() as u64;
        self.waiting.clear();
    }

    fn finish(mut self) -> FrozenScratch<'t> {
        self.store();
        self.codes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dictionary, Table, TableOptions, TableWriter};
    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use halocline_media::Dram;
    use halocline_pool::Pool;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn any_memory_gives_the_same_ranks() {
        let strings: Vec<Option<String>> = (0..30_000u64)
            .map(|row| {
                let mixed = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50;
                (row % 97 != 5).then(|| "ab".repeat(mixed as usize % 7) + &mixed.to_string())
            })
            .collect();
        let expected: BTreeSet<&String> = strings.iter().flatten().collect();
        let array: ArrayRef = Arc::new(StringArray::from(strings.clone()));
        let pool = Pool::create_on(Arc::new(Dram::new(1 << 22).expect("memory"))).expect("a pool");
        let txn = pool.begin().expect("nobody writes");
        let batch = RecordBatch::try_from_iter([("s", array)]).expect("a column");
        let options = TableOptions {
            dictionary_limit: 10,
            ..TableOptions::default()
        };
        let mut writer = TableWriter::new(&txn, "t", batch.schema(), options).expect("storable");
        writer.write(&batch).expect("written");
        writer.finish().expect("written");
        let table = Table::open_in(&txn, "t").expect("written");
        let column = table.segments()[0].column(0);
        for (memory, spills) in [(64 << 20, false), (300 << 10, true), (0, true)] {
            let ranked = rank_strings(&txn, column, memory, &AtomicBool::new(false)).expect("strings");
            assert_eq!((ranked.distinct, ranked.has_null), (expected.len() as u64, true));
            assert_eq!(ranked.spilled_runs > 0, spills, "{memory}");
            let extent = txn.extent(&ranked.dictionary).expect("written");
            let len = extent.len();
            let dictionary = Dictionary::open(extent, 0..len).expect("whole");
            dictionary.check().expect("sorted");
            assert!(
                dictionary
                    .iter()
                    .flatten()
                    .eq(expected.iter().map(|s| s.as_bytes()))
            );
            let mut codes = vec![0; strings.len() - 7];
            ranked.read(7, &mut codes);
            for (string, code) in strings[7..].iter().zip(codes) {
                let rank = string
                    .as_ref()
                    .map_or(0, |s| dictionary.find(s.as_bytes()).unwrap().expect("known") + 1);
                assert_eq!(code, rank);
            }
        }
    }
}
