//! How long a statement took, also on an emulated medium.

use std::time::Duration;

use halocline_emulator::{ClockMode, Watch};
use halocline_engine::Database;

/// The time of one run of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// Real time, without what an emulated device with real delays computes itself.
    pub(crate) time: Duration,
    /// Time on the device's own clock, if it has one.
    pub(crate) device: Option<Duration>,
}

/// Runs beside a statement.
pub(crate) struct Timer {
    time: Watch,
    device: Option<Watch>,
}

impl Timer {
    pub(crate) fn start(database: &Database) -> Self {
        let device = database.device();
        let has_own_clock = device.is_some_and(|device| device.spec().clock == ClockMode::Virtual);
        Self {
            device: has_own_clock.then(|| Watch::start(device)),
            time: Watch::start(device.filter(|_| !has_own_clock)),
        }
    }

    pub(crate) fn stop(&self) -> Took {
        Took {
            time: self.time.elapsed(),
            device: self.device.as_ref().map(Watch::elapsed),
        }
    }
}
