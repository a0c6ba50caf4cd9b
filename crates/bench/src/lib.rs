//! One module per experiment, and what experiments share: settings, measured values, interleaved timing, JSON Lines.
//!
//! Invariants:
//! - a ratio between systems comes from one run, in which their repetitions alternate;
//! - systems that are compared give the same answers, or the experiment fails;
//! - every measured value carries all that is needed to measure it again.

pub mod answer;
mod backing;
mod error;
mod experiments;
pub mod machine;
mod medium;
pub mod plot;
pub mod reopen;
mod report;
mod settings;
mod ssb;
mod tiers;
mod timing;
mod trees;

pub use backing::Backing;
pub use error::BenchError;
pub use experiments::{Experiment, experiments};
pub(crate) use report::config;
pub use report::{Config, Reporter};
pub use settings::Settings;
pub use ssb::Ssb;
pub use tiers::{Asked, Budget, DataKind, SlowTierMedium, Tiers};
pub use timing::Samples;
pub(crate) use timing::interleaved;
pub use trees::Trees;
