//! An emulated slower device below a model of the CPU's cache. It estimates the cost of an index on hardware
//! that is not available.
//!
//! A [`Device`] receives every access ([`Device::touch`], [`Device::prefetch`]). A set-associative [model of
//! the cache](CacheShape) decides which lines the device serves, a buffer of units decides which of them are
//! cheap, and a model of the core (`lane.rs`) decides when each completes: independent accesses overlap, up
//! to the number of misses that a core can have in flight. The time is added to a virtual clock or waited for
//! in real time ([`ClockMode`]).
//!
//! # Accuracy
//! - [`Counts`] of lines and units are exact for the modelled cache: with one thread they are the same in
//!   every run. Threads share the cache without locks; if two change one set at once, a line may be counted
//!   twice.
//! - Times are a model. By default they are *relative*: this host's measured DRAM stands for the DRAM of the
//!   profile, and the ratio between the two is kept. Whatever prints a result prints the device's `Display`
//!   with it.

mod bytes;
mod cache;
mod clock;
mod counts;
mod device;
mod device_requests;
mod emulated;
mod error;
mod host;
mod lane;
mod model;
mod observer;
mod outstanding;
mod overhead;
mod profile;
mod resemblance;
mod scans;
mod shared;
mod spec;
mod stream;
mod thread_keys;
mod watch;

pub use bytes::EmulatedBytes;
pub use cache::CacheShape;
pub use counts::Counts;
pub use device::Device;
pub use emulated::Emulated;
pub use error::EmulatedError;
pub use host::Host;
pub use model::CoreShape;
pub use overhead::ModelOverhead;
pub use profile::{DeviceFigures, DeviceProfile};
pub use resemblance::Resemblance;
pub use spec::{ClockMode, EmulatedSpec};
pub use watch::{Lap, Watch};
