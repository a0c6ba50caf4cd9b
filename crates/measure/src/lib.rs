//! Shared by the experiments and the demonstration: samples of measured values, answers that are compared, a
//! description of the machine, and restarts of a pool in a new process.

pub mod answer;
pub mod machine;
pub mod reopen;
mod samples;

pub use samples::Samples;
