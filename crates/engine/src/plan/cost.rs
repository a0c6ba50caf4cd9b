//! What the ways to the rows cost. All constants are here.

use halocline_columns::{CodePredicate, CodeSpace, Segment};
use halocline_elf::Estimate;

/// Costs in nanoseconds on one thread of a 2-core x86 machine, TPC-H lineitem in the page cache. Lists are those that
/// `halocline bench elf-selections` reports as estimated beside the time they took. Only the ratios matter.
pub(crate) mod nanoseconds {
    /// Per code compared by a scan kernel (0.2 for narrow codes, 0.7 for wide ones).
    pub(crate) const SCAN_CODE: f64 = 0.5;
    /// Per chunk whose zone decides it.
    pub(crate) const ZONE: f64 = 20.0;
    /// Per value of neighbouring rows: packed, and as compressed bytes.
    pub(crate) const SCAN_VALUE: (f64, f64) = (1.0, 35.0);
    /// Per value of rows far apart: packed, and as compressed bytes.
    pub(crate) const FETCH_VALUE: (f64, f64) = (12.0, 75.0);
    /// Per list that a selection visits.
    pub(crate) const ELF_LIST: f64 = 12.0;
    /// Per row that a selection yields, brought into order.
    pub(crate) const ELF_ROW: f64 = 5.0;
    /// Per range of rows that a selection through a clustered index yields.
    pub(crate) const ELF_RANGE: f64 = 20.0;
    /// Per selection.
    pub(crate) const ELF_START: f64 = 2_000.0;
}

/// The share of a column's rows that a predicate matches, if values were equally frequent and independent.
pub(crate) fn share(predicate: &CodePredicate, space: &CodeSpace) -> f64 {
    let codes = space.max_code() as f64 + 1.0;
    let values = (space.distinct_estimate() + u64::from(space.has_null())).max(1) as f64;
    let share = match predicate {
        CodePredicate::Any => 1.0,
        CodePredicate::Equal(_) => 1.0 / values,
        // Codes may be sparse: a range that is not empty was asked for because of a value in it.
        CodePredicate::Range { lo, hi } => {
            ((hi.min(&space.max_code()).saturating_sub(*lo) as f64 + 1.0) / codes).max(1.0 / values)
        }
        CodePredicate::Set(codes) => codes.len() as f64 / values,
        CodePredicate::Nothing => 0.0,
    };
    share.min(1.0)
}

/// The share of a segment's rows that match all predicates, if values were independent.
pub(crate) fn kernel_share(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> f64 {
    let share = |(column, predicate): &(usize, CodePredicate)| {
        segment
            .column(*column)
            .code_space()
            .map_or(1.0, |space| share(predicate, space))
    };
    predicates.iter().map(share).product()
}

/// The number of rows in chunks that the zone maps do not rule out, and the number of chunks.
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

/// Cost of finding rows by scanning a segment.
pub(crate) fn scan_rows(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> f64 {
    let (rows, chunks) = surviving_rows(segment, predicates);
    // A kernel looks only at rows that its predecessors left; as a rule it looks at whole blocks, so count them all.
    rows as f64 * predicates.len() as f64 * nanoseconds::SCAN_CODE + chunks as f64 * nanoseconds::ZONE
}

/// Cost of fetching columns of `rows` rows of a segment, found in sorted order, of which a share of `beside` follows the row
/// before it.
pub(crate) fn fetch(segment: &Segment, columns: impl Iterator<Item = usize>, rows: f64, beside: f64) -> f64 {
    let density = (rows / (segment.rows().max(1) as f64)).min(1.0).max(beside);
    let value = |column: usize| {
        let of = |(packed, bytes): (f64, f64)| {
            if segment.column(column).code_space().is_some() {
                packed
            } else {
                bytes
            }
        };
        // Neighbours share a block of codes: the denser, the closer to a scan.
        let (single, next) = (of(nanoseconds::FETCH_VALUE), of(nanoseconds::SCAN_VALUE));
        single + (next - single) * density
    };
    columns.map(value).sum::<f64>() * rows
}

/// Cost of a selection through an index.
pub(crate) fn elf(estimate: Estimate, clustered: bool) -> f64 {
    let yielded = if clustered {
        estimate.ranges * nanoseconds::ELF_RANGE
    } else {
        estimate.rows * nanoseconds::ELF_ROW
    };
    nanoseconds::ELF_START + estimate.lists * nanoseconds::ELF_LIST + yielded
}

/// The share of the rows a selection yields that follow the row before them.
pub(crate) fn beside(estimate: Estimate) -> f64 {
    if estimate.rows > 0.0 {
        (1.0 - estimate.ranges / estimate.rows).max(0.0)
    } else {
        0.0
    }
}
