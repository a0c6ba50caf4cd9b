//! The scan kernel: conjunctions of conditions on codes, evaluated on packed chunks.
//!
//! Per chunk, zone maps decide what they can; the rest goes by stripes of some blocks, the most selective
//! condition first, and a block is left as soon as no row of it is kept. What a column's condition reads at
//! once is long enough to come while the one before is compared. Conditions on strings come last. Invariant:
//! rows outside of the range asked for and deleted rows are never kept.

use crate::codec::chunk::KeyChunk;
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::format::BLOCK;
use crate::kernel::BlockMask;
use crate::read::column::Column;
use crate::read::row_selection::RowSelection;
use crate::read::segment::Segment;
use crate::table::live::Live;
use crate::{CodePredicate, Result};
use roaring::RoaringBitmap;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Blocks that are compared with one condition before the next.
const STRIPE: usize = 8;

/// The state of a selection for some rows of a chunk.
pub(crate) enum Found<'a> {
    /// All of these rows of the segment match.
    All(Range<usize>),
    /// The matching rows of a block, whose first row this is.
    Some(usize, &'a BlockMask),
}

impl Segment {
    /// Returns the rows within `rows` that match all of `predicates` (pairs of column and condition) and are
    /// not deleted. Threads may each take a range of their own, preferably of whole chunks.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`](crate::ColumnsError::NoCodes) for a condition on a column without codes,
    /// [`ColumnsError::RowsOutOfRange`](crate::ColumnsError::RowsOutOfRange),
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged).
    ///
    /// # Panics
    /// If there is no such column.
    pub fn select(&self, predicates: &[(usize, CodePredicate)], rows: Range<usize>) -> Result<RoaringBitmap> {
        let mut collector = Collector::default();
        self.find(predicates, rows, |found| match found {
            Found::All(rows) => collector.add_range(rows),
            Found::Some(first, mask) => collector.add_block(first, mask),
        })?;
        Ok(collector.finish())
    }

    /// Adds the rows within `rows` that match all of `predicates` and are not deleted to `selection`.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    ///
    /// # Panics
    /// If `selection` has rows in blocks after the first of these.
    pub fn select_into(
        &self,
        predicates: &[(usize, CodePredicate)],
        rows: Range<usize>,
        selection: &mut RowSelection,
    ) -> Result<()> {
        self.find(predicates, rows, |found| match found {
            Found::All(rows) => selection.add_range(rows),
            Found::Some(first, mask) => selection.add_block(first, mask),
        })
    }

    /// Keeps the selected rows that match all of `predicates`; deleted rows are not looked at.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn filter(&self, predicates: &[(usize, CodePredicate)], selection: &mut RowSelection) -> Result<()> {
        self.check_rows(&(0..selection.end()))?;
        let Some(conditions) = self.string_conditions() else {
            return self.filter_codes(predicates, selection);
        };
        self.filter_codes(&[predicates, &conditions.codes].concat(), selection)?;
        conditions.evaluation(self).filter(selection)
    }

    fn filter_codes(
        &self,
        predicates: &[(usize, CodePredicate)],
        selection: &mut RowSelection,
    ) -> Result<()> {
        let columns = self.conditions(predicates)?;
        let mut room = vec![0u64; BLOCK];
        let mut open: Option<(usize, Option<Conditions<'_>>)> = None;
        selection.for_each_run(self.chunk_rows() / BLOCK, STRIPE, |chunk, from, masks| {
            // Runs of a chunk follow each other, so its conditions are translated once.
            let conditions = match open.take() {
                Some((number, conditions)) if number == chunk => conditions,
                _ => localise(&columns, chunk)?,
            };
            match &conditions {
                Some(conditions) => keep_all(conditions, from, masks, &mut room),
                None => masks.fill([0; BLOCK / 64]),
            }
            open = Some((chunk, conditions));
            Ok(())
        })
    }

    /// Returns the number of rows within `rows` that match all of `predicates` and are not deleted.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn count(&self, predicates: &[(usize, CodePredicate)], rows: Range<usize>) -> Result<u64> {
        let mut count = 0;
        self.find(predicates, rows, |found| {
            count += match found {
                Found::All(rows) => rows.len() as u64,
                Found::Some(_, mask) => mask.iter().map(|word| u64::from(word.count_ones())).sum(),
            };
        })?;
        Ok(count)
    }

    /// Calls `each` with the first row and the matching rows of every block that has any, in order.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn select_blocks(
        &self,
        predicates: &[(usize, CodePredicate)],
        rows: Range<usize>,
        mut each: impl FnMut(usize, &BlockMask),
    ) -> Result<()> {
        self.find(predicates, rows, |found| match found {
            Found::All(rows) => {
                for block in rows.start / BLOCK..rows.end.div_ceil(BLOCK) {
                    let mut mask = [u64::MAX; BLOCK / 64];
                    clip(&mut mask, block * BLOCK, &rows);
                    each(block * BLOCK, &mask);
                }
            }
            Found::Some(first, mask) => each(first, mask),
        })
    }

    /// Calls `each` with the rows that match, also the segment's conditions on strings, and are not deleted,
    /// in order.
    fn find(
        &self,
        predicates: &[(usize, CodePredicate)],
        rows: Range<usize>,
        mut each: impl FnMut(Found<'_>),
    ) -> Result<()> {
        let Some(conditions) = self.string_conditions() else {
            return self.find_live(predicates, rows, each);
        };
        let (mut evaluation, mut result) = (conditions.evaluation(self), Ok(()));
        let predicates = [predicates, &conditions.codes].concat();
        self.find_live(&predicates, rows, |found| {
            if result.is_ok() {
                result = evaluation.pass(&found, &mut each);
            }
        })?;
        result
    }

    /// Calls `each` with the rows that match `predicates` and are not deleted, in order.
    fn find_live(
        &self,
        predicates: &[(usize, CodePredicate)],
        rows: Range<usize>,
        mut each: impl FnMut(Found<'_>),
    ) -> Result<()> {
        let Some(deleted) = self.deletions()? else {
            return self.find_all(predicates, rows, each);
        };
        let mut live = Live::new(deleted);
        self.find_all(predicates, rows, |found| live.pass(&found, &mut each))
    }

    fn find_all(
        &self,
        predicates: &[(usize, CodePredicate)],
        rows: Range<usize>,
        mut each: impl FnMut(Found<'_>),
    ) -> Result<()> {
        self.check_rows(&rows)?;
        let columns = self.conditions(predicates)?;
        let chunk_ranges = |rows: Range<usize>| {
            let size = self.chunk_rows();
            let chunks = if rows.is_empty() {
                0..0
            } else {
                rows.start / size..rows.end.div_ceil(size)
            };
            chunks.map(move |chunk| {
                (
                    chunk,
                    rows.start.max(chunk * size)..rows.end.min((chunk + 1) * size),
                )
            })
        };
        let mut room = vec![0u64; BLOCK];
        for (number, rows) in chunk_ranges(rows) {
            let Some(conditions) = localise(&columns, number)? else {
                continue;
            };
            if conditions.is_empty() {
                each(Found::All(rows));
                continue;
            }
            let chunk_start = number * self.chunk_rows();
            let blocks = (rows.start - chunk_start) / BLOCK..(rows.end - chunk_start).div_ceil(BLOCK);
            for from in blocks.clone().step_by(STRIPE) {
                let mut masks = [[u64::MAX; BLOCK / 64]; STRIPE];
                let masks = &mut masks[..STRIPE.min(blocks.end - from)];
                keep_all(&conditions, from, masks, &mut room);
                for (block, mask) in (from..).zip(masks) {
                    let first = chunk_start + block * BLOCK;
                    // Blocks are compared as a whole, also the padding of the last one, which may match.
                    clip(mask, first, &rows);
                    if !is_empty(mask) {
                        each(Found::Some(first, mask));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the conditions with their columns, except those that are always true.
    fn conditions<'a>(
        &'a self,
        predicates: &'a [(usize, CodePredicate)],
    ) -> Result<Vec<(&'a Column, &'a CodePredicate)>> {
        let mut columns = Vec::with_capacity(predicates.len());
        let conditions = predicates
            .iter()
            .filter(|(_, predicate)| *predicate != CodePredicate::Any);
        for (column, predicate) in conditions {
            let column = self.column(*column);
            column.codes()?;
            columns.push((column, predicate));
        }
        Ok(columns)
    }
}

/// Clears the bits of rows that do not match all conditions, of a stripe of blocks from one on.
fn keep_all(conditions: &Conditions<'_>, from: usize, masks: &mut [BlockMask], room: &mut [u64]) {
    for (number, (chunk, local)) in conditions.iter().enumerate() {
        // The first condition's next blocks come while others are compared.
        let next = conditions.first().filter(|_| number == 1).map(|(first, _)| first);
        keep(chunk, local, from, masks, next, room);
    }
}

/// Clears the bits of rows that do not match, of a stripe of blocks from one on. Blocks of the next stripe of
/// `next` are fetched meanwhile.
fn keep(
    chunk: &KeyChunk<'_>,
    local: &ChunkPredicate,
    from: usize,
    masks: &mut [BlockMask],
    next: Option<&KeyChunk<'_>>,
    room: &mut [u64],
) {
    let Some(first) = masks.iter().position(|mask| !is_empty(mask)) else {
        return;
    };
    let last = masks.iter().rposition(|mask| !is_empty(mask)).unwrap_or(first);
    chunk.report(from + first..from + last + 1);
    for (block, mask) in (from..).zip(masks) {
        if let Some(next) = next {
            next.prefetch(block + STRIPE);
        }
        if !is_empty(mask) {
            chunk.apply(local, block, room, mask);
        }
    }
}

/// Returns true if no row is kept.
pub(crate) fn is_empty(mask: &BlockMask) -> bool {
    // In one go: no branch for each word.
    mask.iter().fold(0, |all, word| all | word) == 0
}

/// The conditions on a chunk, the most selective first.
type Conditions<'a> = Vec<(KeyChunk<'a>, ChunkPredicate)>;

/// Returns the conditions that the zone maps of chunk `number` leave undecided, the most selective first;
/// `None` if no row can match.
fn localise<'a>(columns: &[(&'a Column, &CodePredicate)], number: usize) -> Result<Option<Conditions<'a>>> {
    let mut conditions = Vec::with_capacity(columns.len());
    for (column, predicate) in columns {
        let space = column.codes()?;
        let chunk = column.packed(number)?;
        let zone = if chunk.entry.nulls == chunk.entry.rows {
            (0, 0)
        } else {
            (space.code(chunk.entry.min), space.code(chunk.entry.max))
        };
        let shift = chunk.key_base().wrapping_add(space.key_to_code());
        let local = ChunkPredicate::new(predicate, chunk.entry, shift, zone);
        // The share is one of values, so it is estimated before these may become positions.
        let selectivity = local.selectivity(chunk.entry);
        match chunk.translate(local) {
            ChunkPredicate::Nothing => return Ok(None),
            ChunkPredicate::All => {}
            local => conditions.push((selectivity, (chunk, local))),
        }
    }
    conditions.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    Ok(Some(
        conditions.into_iter().map(|(_, condition)| condition).collect(),
    ))
}

/// Clears the bits of rows outside of `rows`; bit 0 is row `first`.
pub(crate) fn clip(mask: &mut BlockMask, first: usize, rows: &Range<usize>) {
    if rows.start <= first && first + BLOCK <= rows.end {
        return;
    }
    for (word, bits) in mask.iter_mut().enumerate() {
        let from = rows.start.saturating_sub(first + word * 64).min(64);
        let to = rows.end.saturating_sub(first + word * 64).min(64);
        let below = |n: usize| if n == 64 { u64::MAX } else { (1 << n) - 1 };
        *bits &= below(to) & !below(from);
    }
}

/// Makes a bitmap of blocks that come in order, one container (64 blocks) at a time.
#[derive(Default)]
struct Collector {
    bitmap: RoaringBitmap,
    /// Bits of the container at hand; empty if it has none so far.
    bits: Vec<u64>,
    container: usize,
}

impl Collector {
    fn add_block(&mut self, first: usize, mask: &BlockMask) {
        let container = first / CONTAINER;
        if container != self.container {
            self.flush();
            self.container = container;
        }
        self.bits.resize(CONTAINER / 64, 0);
        self.bits[first % CONTAINER / 64..][..mask.len()].copy_from_slice(mask);
    }

    fn add_range(&mut self, rows: Range<usize>) {
        self.flush();
        // Row ids fit 32 bits: a segment has at most 2^31 rows.
        self.bitmap.insert_range(rows.start as u32..rows.end as u32);
    }

    fn flush(&mut self) {
        if !self.bits.is_empty() {
            let first = (self.container * CONTAINER) as u32;
            let mut found = RoaringBitmap::from_lsb0_bytes(first, self.bits.as_bytes());
            // The library (0.11.5) keeps exactly this number of rows as a bitmap here. Its format takes them
            // for an array, so that they would be read back as other rows.
            if found.len() == ARRAY_ROWS {
                found = found.iter().collect();
            }
            self.bitmap |= found;
            self.bits.clear();
        }
    }

    fn finish(mut self) -> RoaringBitmap {
        self.flush();
        self.bitmap
    }
}

/// The most rows that a container of a roaring bitmap stores as an array.
const ARRAY_ROWS: u64 = 4096;

/// Rows of a container of a roaring bitmap.
const CONTAINER: usize = 1 << 16;
