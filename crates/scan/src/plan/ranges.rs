//! Selections through a clustered index: ranges of rows, which are read block by block if they are long.

use std::ops::Range;

use datafusion::error::Result;
use halocline_columns::{RowId, RowSelection};
use halocline_elf::Selection;
use halocline_pool::ExtentBytes;
use halocline_sql::error::external;
use roaring::RoaringBitmap;

use super::found_rows::{keep, span};
use super::spec::ScanSpec;
use super::worker::PendingRows;

/// Average number of rows per range from which blocks of rows are read rather than their rows fetched: ranges
/// of less than this share few blocks.
const MIN_BLOCK_READ_ROWS: usize = 32;

/// Locates the rows of a segment that a selection through a clustered index yields and that match the
/// kernels' predicates.
pub(super) fn select_ranges(
    spec: &ScanSpec,
    number: usize,
    selection: &Selection<'_, ExtentBytes>,
) -> Result<PendingRows> {
    let (segment, kernels) = (&spec.open.table.segments()[number], &spec.kernels[number]);
    let ranges = live_ranges(selection, segment.deletions().map_err(external)?)?;
    let count: usize = ranges.iter().map(Range::len).sum();
    let all_match = kernels.is_empty() && !segment.has_string_conditions();
    if all_match && spec.counts_only() {
        return Ok(PendingRows::Counted(count));
    }
    if count < ranges.len() * MIN_BLOCK_READ_ROWS {
        let mut rows = rows_of(&ranges);
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
    let mut selected = of_ranges(ranges);
    segment.filter(kernels, &mut selected).map_err(external)?;
    Ok(if spec.counts_only() {
        PendingRows::Counted(selected.len())
    } else {
        PendingRows::Selected(number, selected)
    })
}

/// Returns the rows of a selection through a clustered index.
///
/// # Errors
/// The index cannot be read.
pub(super) fn selected_ranges(
    selection: &Selection<'_, ExtentBytes>,
    deleted: Option<&RoaringBitmap>,
) -> Result<RowSelection> {
    live_ranges(selection, deleted).map(of_ranges)
}

fn of_ranges(ranges: Vec<Range<usize>>) -> RowSelection {
    let mut selected = RowSelection::default();
    ranges.into_iter().for_each(|rows| selected.add_range(rows));
    selected
}

/// Returns the ranges of a selection without the deleted rows.
fn live_ranges(
    selection: &Selection<'_, ExtentBytes>,
    deleted: Option<&RoaringBitmap>,
) -> Result<Vec<Range<usize>>> {
    let mut ranges = Vec::new();
    selection
        .ranges(|rows| ranges.push(rows.start as usize..rows.end as usize))
        .map_err(external)?;
    Ok(match deleted {
        Some(deleted) => without(&ranges, deleted),
        None => ranges,
    })
}

/// Returns the ranges without the deleted rows.
fn without(ranges: &[Range<usize>], deleted: &RoaringBitmap) -> Vec<Range<usize>> {
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        for row in deleted.range(span(range)) {
            left.push(start..row as usize);
            start = row as usize + 1;
        }
        left.push(start..range.end);
    }
    left.retain(|range| !range.is_empty());
    left
}

/// Returns all rows of the ranges.
fn rows_of(ranges: &[Range<usize>]) -> Vec<RowId> {
    ranges.iter().flat_map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_rows_cut_ranges() {
        let deleted: RoaringBitmap = [0, 5, 6, 9, 12, 20, 21].into_iter().collect();
        let left = without(&[0..1, 3..10, 12..14, 15..18, 20..22], &deleted);
        assert_eq!(left, [3..5, 7..9, 13..14, 15..18]);
        assert_eq!(rows_of(&left), [3, 4, 7, 8, 13, 15, 16, 17]);
    }
}
