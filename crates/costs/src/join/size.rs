//! Sizes of joins, and bytes of their rows.

/// Bytes of a hash table per row beside the row: an entry of the directory, and the bit of a match.
pub const TABLE_ROW_BYTES: usize = 9;

/// Bytes of a row of a hash table, apart from its columns, where the table is not built yet.
const ROW_OVERHEAD: f64 = 16.0;

/// Assumed bytes of a value of variable width.
const VARIABLE_BYTES: f64 = 32.0;

/// Sizes of a join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinSize {
    /// Rows of the build side (T).
    pub build_rows: u64,
    /// Rows of the probe side (V).
    pub probe_rows: u64,
    /// Bytes of a build row that are read from the slow tier; 0 if it is in DRAM.
    pub build_stored: f64,
    /// Bytes of a probe row that are read from the slow tier; 0 if it is in DRAM.
    pub probe_stored: f64,
    /// Bytes of a build row in a hash table; `EquiJoin::row_bytes` of the crate `joins` returns it for its
    /// rows.
    pub build_row: f64,
    /// Bytes of a probe row that is spilled.
    pub probe_row: f64,
    /// Estimated pairs.
    pub pairs: u64,
    /// Share of the probe rows that have a partner, from 0 to 1.
    pub matching: f64,
    /// Columns of the build side that are returned, if its keys are dense, which allows an array join.
    pub dense_columns: Option<usize>,
    /// True if both inputs can be read more than once.
    pub rereadable: bool,
}

/// Returns the bytes of a row in DRAM. `widths` are the bytes of each value; `None` for values of variable
/// width.
pub fn row_bytes(widths: impl Iterator<Item = Option<f64>>) -> f64 {
    widths.map(|width| width.unwrap_or(VARIABLE_BYTES)).sum()
}

/// Returns the bytes of a row of `row_bytes` in a hash table.
pub fn table_row_bytes(row_bytes: f64) -> f64 {
    row_bytes + ROW_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variable_width_are_assumed() {
        let row = row_bytes([Some(8.0), Some(0.125), None].into_iter());
        assert_eq!((row, table_row_bytes(row)), (40.125, 56.125));
    }
}
