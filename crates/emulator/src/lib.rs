//! A slower device, emulated below a model of the CPU's cache: what an index would cost on hardware that is not here.
//!
//! A [`Device`] is told of every access ([`Device::touch`], [`Device::prefetch`]). A set-associative [model of the
//! cache](CacheShape) decides which lines the device has to serve, a buffer of units which of them are cheap, and a model
//! of the core (`lane.rs`) when each is complete: accesses that do not depend on each other overlap, up to the misses a
//! core can have in flight. The time then goes to a virtual clock, or is waited for in real time ([`Clock`]).
//!
//! # What is exact, and what is a model
//! - [`Counts`] of lines and units are exact for the cache that is modelled: with one thread they are the same in every
//!   run. Threads share the cache without locks; where two change one set at once, a line may be counted once too often.
//! - Times are a model. They are *relative* unless asked otherwise: this host's measured DRAM stands for the DRAM of the
//!   profile, and the ratio between the two is kept. Whatever prints a result prints the device's `Display` with it.

mod bytes;
mod cache;
mod clock;
mod counts;
mod device;
mod emulated;
mod error;
mod flights;
mod host;
mod lane;
mod lanes;
mod model;
mod observer;
mod own;
mod profile;
mod requests;
mod scans;
mod spec;
mod stream;
mod threads;
mod watch;

pub use bytes::EmulatedBytes;
pub use cache::CacheShape;
pub use counts::Counts;
pub use device::Device;
pub use emulated::Emulated;
pub use error::EmulatedError;
pub use host::Host;
pub use model::CoreShape;
pub use own::OwnCost;
pub use profile::{DeviceFigures, DeviceProfile};
pub use spec::{Clock, EmulatedSpec};
pub use watch::{Lap, Watch};
