//! The atomics of [`locks`](crate::locks). `tests/orderings.rs` compiles that file with others in this place, which show every order that
//! the memory model allows.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
