//! The order of probes: those that discard most rows for their cost come first (rank-based predicate
//! ordering).
//!
//! The share of rows that a probe leaves is measured on a sample. Before dimensions are read, `EXPLAIN` shows
//! an estimate from their rows and the bounds of their keys.

use halocline_columns::{Column, Encoding};

use super::dimension::Dimension;
use super::pipeline::integers;

/// The estimated cost and selectivity of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeCost {
    /// The share of rows that pass, for uniform keys; `None` if it is unknown.
    pub share: Option<f64>,
    /// Bits per row of the columns of the fact table that it reads.
    pub bits: f64,
    /// The share of rows that must be looked up: one per run.
    pub looked_up: f64,
    /// Bytes of DRAM that an existence test may access.
    pub bytes: usize,
    /// True if keys are hashed.
    pub hashed: bool,
}

impl ProbeCost {
    /// Estimates the cost of probing `dimension` with these columns of the fact table.
    pub(super) fn estimate(columns: &[&Column], dimension: &Dimension) -> ProbeCost {
        let (mut cost, bounds) = ProbeCost::reading(columns);
        cost.share = bounds.map(|(low, high)| dimension.share_of(low, high));
        cost.bytes = dimension.probe_bytes();
        cost.hashed = !dimension.is_dense();
        cost
    }

    /// Estimates the cost of probing a dimension of `rows` rows that is not loaded yet with these columns of
    /// the fact table.
    pub fn estimated(columns: &[&Column], rows: Option<usize>) -> ProbeCost {
        let (mut cost, bounds) = ProbeCost::reading(columns);
        let span = bounds.map(|(low, high)| (i128::from(high) - i128::from(low) + 1) as f64);
        cost.share = rows.zip(span).map(|(rows, span)| (rows as f64 / span).min(1.0));
        cost.bytes = span.map_or(usize::MAX, |span| (span / 8.0) as usize);
        cost
    }

    /// Estimates the cost of reading columns, and returns the bounds of a single column with it.
    fn reading(columns: &[&Column]) -> (ProbeCost, Option<(i64, i64)>) {
        let infos = columns.iter().filter_map(|column| column.chunk_info(0).ok());
        let mut cost = ProbeCost {
            share: None,
            bits: 0.0,
            looked_up: 1.0,
            bytes: 0,
            hashed: false,
        };
        for info in infos {
            let bits = 8.0 * info.bytes as f64 / info.rows.max(1) as f64;
            cost.bits += bits;
            if info.encoding == Encoding::RunLength {
                cost.looked_up = (bits / f64::from(info.width.max(1))).min(1.0);
            }
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

    /// Returns the order of probes with these costs.
    pub fn order(costs: &[ProbeCost]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..costs.len()).collect();
        // The sort is stable: probes of the same rank stay in the order of the query.
        order.sort_by(|a, b| costs[*b].rank().total_cmp(&costs[*a].rank()));
        order
    }

    /// Returns the share of work that the probe saves the later ones, divided by its cost in hundredths of a
    /// nanosecond per row: reading the bits of its columns, looking up keys, and cache misses where the bytes
    /// exceed the caches of a core. One of few remaining rows costs about four times as much as one of many,
    /// so a probe that passes a fifth saves little.
    fn rank(&self) -> f64 {
        let waits = match self.bytes {
            ..0x4000 => 0.0,
            0x4000..0x4_0000 => 10.0,
            0x4_0000..0x40_0000 => 60.0,
            _ => 400.0,
        };
        let hashed = if self.hashed { 300.0 } else { 0.0 };
        let share = self.share.unwrap_or(1.0);
        let left = (4.0 * share).min(0.9 + 0.1 * share);
        (1.0 - left) / (self.bits + (50.0 + waits + hashed) * self.looked_up)
    }
}
