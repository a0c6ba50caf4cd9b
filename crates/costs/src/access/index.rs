//! The cost of a selection through an Elf, in nanoseconds of one thread.

use crate::machine::nanoseconds;

/// A selection through the index of a segment, as the index estimates it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentSelection {
    /// Rows that match.
    pub rows: f64,
    /// Lists of the index that are visited.
    pub lists: f64,
    /// Ranges of consecutive matching rows if the index is clustered, otherwise `rows`.
    pub ranges: f64,
    /// True if rows that are found together lie together.
    pub is_clustered: bool,
    /// Size of the index in bytes.
    pub bytes: f64,
}

impl SegmentSelection {
    /// Returns the cost of the selection, or of counting its rows if `counts`.
    pub fn cost(&self, counts: bool) -> f64 {
        let yielded = match (counts, self.is_clustered) {
            (true, _) => 0.0,
            (false, true) => self.ranges * nanoseconds::ELF_RANGE,
            (false, false) => self.rows * nanoseconds::ELF_ROW,
        };
        let (list, apart) = nanoseconds::ELF_LIST;
        let list = list + apart * nanoseconds::line(self.bytes);
        nanoseconds::ELF_START + self.lists * list + yielded
    }

    /// Returns the estimated share of the rows that directly follow the row before them.
    pub fn adjacent_share(&self) -> f64 {
        if self.rows > 0.0 {
            (1.0 - self.ranges / self.rows).max(0.0)
        } else {
            0.0
        }
    }
}

/// Returns the cost of aggregating rows that an index finds, in addition to that of a scan's own loop.
pub fn aggregate(aggregates: bool) -> f64 {
    if aggregates { nanoseconds::AGGREGATE } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_pays_for_lists_and_for_what_it_yields() {
        let selection = SegmentSelection {
            rows: 1000.0,
            lists: 10.0,
            ranges: 100.0,
            is_clustered: true,
            bytes: 1024.0,
        };
        // The index fits the cache.
        let lists = 1000.0 + 10.0 * (15.0 + 0.3 * 25.0);
        assert!((selection.cost(true) - lists).abs() < 1e-9);
        assert!((selection.cost(false) - lists - 2000.0).abs() < 1e-9);
        let unclustered = SegmentSelection {
            is_clustered: false,
            ..selection
        };
        assert!((unclustered.cost(false) - lists - 16_000.0).abs() < 1e-9);
        assert_eq!(selection.adjacent_share(), 0.9);
        let none = SegmentSelection {
            rows: 0.0,
            ..selection
        };
        assert_eq!(none.adjacent_share(), 0.0);
    }
}
