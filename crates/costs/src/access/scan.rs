//! The cost of a scan, and of fetching columns of rows, in nanoseconds of one thread.
//!
//! The most selective column is compared first, and the others in blocks that have rows left. A block is
//! decoded as a whole once enough of its rows are needed. Rows are assumed to be spread evenly, and columns
//! to be independent.

use crate::machine::nanoseconds;

/// A column that a scan compares with a predicate on codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparedColumn {
    /// Share of the rows that match.
    pub share: f64,
    /// Bits of a code.
    pub bits: u32,
}

/// The chunks of a segment that a scan has to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedChunks {
    /// Rows of the chunks that zone maps do not rule out.
    pub rows: usize,
    /// Number of chunks whose zone maps are read.
    pub chunks: usize,
    /// Rows of a block, which is compared as a whole.
    pub block_rows: usize,
}

/// Returns the cost of locating rows by comparing codes of these columns, given in any order.
pub fn locate(scanned: ScannedChunks, mut columns: Vec<ComparedColumn>) -> f64 {
    columns.sort_by(|left, right| left.share.total_cmp(&right.share));
    let (mut cost, mut left) = (0.0, 1.0_f64);
    for column in columns {
        let blocks = 1.0 - (1.0 - left.min(1.0)).powf(scanned.block_rows as f64);
        cost += scanned.rows as f64 * blocks * nanoseconds::scan_code(column.bits);
        left *= column.share;
    }
    cost + scanned.chunks as f64 * nanoseconds::ZONE
}

/// Returns the cost of testing strings without codes: `conditions` of them on each of `rows` rows.
pub fn compare_strings(rows: f64, conditions: usize) -> f64 {
    rows * conditions as f64 * nanoseconds::SCAN_STRING
}

/// Returns the cost of fetching columns of `rows` of `segment_rows` rows, which a scan has found. `columns`
/// are the bits of a code of each; `None` for values without codes, in compressed bytes.
pub fn fetch(columns: impl Iterator<Item = Option<u32>>, rows: f64, segment_rows: usize) -> f64 {
    let density = density(rows, segment_rows);
    values(columns, density, nanoseconds::SINGLE_VALUE) * rows
}

/// Returns the cost of fetching columns of `rows` of `segment_rows` rows, which an index has found. The share
/// `adjacent` of these rows directly follows the row before it. `columns` are as those of [`fetch`].
pub fn fetch_located(
    columns: impl Iterator<Item = Option<u32>>,
    rows: f64,
    segment_rows: usize,
    adjacent: f64,
) -> f64 {
    let density = density(rows, segment_rows).max(adjacent);
    // Several values of a line are one access.
    let alone = (1.0 - density * nanoseconds::LINE_VALUES).max(0.0);
    let cost = |column: Option<u32>| {
        let bytes = segment_rows as f64 * f64::from(column.unwrap_or(u64::BITS)) / 8.0;
        let single = nanoseconds::SINGLE_VALUE + nanoseconds::line(bytes) * alone;
        values(std::iter::once(column), density, single)
    };
    columns.map(cost).sum::<f64>() * rows
}

/// Returns the share of a scan that is run if `rows` rows match and `limit` are wanted: it stops when it has
/// enough of them, whereas a selection through an index finds them all first.
pub fn share_until(limit: Option<usize>, rows: f64) -> f64 {
    match limit {
        Some(limit) if rows > limit as f64 => limit as f64 / rows,
        _ => 1.0,
    }
}

fn density(rows: f64, segment_rows: usize) -> f64 {
    (rows / segment_rows.max(1) as f64).min(1.0)
}

/// Returns the cost of a value of each column, for rows of this density and the cost of a packed value that
/// is read alone.
fn values(columns: impl Iterator<Item = Option<u32>>, density: f64, single: f64) -> f64 {
    let (value, place) = nanoseconds::BLOCK_VALUE;
    let packed = (value + place / density.max(f64::MIN_POSITIVE)).min(single);
    let (next, single) = nanoseconds::BYTES_VALUE;
    let bytes = single + (next - single) * density;
    let cost = |column: Option<u32>| match column {
        Some(_) => packed,
        None => bytes,
    };
    columns.map(cost).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: ScannedChunks = ScannedChunks {
        rows: 65_536,
        chunks: 1,
        block_rows: 1024,
    };

    #[test]
    fn the_most_selective_column_is_compared_first() {
        let (few, many) = (
            ComparedColumn { share: 1e-6, bits: 8 },
            ComparedColumn { share: 0.5, bits: 64 },
        );
        let cost = locate(CHUNKS, vec![many, few]);
        assert_eq!(cost, locate(CHUNKS, vec![few, many]));
        // Hardly a block is left for the wide column.
        let first = 65_536.0 * 0.16 + nanoseconds::ZONE;
        assert!(cost > first && cost < first + 65_536.0 * 0.9 * 0.01, "{cost}");
        assert_eq!(locate(CHUNKS, Vec::new()), nanoseconds::ZONE);
    }

    #[test]
    fn blocks_are_decoded_as_a_whole_once_many_rows_are_needed() {
        let cost = |rows| fetch([Some(8)].into_iter(), rows, 1_000_000);
        assert!((cost(1_000_000.0) - 1.2e6).abs() < 1e-3);
        assert_eq!(cost(10.0), 10.0 * nanoseconds::SINGLE_VALUE);
        let strings = fetch([None].into_iter(), 1_000_000.0, 1_000_000);
        assert!((strings - 35e6).abs() < 1e-3);
    }

    #[test]
    fn distant_rows_of_an_index_pay_for_their_lines() {
        let cost = |adjacent| fetch_located([Some(16)].into_iter(), 100.0, 100_000_000, adjacent);
        assert!(cost(0.0) > 100.0 * (nanoseconds::SINGLE_VALUE + 25.0));
        assert!(cost(1.0) < cost(0.0) / 10.0);
    }

    #[test]
    fn a_scan_stops_at_its_limit() {
        assert_eq!((share_until(None, 10.0), share_until(Some(20), 10.0)), (1.0, 1.0));
        assert_eq!(share_until(Some(5), 10.0), 0.5);
    }
}
