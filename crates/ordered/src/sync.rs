//! The atomics of [`version`](crate::version) and [`locks`](crate::locks). `tests/orderings.rs` compiles
//! those modules with a replacement of this one that explores all orders the memory model allows.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
