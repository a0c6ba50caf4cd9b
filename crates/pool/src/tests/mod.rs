//! Tests that need the inside of the crate: crash images, small geometry, mistakes put in.

mod crash;
mod failures;
mod format;
mod growth;
mod hostile;
mod limbo;
mod log;
mod log_mistakes;
mod mistakes;
mod model;
mod power;
mod race;
mod slab;
mod space;
mod vacuum;
mod wrapped;
