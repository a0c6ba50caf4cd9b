//! Selections through a clustered index: ranges of rows, so that other columns are read from front to back.

use std::ops::Range;

use datafusion::error::Result;
use halocline_columns::{CodePredicate, RowId, Segment};
use halocline_elf::Selection;
use halocline_pool::ExtentBytes;
use roaring::RoaringBitmap;

use super::spec::{ScanSpec, external};
use super::worker::{PendingRows, keep, span};

/// Average number of rows per range from which ranges are scanned rather than their rows fetched. A scan
/// unpacks the blocks of codes of each range anew: with 5 rows per range it takes three times as long as a
/// fetch, with 22 as long.
const WIDE: usize = 32;

/// Locates the rows of a segment that a selection through a clustered index yields and that match the
/// kernels' predicates.
pub(super) fn select_ranges(
    spec: &ScanSpec,
    number: usize,
    selection: &Selection<'_, ExtentBytes>,
) -> Result<PendingRows> {
    let (segment, kernels) = (&spec.open.table.segments()[number], &spec.kernels[number]);
    let mut ranges = Vec::new();
    selection
        .ranges(|rows| ranges.push(rows.start as usize..rows.end as usize))
        .map_err(external)?;
    if let Some(deleted) = segment.deletions().map_err(external)? {
        ranges = without(&ranges, deleted);
    }
    let count: usize = ranges.iter().map(Range::len).sum();
    let wide = count >= ranges.len() * WIDE;
    if kernels.is_empty() && spec.counts_only() {
        return Ok(PendingRows::Counted(count));
    }
    if kernels.is_empty() && wide {
        return Ok(PendingRows::Ranges(number, ranges, 0));
    }
    let rows = match kernels.as_slice() {
        [] => rows_of(&ranges),
        _ if wide => scan_each(segment, kernels, ranges)?,
        _ => keep(segment, kernels, rows_of(&ranges))?,
    };
    Ok(if spec.counts_only() {
        PendingRows::Counted(rows.len())
    } else {
        PendingRows::Rows(number, rows, 0)
    })
}

/// Returns the rows of ascending ranges that match all conditions.
fn scan_each(
    segment: &Segment,
    kernels: &[(usize, CodePredicate)],
    ranges: Vec<Range<usize>>,
) -> Result<Vec<RowId>> {
    let mut rows = Vec::new();
    for range in ranges {
        rows.extend(segment.select(kernels, range).map_err(external)?);
    }
    Ok(rows)
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
pub(super) fn rows_of(ranges: &[Range<usize>]) -> Vec<RowId> {
    ranges.iter().flat_map(span).collect()
}

/// Takes up to `rows` rows from the ranges that start at `from`, and moves `from` and the start of that range
/// behind them.
pub(super) fn take_rows(ranges: &mut [Range<usize>], from: &mut usize, rows: usize) -> Vec<Range<usize>> {
    let (mut taken, mut missing) = (Vec::new(), rows);
    while let Some(range) = ranges.get_mut(*from).filter(|_| missing > 0) {
        let end = range.end.min(range.start + missing);
        taken.push(range.start..end);
        missing -= end - range.start;
        range.start = end;
        *from += usize::from(range.start == range.end);
    }
    taken
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

    #[test]
    fn ranges_are_taken_batch_by_batch() {
        for size in 1..12 {
            let mut ranges = vec![2..5, 7..8, 10..17];
            let (mut from, mut rows) = (0, Vec::new());
            while from < ranges.len() {
                let taken = rows_of(&take_rows(&mut ranges, &mut from, size));
                assert!(taken.len() == size || from == ranges.len());
                rows.extend(taken);
            }
            assert_eq!(rows, [2, 3, 4, 7, 10, 11, 12, 13, 14, 15, 16]);
        }
    }
}
