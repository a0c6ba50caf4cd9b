//! Inputs of the cost model about a segment and an index: selectivities of predicates, rows that
//! zone maps leave, and bits of codes. The formulas are in [`halocline_costs::access`].

use halocline_columns::{BLOCK_ROWS, CodePredicate, CodeSpace, Segment, StringPredicate};
use halocline_costs::access::index::SegmentSelection;
use halocline_costs::access::scan::{self, ComparedColumn, ScannedChunks};
use halocline_costs::cardinality::codes;
use halocline_elf::Estimate;

/// Returns the selection through the index of a segment that has this estimate. The index takes `bytes`
/// bytes; in a clustered one, matching rows are adjacent in the table.
pub fn segment_selection(estimate: Estimate, is_clustered: bool, bytes: u64) -> SegmentSelection {
    SegmentSelection {
        rows: estimate.rows,
        lists: estimate.lists,
        ranges: estimate.ranges,
        is_clustered,
        bytes: bytes as f64,
    }
}

/// Estimates the share of the rows of a column that a predicate matches, assuming uniformly distributed
/// values.
pub(super) fn selectivity(predicate: &CodePredicate, space: &CodeSpace) -> f64 {
    let values = space.distinct_estimate() + u64::from(space.has_null());
    match predicate {
        CodePredicate::Any => 1.0,
        CodePredicate::Range { lo, hi } if lo == hi => codes::equal(values),
        CodePredicate::Range { lo, hi } => codes::range(*lo, *hi, space.max_code(), values),
        CodePredicate::Set(members) => codes::set(members.len(), values),
        CodePredicate::Nothing => 0.0,
    }
}

/// Estimates the shares of the rows of a segment that match the predicates, by column. The predicates on one
/// column are intersected: those of a range have two.
fn column_shares(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> Vec<(usize, f64)> {
    let of_column = |(at, (column, first)): (usize, &(usize, CodePredicate))| {
        let same = |(other, _): &&(usize, CodePredicate)| other == column;
        let space = segment.column(*column).code_space()?;
        if predicates[..at].iter().any(|(other, _)| other == column) {
            return None;
        }
        let rest = predicates[at + 1..].iter().filter(same);
        let merged = rest.fold(first.clone(), |merged, (_, predicate)| merged.and(predicate));
        Some((*column, selectivity(&merged, space)))
    };
    predicates.iter().enumerate().filter_map(of_column).collect()
}

/// Estimates the share of the rows of a segment that match all predicates, assuming independent columns.
pub(super) fn kernel_selectivity(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> f64 {
    column_shares(segment, predicates)
        .into_iter()
        .map(|(_, share)| share)
        .product()
}

/// Estimates the share of the rows of a segment whose strings match, assuming independent columns.
pub(super) fn string_selectivity(segment: &Segment, predicates: &[(usize, StringPredicate)]) -> f64 {
    let of_column =
        |(column, predicate): &(usize, StringPredicate)| segment.column(*column).estimated_share(predicate);
    predicates.iter().map(of_column).product()
}

/// Returns the number of rows in chunks that the zone maps do not rule out, and the number of chunks.
pub(super) fn surviving_rows(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> (usize, usize) {
    let Some((first, _)) = predicates.first() else {
        return (segment.rows(), 0);
    };
    let column = segment.column(*first);
    let (chunks, chunk_rows) = (column.chunks(), column.chunk_rows());
    let survives = |chunk: usize| {
        predicates.iter().all(|(column, predicate)| {
            match (segment.column(*column).zone(chunk), predicate.bounds()) {
                (Ok((low, high)), Some((lo, hi))) => lo <= high && low <= hi,
                (_, None) => false,
                (Err(_), _) => true,
            }
        })
    };
    let rows = (0..chunks)
        .filter(|chunk| survives(*chunk))
        .map(|c| chunk_rows.min(segment.rows() - c * chunk_rows))
        .sum();
    (rows, chunks)
}

/// Estimates the nanoseconds to locate rows by scanning a segment.
pub(super) fn scan_rows(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> f64 {
    let (rows, chunks) = surviving_rows(segment, predicates);
    let scanned = ScannedChunks {
        rows,
        chunks,
        block_rows: BLOCK_ROWS,
    };
    let compared = |(column, share): (usize, f64)| ComparedColumn {
        share,
        bits: code_bits(segment, column).unwrap_or(u64::BITS),
    };
    let columns = column_shares(segment, predicates).into_iter().map(compared);
    scan::locate(scanned, columns.collect())
}

/// Estimates the nanoseconds to fetch columns of `rows` rows of a segment that a scan finds.
pub(super) fn fetch(segment: &Segment, columns: impl Iterator<Item = usize>, rows: f64) -> f64 {
    let columns = columns.map(|column| code_bits(segment, column));
    scan::fetch(columns, rows, segment.rows())
}

/// Estimates the nanoseconds to fetch columns of `rows` rows of a segment that an index finds. The share
/// `adjacent` of these rows directly follows the row before it.
pub(super) fn fetch_located(
    segment: &Segment,
    columns: impl Iterator<Item = usize>,
    rows: f64,
    adjacent: f64,
) -> f64 {
    let columns = columns.map(|column| code_bits(segment, column));
    scan::fetch_located(columns, rows, segment.rows(), adjacent)
}

/// Returns the bits of a code of a column; `None` if its values have no codes.
fn code_bits(segment: &Segment, column: usize) -> Option<u32> {
    segment.column(column).code_bits().ok()
}
