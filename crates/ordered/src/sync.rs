//! The atomics of [`version`](crate::version) and [`locks`](crate::locks). `tests/orderings.rs` compiles those files with others in this
//! place, which show every order that the memory model allows.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
