//! Layout `packed`: searched with SIMD, level by level.

pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod estimate;
pub(crate) mod exact;
pub(crate) mod inner;
pub(crate) mod node;
pub(crate) mod select;
pub(crate) mod write;
