//! Selectivities of predicates on codes, which assume uniformly distributed values.
//!
//! Each returns the share of the rows of a column that match, from 0 to 1. `values` is the number of distinct
//! values, NULL counted as one, and at least 1.

/// Returns the share of the rows with one code.
pub fn equal(values: u64) -> f64 {
    (1.0 / values.max(1) as f64).min(1.0)
}

/// Returns the share of the rows with one of `members` codes.
pub fn set(members: usize, values: u64) -> f64 {
    (members as f64 / values.max(1) as f64).min(1.0)
}

/// Returns the share of the rows with a code from `lo` to `hi`, where codes range from 0 to `max_code`.
pub fn range(lo: u64, hi: u64, max_code: u64, values: u64) -> f64 {
    let codes = max_code as f64 + 1.0;
    // Codes may be sparse. A non-empty range is assumed to contain at least one value.
    let least = 1.0 / values.max(1) as f64;
    let share = (hi.min(max_code).saturating_sub(lo) as f64 + 1.0) / codes;
    share.max(least).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_uniform_values() {
        assert_eq!((equal(50), equal(1), equal(0)), (0.02, 1.0, 1.0));
        assert_eq!((set(3, 50), set(60, 50)), (0.06, 1.0));
        assert_eq!(range(10, 19, 99, 100), 0.1);
        assert_eq!(range(90, u64::MAX, 99, 100), 0.1);
        // Of sparse codes at least one value.
        assert_eq!(range(10, 10, 999, 10), 0.1);
        assert_eq!(range(0, u64::MAX, u64::MAX, 10), 1.0);
    }
}
