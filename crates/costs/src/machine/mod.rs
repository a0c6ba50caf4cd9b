//! Parameters of the machine: constants of the processor, and speeds of the medium.
//!
//! [`nanoseconds`] and [`CpuCosts`] were measured on a machine with two cores, and hold for others as far as
//! their ratios do. [`MediumCosts`] and [`DeviceSpeed`] come from the profile that `halocline calibrate`
//! writes; without one, they are those of an assumed machine.

mod cpu;
mod device;
mod medium;
pub mod nanoseconds;
mod profile;

pub use cpu::{CpuCosts, JOIN_STEPS, JoinWork};
pub use device::DeviceSpeed;
pub use medium::MediumCosts;
