//! Inputs that decide the order of probes: the columns of the fact table that a probe reads, and the rows and
//! keys of its dimension.
//!
//! The share of rows that a probe leaves is measured on a sample. Before dimensions are read, `EXPLAIN` shows
//! an estimate from their rows and the bounds of their keys.

use halocline_columns::{Column, LookupUnit};
use halocline_costs::join::ProbeCost;

use super::dimension::Dimension;
use super::pipeline::integers;

/// Estimates the cost of probing `dimension` with these columns of the fact table.
pub(super) fn probe_cost(columns: &[&Column], dimension: &Dimension) -> ProbeCost {
    let (mut cost, bounds) = reading(columns);
    cost.share = bounds.map(|(low, high)| dimension.share_of(low, high));
    cost.bytes = dimension.probe_bytes();
    cost.hashed = !dimension.is_dense();
    cost
}

/// Estimates the cost of probing a dimension of `rows` rows that is not loaded yet with these columns of the
/// fact table.
pub fn estimated_probe_cost(columns: &[&Column], rows: Option<usize>) -> ProbeCost {
    let (mut cost, bounds) = reading(columns);
    let span = bounds.map(|(low, high)| (i128::from(high) - i128::from(low) + 1) as f64);
    cost.assume_dimension(rows, span);
    cost
}

/// Returns the cost of reading columns, and the bounds of a single column with it.
fn reading(columns: &[&Column]) -> (ProbeCost, Option<(i64, i64)>) {
    let mut cost = ProbeCost::new();
    for info in columns.iter().filter_map(|column| column.chunk_info(0).ok()) {
        let bits = 8.0 * info.bytes as f64 / info.rows.max(1) as f64;
        let is_by_runs = info.encoding.lookup_unit() == LookupUnit::Run;
        cost.read(bits, is_by_runs.then_some(f64::from(info.width)));
    }
    let [column] = columns else { return (cost, None) };
    let bounds = integers(column).map(|(base, has_null)| {
        let high = column.code_space().map_or(0, |space| space.max_code());
        (
            base.wrapping_add(i64::from(has_null)),
            base.wrapping_add_unsigned(high),
        )
    });
    (cost, bounds)
}
