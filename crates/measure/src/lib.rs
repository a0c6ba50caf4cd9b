//! Shared by the experiments and the demonstration: samples of measured values, answers that are compared, a
//! description of the machine, restarts of a pool in a new process, and searches of an index on emulated
//! memory.

pub mod answer;
pub mod index;
pub mod machine;
pub mod reopen;
mod samples;

pub use samples::Samples;
