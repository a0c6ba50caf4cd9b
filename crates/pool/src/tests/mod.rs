//! Tests that need access to internals: crash images, small geometry, injected faults.

mod crash;
mod failures;
mod faults;
mod format;
mod frontier;
mod growth;
mod hostile;
mod limbo;
mod log;
mod log_faults;
mod model;
mod power;
mod race;
mod reserve;
mod slab;
mod slab_give_back;
mod space;
mod vacuum;
mod wrapped;
