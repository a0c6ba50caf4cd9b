//! One module per experiment, and what experiments share: settings, measured values, interleaved timing, JSON
//! Lines. The program `halocline-bench` runs them from a command line.
//!
//! Invariants:
//! - a ratio between systems comes from one run, in which their repetitions alternate;
//! - systems that are compared give the same answers, or the experiment fails;
//! - every measured value carries all that is needed to measure it again.
//!
//! In the experiments on two tiers each system has an emulated device of its own, so that no placement finds
//! lines in the modelled cache that another one fetched, and the bytes are on huge pages whatever the tier,
//! so that page walks cost the same. Beside an emulated slow tier, DRAM is emulated below the same modelled
//! cache; the host's own, whose caches have other sizes, has a name of its own in results. DRAM is read from
//! the kernel's count before and after placing. On a virtual clock a time is the device's alone. In the
//! experiments on trees, what a call of the emulation costs the tree is measured on a device with the host's
//! own figures and subtracted.

mod backing;
mod chart;
mod comparisons;
mod error;
mod experiments;
pub mod kv;
mod medium;
mod page;
mod plot;
mod quantity;
mod recording;
mod report;
mod settings;
mod ssb;
mod tiers;
mod timing;
mod trees;
mod view;

pub use backing::Backing;
pub use chart::{Chart, ChartKind};
pub use error::BenchError;
pub use experiments::{Experiment, experiments};
pub use halocline_measure::Samples;
pub use page::{Page, page};
pub use recording::RecordingFile;
pub(crate) use report::config;
pub use report::{Config, Measurement, Reporter};
pub use settings::Settings;
pub use ssb::Ssb;
pub use tiers::{Budget, DataKind, QueryGroup, SlowTierMedium, Tiers};
pub(crate) use timing::interleaved;
pub use trees::Trees;
pub use view::TableView;
