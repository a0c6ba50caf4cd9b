//! Measurement of a medium and of DRAM beside it: [`calibrate`].
//!
//! It takes seconds, which suffices to choose between plans and to tell media apart; figures vary by about
//! ten percent from run to run, more on a busy machine. The result is a
//! [`Profile`](halocline_media::Profile), which is kept in a file for the pools on that medium. The
//! measurements by themselves are [`MediumMeter`] and the [`kernels`] that it times.
//!
//! The scratch files of a calibration have no names, so nothing is left however it ends.

mod calibration;
mod cold;
mod error;
mod figures;
pub mod kernels;
mod measure;
mod memory;
mod numa;
mod options;
mod scratch;
mod steps;
mod threads;
mod unit;

#[cfg(test)]
mod tests;

pub use calibration::calibrate;
pub use error::CalibrateError;
pub use measure::MediumMeter;
pub use numa::numa_nodes;
pub use options::{CalibrateOptions, CalibrateTarget};
pub use steps::CalibrateStep;
