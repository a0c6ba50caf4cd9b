//! The placement that a statement gives an index.

use halocline_cache::Placement;

/// A change of the placement of an index; parts that are none stay unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlacementSpec {
    /// The new placement.
    pub placement: Option<Placement>,
    /// The new limit of its copies in bytes of DRAM; the inner none stands for no limit.
    pub dram: Option<Option<u64>>,
}

impl PlacementSpec {
    /// Returns true if it changes nothing.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}
