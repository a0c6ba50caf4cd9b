//! The preparation of an array join: whether keys are likely to be dense, and the cost of finding out where
//! their rows are.

use crate::machine::{CpuCosts, MediumCosts};

/// Most numbers between the smallest and the largest key for each row: `DenseKeyMap::detect` of the crate
/// `joins` has the same limit.
const MAX_ENTRIES_PER_KEY: f64 = 8.0;

/// Bytes of an entry of the map of keys with gaps.
const MAP_ENTRY: f64 = 4.0;

/// Queries that are assumed to use the order of keys once it has been found.
const ASSUMED_QUERIES: f64 = 8.0;

/// Least distinct keys per row, by an estimate with an error of some percent.
const MIN_DISTINCT_SHARE: f64 = 0.9;

/// Returns true if keys of `rows` rows are likely to be dense: `range` numbers lie between the smallest and
/// the largest key, and there are `distinct` of them, if that is known.
pub fn are_likely_dense(rows: f64, range: f64, distinct: Option<f64>) -> bool {
    range <= rows * MAX_ENTRIES_PER_KEY
        && distinct.is_none_or(|distinct| distinct >= rows * MIN_DISTINCT_SHARE)
}

/// Returns the seconds of one thread to find the order of keys without gaps, which reads the key column once,
/// shared by the queries that are assumed to follow.
pub fn find_order(rows: f64, cpu: &CpuCosts) -> f64 {
    rows * cpu.read / ASSUMED_QUERIES
}

/// Returns the seconds of one thread to make a map of keys, which reads the key column twice.
pub fn map_keys(rows: f64, cpu: &CpuCosts, medium: &MediumCosts) -> f64 {
    rows * (2.0 * cpu.read + medium.dram_read(rows * MAP_ENTRY))
}

/// Returns the most bytes of the map of the keys of `rows` rows.
pub fn max_map_bytes(rows: f64) -> f64 {
    rows * MAX_ENTRIES_PER_KEY * MAP_ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_keys_have_few_gaps_and_no_duplicates() {
        assert!(are_likely_dense(100.0, 800.0, None) && are_likely_dense(100.0, 100.0, Some(91.0)));
        assert!(!are_likely_dense(100.0, 801.0, None) && !are_likely_dense(100.0, 100.0, Some(80.0)));
    }

    #[test]
    fn a_map_costs_more_than_the_order() {
        let (cpu, medium) = (CpuCosts::default(), MediumCosts::assumed());
        assert!(map_keys(1e6, &cpu, &medium) > 16.0 * find_order(1e6, &cpu));
        assert_eq!(max_map_bytes(1000.0), 32_000.0);
    }
}
