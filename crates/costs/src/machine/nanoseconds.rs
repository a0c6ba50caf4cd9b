//! The time of each step of an access path, in nanoseconds.
//!
//! Costs on one thread of a 2-core x86 machine, TPC-H lineitem in the page cache. The bench `access_paths`
//! compares the choice with both paths; `halocline bench elf-selections` reports the estimated number of
//! lists next to the time a selection took. Only the ratios matter.

/// Per code compared by a scan kernel, for codes of at most 8, 16, 32 and 64 bits.
const SCAN_CODE: [f64; 4] = [0.16, 0.25, 0.45, 0.9];
/// Per chunk whose zone decides it.
pub const ZONE: f64 = 20.0;
/// Per packed value of a block that is read as a whole, and per row of the block, selected or not.
pub const BLOCK_VALUE: (f64, f64) = (0.6, 0.6);
/// Per packed value that is read alone, by a scan that comes by.
pub const SINGLE_VALUE: f64 = 14.0;
/// Per access to a line of DRAM out of order, if it is in the last-level cache and if it is not.
const LINE: (f64, f64) = (25.0, 220.0);
/// Packed values of a line.
pub const LINE_VALUES: f64 = 32.0;
/// Per value of compressed bytes: of adjacent and of distant rows.
pub const BYTES_VALUE: (f64, f64) = (35.0, 350.0);
/// Per string without a code that is compared with a condition.
pub const SCAN_STRING: f64 = 6.0;
/// Per list that a selection visits, and the share of lists that lie apart from the one before.
pub const ELF_LIST: (f64, f64) = (15.0, 0.3);
/// Per row that a selection yields, including the sort.
pub const ELF_ROW: f64 = 16.0;
/// Per range of rows that a selection through a clustered index yields.
pub const ELF_RANGE: f64 = 20.0;
/// Per selection.
pub const ELF_START: f64 = 1_000.0;
/// Per aggregate over the rows that an index finds: DataFusion's operators.
pub const AGGREGATE: f64 = 120_000.0;

/// Bytes of the last-level cache that a query is assumed to have.
const CACHE_BYTES: f64 = (16 << 20) as f64;

/// Returns the nanoseconds to compare a code of this number of bits by a scan kernel.
pub fn scan_code(bits: u32) -> f64 {
    let [byte, two, four, eight] = SCAN_CODE;
    match bits {
        0..=8 => byte,
        9..=16 => two,
        17..=32 => four,
        _ => eight,
    }
}

/// Returns the nanoseconds of an access out of order to a line of something of this size in bytes.
pub fn line(bytes: f64) -> f64 {
    let (cached, uncached) = LINE;
    let share = (CACHE_BYTES / bytes.max(1.0)).min(1.0);
    cached * share + uncached * (1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cost_more_the_less_of_them_is_cached() {
        assert_eq!((line(0.0), line(CACHE_BYTES)), (25.0, 25.0));
        assert!((line(2.0 * CACHE_BYTES) - 122.5).abs() < 1e-9);
        assert!(line(1e15) < 220.0);
    }

    #[test]
    fn codes_cost_by_the_lane_that_holds_them() {
        let costs = [0, 8, 9, 16, 17, 32, 33, 64].map(scan_code);
        assert_eq!(costs, [0.16, 0.16, 0.25, 0.25, 0.45, 0.45, 0.9, 0.9]);
    }
}
