//! The cost of an order of joins, for comparisons of orders.
//!
//! The cost of a join is that of its hash table, of the rows that look into it, and of the rows that it
//! returns (C_out with weights). Scans cost the same in every order.

/// Cost of a row of the build side, of the probe side, and of the result.
const BUILD_COST: f64 = 2.0;
const PROBE_COST: f64 = 1.0;
const OUTPUT_COST: f64 = 1.0;

/// Returns the cost of a hash join by the rows of its sides and of its result, relative to a row of the probe
/// side.
pub fn hash_join(build: f64, probe: f64, output: f64) -> f64 {
    BUILD_COST * build + PROBE_COST * probe + OUTPUT_COST * output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_side_is_built() {
        assert_eq!(hash_join(10.0, 100.0, 50.0), 170.0);
        assert!(hash_join(10.0, 100.0, 50.0) < hash_join(100.0, 10.0, 50.0));
    }
}
