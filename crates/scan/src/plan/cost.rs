//! The cost model of the access paths, with all of its constants.

use halocline_catalog::filter::both;
use halocline_columns::{BLOCK_ROWS, CodePredicate, CodeSpace, Segment, StringPredicate};
use halocline_elf::Estimate;

/// Costs in nanoseconds on one thread of a 2-core x86 machine, TPC-H lineitem in the page cache. The bench
/// `access_paths` compares the choice with both paths; `halocline bench elf-selections` reports the estimated
/// number of lists next to the time a selection took. Only the ratios matter.
pub(super) mod nanoseconds {
    /// Per code compared by a scan kernel, for codes of at most 8, 16, 32 and 64 bits.
    pub(crate) const SCAN_CODE: [f64; 4] = [0.16, 0.25, 0.45, 0.9];
    /// Per chunk whose zone decides it.
    pub(crate) const ZONE: f64 = 20.0;
    /// Per packed value of a block that is read as a whole, and per row of the block, selected or not.
    pub(crate) const BLOCK_VALUE: (f64, f64) = (0.6, 0.6);
    /// Per packed value that is read alone, by a scan that comes by.
    pub(crate) const SINGLE_VALUE: f64 = 14.0;
    /// Per access to a line of DRAM out of order, if it is in the last-level cache and if it is not.
    pub(crate) const LINE: (f64, f64) = (25.0, 220.0);
    /// Packed values of a line.
    pub(crate) const LINE_VALUES: f64 = 32.0;
    /// Per value of compressed bytes: of adjacent and of distant rows.
    pub(crate) const BYTES_VALUE: (f64, f64) = (35.0, 350.0);
    /// Per string without a code that is compared with a condition.
    pub(crate) const SCAN_STRING: f64 = 6.0;
    /// Per list that a selection visits, and the share of lists that lie apart from the one before.
    pub(crate) const ELF_LIST: (f64, f64) = (15.0, 0.3);
    /// Per row that a selection yields, including the sort.
    pub(crate) const ELF_ROW: f64 = 16.0;
    /// Per range of rows that a selection through a clustered index yields.
    pub(crate) const ELF_RANGE: f64 = 20.0;
    /// Per selection.
    pub(crate) const ELF_START: f64 = 1_000.0;
    /// Per aggregate over the rows that an index finds: DataFusion's operators.
    pub(crate) const AGGREGATE: f64 = 120_000.0;
}

/// Bytes of the last-level cache that a query is assumed to have.
const CACHE_BYTES: f64 = (16 << 20) as f64;

/// A selection through the index of a segment.
#[derive(Debug, Clone, Copy)]
pub struct SegmentSelection {
    /// The estimate of the index.
    pub estimate: Estimate,
    /// True if rows that are found together lie together.
    pub is_clustered: bool,
    /// Size of the index in bytes.
    pub bytes: f64,
}

/// Estimates the share of the rows of a column that a predicate matches, assuming uniformly distributed
/// values.
pub(super) fn selectivity(predicate: &CodePredicate, space: &CodeSpace) -> f64 {
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
        let merged = rest.fold(first.clone(), |merged, (_, predicate)| {
            both(&merged, predicate, space.max_code()).unwrap_or(merged)
        });
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

/// Estimates the cost of locating rows by scanning a segment: the most selective column is compared first,
/// the others in blocks that have rows left.
pub(super) fn scan_rows(segment: &Segment, predicates: &[(usize, CodePredicate)]) -> f64 {
    let (rows, chunks) = surviving_rows(segment, predicates);
    let mut columns = column_shares(segment, predicates);
    columns.sort_by(|(_, left), (_, right)| left.total_cmp(right));
    let (mut cost, mut left) = (0.0, 1.0_f64);
    for (column, share) in columns {
        let blocks = 1.0 - (1.0 - left.min(1.0)).powf(BLOCK_ROWS as f64);
        cost += rows as f64 * blocks * scan_code(segment, column);
        left *= share;
    }
    cost + chunks as f64 * nanoseconds::ZONE
}

/// Returns the cost of comparing a code of a column.
fn scan_code(segment: &Segment, column: usize) -> f64 {
    let bits = segment.column(column).code_bits().unwrap_or(u64::BITS);
    let [byte, two, four, eight] = nanoseconds::SCAN_CODE;
    match bits {
        0..=8 => byte,
        9..=16 => two,
        17..=32 => four,
        _ => eight,
    }
}

/// Estimates the cost of fetching columns of `rows` rows of a segment that a scan finds.
pub(super) fn fetch(segment: &Segment, columns: impl Iterator<Item = usize>, rows: f64) -> f64 {
    let density = density(segment, rows);
    values(segment, columns, density, nanoseconds::SINGLE_VALUE) * rows
}

/// Estimates the cost of fetching columns of `rows` rows of a segment that an index finds. The share
/// `adjacent` of these rows directly follows the row before it.
pub(super) fn fetch_located(
    segment: &Segment,
    columns: impl Iterator<Item = usize>,
    rows: f64,
    adjacent: f64,
) -> f64 {
    let density = density(segment, rows).max(adjacent);
    // Several values of a line are one access.
    let alone = (1.0 - density * nanoseconds::LINE_VALUES).max(0.0);
    let cost = |column: usize| {
        let bits = segment.column(column).code_bits().unwrap_or(u64::BITS);
        let bytes = segment.rows() as f64 * f64::from(bits) / 8.0;
        let single = nanoseconds::SINGLE_VALUE + line(bytes) * alone;
        values(segment, std::iter::once(column), density, single)
    };
    columns.map(cost).sum::<f64>() * rows
}

/// Returns the cost of an access out of order to something of this size.
fn line(bytes: f64) -> f64 {
    let (cached, uncached) = nanoseconds::LINE;
    let share = (CACHE_BYTES / bytes.max(1.0)).min(1.0);
    cached * share + uncached * (1.0 - share)
}

fn density(segment: &Segment, rows: f64) -> f64 {
    (rows / segment.rows().max(1) as f64).min(1.0)
}

/// Returns the cost of a value of each column, for rows of this density and the cost of a packed value that
/// is read alone.
fn values(segment: &Segment, columns: impl Iterator<Item = usize>, density: f64, single: f64) -> f64 {
    let (value, place) = nanoseconds::BLOCK_VALUE;
    let packed = (value + place / density.max(f64::MIN_POSITIVE)).min(single);
    let (next, single) = nanoseconds::BYTES_VALUE;
    let bytes = single + (next - single) * density;
    let cost = |column: usize| match segment.column(column).code_space() {
        Some(_) => packed,
        None => bytes,
    };
    columns.map(cost).sum()
}

/// Estimates the cost of a selection through an index, or of counting its rows.
pub(super) fn elf(selection: SegmentSelection, counts: bool) -> f64 {
    let estimate = selection.estimate;
    let yielded = match (counts, selection.is_clustered) {
        (true, _) => 0.0,
        (false, true) => estimate.ranges * nanoseconds::ELF_RANGE,
        (false, false) => estimate.rows * nanoseconds::ELF_ROW,
    };
    let (list, apart) = nanoseconds::ELF_LIST;
    let list = list + apart * line(selection.bytes);
    nanoseconds::ELF_START + estimate.lists * list + yielded
}

/// Estimates the share of the rows of a selection that directly follow the row before them.
pub(super) fn adjacent_share(estimate: Estimate) -> f64 {
    if estimate.rows > 0.0 {
        (1.0 - estimate.ranges / estimate.rows).max(0.0)
    } else {
        0.0
    }
}
