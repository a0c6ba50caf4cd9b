//! Layout `packed`: searched with SIMD, level by level.

pub(crate) mod batch;
pub(crate) mod buckets;
pub(crate) mod check;
pub(crate) mod entries;
pub(crate) mod estimate;
pub(crate) mod exact;
pub(crate) mod image;
pub(crate) mod inner;
pub(crate) mod node;
pub(crate) mod places;
pub(crate) mod quarters;
pub(crate) mod quartet;
pub(crate) mod quick;
pub(crate) mod regular;
pub(crate) mod select;
pub(crate) mod select_quarters;
pub(crate) mod shortcuts;
pub(crate) mod starts;
pub(crate) mod write;
