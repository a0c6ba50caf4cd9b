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
pub(crate) mod point_batch;
pub(crate) mod quick;
pub(crate) mod select;
pub(crate) mod shortcut_builder;
pub(crate) mod shortcut_form;
pub(crate) mod shortcuts;
pub(crate) mod subranges;
pub(crate) mod write;
