//! A stopwatch for work that may run on an emulated device: [`Watch`].
//!
//! The computation of the model comes on top of the emulated delays. The device measures it call by call
//! (`overrun`), and a watch subtracts it; on a virtual clock a watch reads that clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{ClockMode, Counts, Device};

/// Measures the time since [`start`](Watch::start), without the overhead of the emulation:
/// - without a device, the elapsed real time;
/// - with delays in real time, the elapsed time minus the largest [`overrun`](Device::overrun) of a thread:
///   threads overrun concurrently, so subtracting the sum would subtract too much;
/// - on a virtual clock, the largest time of a thread on the device alone, without CPU work.
#[derive(Debug)]
pub struct Watch {
    device: Option<Arc<Device>>,
    own: bool,
    start: Instant,
    /// Per thread, at the start: the time spent on a virtual clock, otherwise the overrun.
    threads: Vec<Duration>,
    counts: Counts,
    waited: Duration,
}

/// A reading of a [`Watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lap {
    /// The elapsed time.
    pub time: Duration,
    /// Overhead that was subtracted from real time.
    pub overrun: Duration,
    /// Accesses of all threads in that time.
    pub counts: Counts,
    /// Time for which all threads together [waited](Device::waited) for the device; it is part of their
    /// time.
    pub waited: Duration,
}

impl Watch {
    /// Starts a watch over all threads.
    pub fn start(device: Option<&Arc<Device>>) -> Watch {
        Watch::begin(device, false)
    }

    /// Starts a watch over this thread alone, while others may use the device.
    pub fn start_alone(device: Option<&Arc<Device>>) -> Watch {
        Watch::begin(device, true)
    }

    fn begin(device: Option<&Arc<Device>>, own: bool) -> Watch {
        Watch {
            threads: device.map(|device| threads(device, own)).unwrap_or_default(),
            counts: device.map(|device| device.counts()).unwrap_or_default(),
            waited: device.map(|device| device.waited()).unwrap_or_default(),
            device: device.cloned(),
            own,
            start: Instant::now(),
        }
    }

    /// Returns the elapsed time, after waiting until everything that this thread has touched has arrived.
    pub fn elapsed(&self) -> Duration {
        self.lap().time
    }

    /// Returns the elapsed time like [`elapsed`](Watch::elapsed), with its components.
    pub fn lap(&self) -> Lap {
        let Some(device) = &self.device else {
            return Lap {
                time: self.start.elapsed(),
                ..Lap::default()
            };
        };
        device.settle();
        let real = self.start.elapsed();
        let counts = device.counts() - self.counts;
        let before = |thread: usize| self.threads.get(thread).copied().unwrap_or_default();
        let threads = threads(device, self.own).into_iter().enumerate();
        let most = threads.map(|(thread, after)| after.saturating_sub(before(thread)));
        let most = most.max().unwrap_or_default();
        let (time, overrun) = match device.spec().clock {
            ClockMode::Virtual => (most, Duration::ZERO),
            ClockMode::Delay => (real.saturating_sub(most), most.min(real)),
        };
        Lap {
            time,
            overrun,
            counts,
            waited: device.waited() - self.waited,
        }
    }
}

fn threads(device: &Device, own: bool) -> Vec<Duration> {
    match (device.spec().clock, own) {
        (ClockMode::Virtual, _) => device.spent(),
        (ClockMode::Delay, true) => vec![device.own_overrun()],
        (ClockMode::Delay, false) => device.overruns(),
    }
}
