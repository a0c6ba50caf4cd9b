//! The cost model of the access paths, with all of its constants.

use halocline_columns::{CodePredicate, CodeSpace, Segment, StringPredicate};
use halocline_elf::Estimate;

use crate::filter::both;

/// Costs in nanoseconds on one thread of a 2-core x86 machine, TPC-H lineitem in the page cache. `halocline
/// bench elf-selections` reports the estimated number of lists next to the time a selection took. Only the
/// ratios matter.
pub(crate) mod nanoseconds {
    /// Per code compared by a scan kernel (0.2 for narrow codes, 0.7 for wide ones).
    pub(crate) const SCAN_CODE: f64 = 0.5;
    /// Per chunk whose zone decides it.
    pub(crate) const ZONE: f64 = 20.0;
    /// Per value of adjacent rows: packed, and as compressed bytes.
    pub(crate) const SCAN_VALUE: (f64, f64) = (1.0, 35.0);
    /// Per string without a code that is compared with a condition.
    pub(crate) const SCAN_STRING: f64 = 6.0;
    /// Per value of distant rows: packed, and as compressed bytes.
    pub(crate) const FETCH_VALUE: (f64, f64) = (12.0, 75.0);
    /// Per list that a selection visits.
    pub(crate) const ELF_LIST: f64 = 12.0;
    /// Per row that a selection yields, including the sort.
    pub(crate) const ELF_ROW: f64 = 5.0;
    /// Per range of rows that a selection through a clustered index yields.
    pub(crate) const ELF_RANGE: f64 = 20.0;
    /// Per selection.
    pub(crate) const ELF_START: f64 = 2_000.0;
}

/// Estimates the share of the rows of a column that a predicate matches, assuming uniformly distributed
/// values.
pub(crate) fn selectivity(predicate: &CodePredicate, space: &CodeSpace) -> f64 {
    let codes = space.max_code() as f64 + 1.0;
    let values = (space.distinct_estimate() + u64::from(space.has_null())).max(1) as f64;
    let share = match predicate {
        CodePredicate::Any => 1.0,
        CodePredicate::Equal(_) => 1.0 / values,
        // Codes may be sparse. A non-empty range is assumed to contain at least one value.
        CodePredicate::Range { lo, hi } => {
            ((hi.min(&space.max_code()).saturating_sub(*lo) as f64 + 1.0) / codes).max(1.0 / values)
        }
        CodePredicate::Set(codes) => codes.len() as f64 / values,
        CodePredicate::Nothing => 0.0,
    };
    share.min(1.0)
}

/// Estimates the share of the rows of a segment that match all predicates, assuming independent columns. The
/// predicates on one column are intersected: those of a range have two.
pub(crate) fn kernel_selectivity(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> f64 {
    let of_column = |(at, (column, first)): (usize, &(usize, CodePredicate))| {
        let same = |(other, _): &&(usize, CodePredicate)| other == column;
        let space = segment.column(*column).code_space()?;
        if predicates[..at].iter().any(|(other, _)| other == column) {
            return None;
        }
        let rest = predicates[at + 1..].iter().filter(same);
        let merged = rest.fold(first.clone(), |merged, (_, predicate)| {
            both(&merged, predicate, space.max_code()).unwrap_or(merged)
        });
        Some(selectivity(&merged, space))
    };
    predicates.iter().enumerate().filter_map(of_column).product()
}

/// Estimates the share of the rows of a segment whose strings match, assuming independent columns.
pub(crate) fn string_selectivity(segment: &Segment, predicates: &[(usize, StringPredicate)]) -> f64 {
    let of_column =
        |(column, predicate): &(usize, StringPredicate)| segment.column(*column).estimated_share(predicate);
    predicates.iter().map(of_column).product()
}

/// Returns the number of rows in chunks that the zone maps do not rule out, and the number of chunks.
fn surviving_rows(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> (usize, usize) {
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

/// Estimates the cost of locating rows by scanning a segment.
pub(crate) fn scan_rows(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> f64 {
    let (rows, chunks) = surviving_rows(segment, predicates);
    // A kernel skips rows that its predecessors have ruled out, but mostly processes whole blocks, so all
    // rows count.
    rows as f64 * predicates.len() as f64 * nanoseconds::SCAN_CODE + chunks as f64 * nanoseconds::ZONE
}

/// Estimates the cost of fetching columns of `rows` sorted rows of a segment. The share `adjacent` of these
/// rows directly follows the row before it.
pub(crate) fn fetch(
    segment: &Segment,
    columns: impl Iterator<Item = usize>,
    rows: f64,
    adjacent: f64,
) -> f64 {
    let density = (rows / (segment.rows().max(1) as f64)).min(1.0).max(adjacent);
    let value = |column: usize| {
        let of = |(packed, bytes): (f64, f64)| {
            if segment.column(column).code_space().is_some() {
                packed
            } else {
                bytes
            }
        };
        // Adjacent rows share a block of codes: the denser the rows, the closer the cost to that of a scan.
        let (single, next) = (of(nanoseconds::FETCH_VALUE), of(nanoseconds::SCAN_VALUE));
        single + (next - single) * density
    };
    columns.map(value).sum::<f64>() * rows
}

/// Estimates the cost of a selection through an index.
pub(crate) fn elf(estimate: Estimate, clustered: bool) -> f64 {
    let yielded = if clustered {
        estimate.ranges * nanoseconds::ELF_RANGE
    } else {
        estimate.rows * nanoseconds::ELF_ROW
    };
    nanoseconds::ELF_START + estimate.lists * nanoseconds::ELF_LIST + yielded
}

/// Estimates the share of the rows of a selection that directly follow the row before them.
pub(crate) fn adjacent_share(estimate: Estimate) -> f64 {
    if estimate.rows > 0.0 {
        (1.0 - estimate.ranges / estimate.rows).max(0.0)
    } else {
        0.0
    }
}
