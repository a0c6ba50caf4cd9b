//! Rows of a segment that an index found, in no particular order: without those that are deleted or do not
//! match the other conditions.
//!
//! Rows of which a block has several are marked in masks of blocks, compared and decoded with their blocks,
//! as a scan does. Fewer are sorted, and their values read one by one.

use std::ops::Range;

use datafusion::error::Result;
use halocline_columns::{BLOCK_ROWS, BlockMask, Code, CodePredicate, Column, RowId, RowSelection, Segment};
use halocline_sql::error::external;
use roaring::RoaringBitmap;

use super::spec::ScanSpec;
use super::worker::PendingRows;

/// Rows of a segment for each found one from which on values are read one by one.
const SPARSE_ROWS_PER_MATCH: usize = 256;

/// Rows of a block from which on all of its codes are compared, instead of those of the rows.
const MIN_COMPARED_ROWS: usize = 6;

/// Rows of a segment for each found one up to which these are marked in masks of all blocks, instead of
/// sorted.
const MAX_MARKED_ROWS_PER_MATCH: usize = 4_096;

/// Returns those of the found rows of a segment that are not deleted and match the conditions of the kernels
/// and on strings.
///
/// # Errors
/// A column with a condition cannot be read.
pub(super) fn matching(spec: &ScanSpec, number: usize, mut rows: Vec<RowId>) -> Result<PendingRows> {
    let (segment, kernels) = (&spec.open.table.segments()[number], &spec.kernels[number]);
    let deleted = segment.deletions().map_err(external)?;
    let all_match = kernels.is_empty() && !segment.has_string_conditions();
    // Few rows are read one by one, in their order, so that each block is visited once.
    if rows.len() < segment.rows() / SPARSE_ROWS_PER_MATCH {
        rows.sort_unstable();
        // Deleted rows are dropped first, since conditions have to read columns.
        if let Some(deleted) = deleted {
            rows.retain(|row| !deleted.contains(*row));
        }
        if !all_match {
            spec.ask_for(number, &rows);
            rows = keep(segment, kernels, rows)?;
        }
        return Ok(if spec.counts_only() {
            PendingRows::Counted(rows.len())
        } else {
            PendingRows::Rows(number, rows, 0)
        });
    }
    let mut selection = as_selection(rows, segment.rows(), deleted);
    if !all_match {
        segment.filter(kernels, &mut selection).map_err(external)?;
    }
    Ok(if spec.counts_only() {
        PendingRows::Counted(selection.len())
    } else {
        PendingRows::Selected(number, selection)
    })
}

/// Returns the sorted rows that match all conditions, also those of the segment on strings. Deleted rows are
/// not looked at.
///
/// # Errors
/// A column with a condition cannot be read.
pub(super) fn keep(
    segment: &Segment,
    kernels: &[(usize, CodePredicate)],
    mut rows: Vec<RowId>,
) -> Result<Vec<RowId>> {
    let blocks = rows.chunk_by(|left, right| block(*left) == block(*right)).count();
    if !rows.is_empty() && rows.len() >= blocks * MIN_COMPARED_ROWS {
        let mut selection = selection_of(&rows);
        segment.filter(kernels, &mut selection).map_err(external)?;
        return Ok(selection.rows().collect());
    }
    for (number, predicate) in kernels {
        let column = segment.column(*number);
        rows = if column.code_bits().map_err(external)? <= u32::BITS {
            keep_codes::<u32>(segment, column, predicate, &rows)?
        } else {
            keep_codes::<u64>(segment, column, predicate, &rows)?
        };
    }
    if segment.has_string_conditions() && !rows.is_empty() {
        let mut selection = selection_of(&rows);
        segment.filter(&[], &mut selection).map_err(external)?;
        return Ok(selection.rows().collect());
    }
    Ok(rows)
}

/// Keeps the selected rows that match all conditions, as [`keep`] does.
///
/// # Errors
/// A column with a condition cannot be read.
pub(super) fn keep_selected(
    segment: &Segment,
    kernels: &[(usize, CodePredicate)],
    selection: &mut RowSelection,
) -> Result<()> {
    if selection.len() >= selection.blocks() * MIN_COMPARED_ROWS {
        return segment.filter(kernels, selection).map_err(external);
    }
    *selection = selection_of(&keep(segment, kernels, selection.rows().collect())?);
    Ok(())
}

/// Returns the sorted rows whose codes match, each read on its own.
fn keep_codes<C: Code>(
    segment: &Segment,
    column: &Column,
    predicate: &CodePredicate,
    rows: &[RowId],
) -> Result<Vec<RowId>> {
    let mut reader = column.code_reader::<C>().map_err(external)?;
    let (mut places, mut codes) = (Vec::new(), Vec::new());
    let mut kept = Vec::with_capacity(rows.len());
    for of_block in rows.chunk_by(|left, right| block(*left) == block(*right)) {
        let first = block(of_block[0]) * BLOCK_ROWS;
        let (chunk, within) = (first / segment.chunk_rows(), first % segment.chunk_rows());
        places.clear();
        places.extend(of_block.iter().map(|row| (*row as usize - first) as u16));
        codes.resize(places.len(), C::default());
        reader
            .read_rows(chunk, within / BLOCK_ROWS, &places, &mut codes)
            .map_err(external)?;
        let pairs = of_block.iter().zip(&codes);
        kept.extend(
            pairs
                .filter(|(_, code)| predicate.matches(code.number()))
                .map(|(row, _)| *row),
        );
    }
    Ok(kept)
}

/// Returns distinct rows below `of`, but for deleted ones, as a selection.
pub(super) fn as_selection(mut rows: Vec<RowId>, of: usize, deleted: Option<&RoaringBitmap>) -> RowSelection {
    if rows.len() >= of / MAX_MARKED_ROWS_PER_MATCH {
        return marked(&rows, of, deleted);
    }
    rows.sort_unstable();
    if let Some(deleted) = deleted {
        rows.retain(|row| !deleted.contains(*row));
    }
    selection_of(&rows)
}

fn marked(rows: &[RowId], of: usize, deleted: Option<&RoaringBitmap>) -> RowSelection {
    let mut masks: Vec<BlockMask> = vec![BlockMask::default(); of.div_ceil(BLOCK_ROWS)];
    let bit = |row: RowId| (row as usize % BLOCK_ROWS / 64, 1 << (row % 64));
    for row in rows {
        let (word, bit) = bit(*row);
        masks[block(*row)][word] |= bit;
    }
    for row in deleted.into_iter().flatten() {
        let (word, bit) = bit(row);
        masks[block(row)][word] &= !bit;
    }
    let mut selection = RowSelection::default();
    for (number, mask) in masks.iter().enumerate() {
        selection.add_block(number * BLOCK_ROWS, mask);
    }
    selection
}

/// Returns sorted rows as a selection.
fn selection_of(rows: &[RowId]) -> RowSelection {
    let mut selection = RowSelection::default();
    for of_block in rows.chunk_by(|left, right| block(*left) == block(*right)) {
        let mut mask = BlockMask::default();
        for row in of_block {
            let bit = *row as usize % BLOCK_ROWS;
            mask[bit / 64] |= 1 << (bit % 64);
        }
        selection.add_block(block(of_block[0]) * BLOCK_ROWS, &mask);
    }
    selection
}

/// Returns the number of the block of a row.
fn block(row: RowId) -> usize {
    row as usize / BLOCK_ROWS
}

/// Converts a range of rows to row numbers.
pub(super) fn span(rows: &Range<usize>) -> Range<RowId> {
    rows.start as RowId..rows.end as RowId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_marked_in_any_order() {
        let rows = [5000, 3, 1023, 1024, 4999, 2048];
        let deleted: RoaringBitmap = [3, 7, 2048].into_iter().collect();
        let all = marked(&rows, 5001, None);
        assert_eq!(all.rows().collect::<Vec<_>>(), [3, 1023, 1024, 2048, 4999, 5000]);
        for of in [5001, 50_000_000] {
            let live = as_selection(rows.to_vec(), of, Some(&deleted));
            assert_eq!(live.rows().collect::<Vec<_>>(), [1023, 1024, 4999, 5000]);
            assert_eq!(live.len(), 4);
        }
    }
}
