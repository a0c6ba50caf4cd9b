//! The three query types of the Elf papers, made from query points.
//!
//! A *query point* is a row of the table, drawn from a [`Zipf`] distribution over the row numbers: rank `r`
//! is row `r`, whose place in the index says nothing about `r` when the table is uniform.

use crate::{SplitMix64, UniformTable, Zipf};

/// A window: bounds for some dimensions, wildcards for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeQuery {
    /// Per dimension the inclusive lower and upper bound, or `None` for a wildcard.
    pub bounds: Vec<Option<(u64, u64)>>,
}

impl RangeQuery {
    /// Returns true if `row`, one value per dimension, is in the window. A brute-force reference for tests.
    #[must_use]
    pub fn matches(&self, row: &[u64]) -> bool {
        self.bounds
            .iter()
            .zip(row)
            .all(|(bound, value)| bound.is_none_or(|(lo, hi)| (lo..=hi).contains(value)))
    }
}

/// Draws `count` row numbers with a Zipf distribution.
#[must_use]
pub fn zipf_rows(zipf: &Zipf, count: usize, seed: u64) -> Vec<u64> {
    let mut rng = SplitMix64::new(seed);
    (0..count).map(|_| zipf.sample(&mut rng)).collect()
}

/// Returns exact-match points: the values of the given rows, in one flat vector of `rows.len() * dims`
/// values.
///
/// # Panics
/// Panics if the table has no such row.
#[must_use]
pub fn points(table: &UniformTable, rows: &[u64]) -> Vec<u64> {
    let mut flat = Vec::with_capacity(rows.len() * table.dims());
    for &row in rows {
        table.push_row(row as usize, &mut flat);
    }
    flat
}

/// Returns range queries. Each dimension ranges from the point's value to that plus `percent` % of the
/// dimension's domain, clamped to the domain. `points` is flat with `dims` values each; the domain of
/// each dimension is `0..=max_value`.
#[must_use]
pub fn ranges(points: &[u64], dims: usize, max_value: u64, percent: f64) -> Vec<RangeQuery> {
    let all: Vec<usize> = (0..dims).collect();
    partial_matches(points, dims, &all, max_value, percent)
}

/// Returns partial matches: like [`ranges`], but for the `chosen` dimensions only; the others are wildcards.
///
/// # Panics
/// Panics if a chosen dimension is not below `dims`.
#[must_use]
pub fn partial_matches(
    points: &[u64],
    dims: usize,
    chosen: &[usize],
    max_value: u64,
    percent: f64,
) -> Vec<RangeQuery> {
    let width = window(max_value, percent);
    points
        .chunks_exact(dims.max(1))
        .map(|point| {
            let mut bounds = vec![None; dims];
            for &dim in chosen {
                bounds[dim] = Some((point[dim], point[dim].saturating_add(width).min(max_value)));
            }
            RangeQuery { bounds }
        })
        .collect()
}

/// Returns `percent` % of a domain of `max_value + 1` values, rounded.
fn window(max_value: u64, percent: f64) -> u64 {
    ((max_value as f64 + 1.0) * percent / 100.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UniformSpec;

    fn table() -> UniformTable {
        UniformTable::generate(&UniformSpec {
            rows: 500,
            dims: 4,
            cardinality: 100,
            seed: 3,
        })
    }

    #[test]
    fn points_are_rows_of_the_table() {
        let table = table();
        let rows = zipf_rows(&Zipf::new(500, 0.5).unwrap(), 50, 11);
        let flat = points(&table, &rows);
        assert_eq!(flat.len(), 200);
        for (point, &row) in flat.chunks(4).zip(&rows) {
            assert_eq!(point, table.row(row as usize));
        }
    }

    #[test]
    fn a_range_starts_at_its_point_and_is_clamped() {
        let queries = ranges(&[10, 99, 0, 98], 4, 99, 2.0);
        assert_eq!(
            queries[0].bounds,
            [Some((10, 12)), Some((99, 99)), Some((0, 2)), Some((98, 99))]
        );
        assert!(queries[0].matches(&[11, 99, 2, 98]));
        assert!(!queries[0].matches(&[13, 99, 2, 98]));
    }

    #[test]
    fn a_partial_match_leaves_the_rest_open() {
        let queries = partial_matches(&[10, 20, 30, 40], 4, &[1, 3], 99, 2.0);
        assert_eq!(queries[0].bounds, [None, Some((20, 22)), None, Some((40, 42))]);
        assert!(queries[0].matches(&[0, 21, 99, 41]));
    }

    #[test]
    fn a_full_range_covers_the_domain() {
        assert_eq!(ranges(&[0], 1, 99, 100.0)[0].bounds, [Some((0, 99))]);
    }

    #[test]
    fn every_point_is_inside_its_own_windows() {
        let table = table();
        let rows = zipf_rows(&Zipf::new(500, 0.9).unwrap(), 100, 5);
        let flat = points(&table, &rows);
        let windows = ranges(&flat, 4, table.max_value(), 2.0);
        assert!(
            windows
                .iter()
                .zip(flat.chunks(4))
                .all(|(query, point)| query.matches(point))
        );
    }
}
