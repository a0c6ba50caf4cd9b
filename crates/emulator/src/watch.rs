//! How long something took that may have run on an emulated device: [`Watch`].
//!
//! The computation of the model comes on top of the emulated delays. It is measured call by call (`overrun`),
//! and a watch subtracts it; on a virtual clock a watch shows that clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Clock, Counts, Device};

/// Measures a time from [`start`](Watch::start) on. What the emulation computes itself does not count:
/// - without a device it is what a clock on the wall shows;
/// - where accesses are delayed it is that without the [`overrun`](Device::overrun) of the thread that had most of it:
///   several threads run over beside each other, so taking off the sum would take off too much;
/// - on a virtual clock it is the device's time alone, to which no work of the CPU goes: that of the thread that had most
///   of it.
#[derive(Debug)]
pub struct Watch {
    device: Option<Arc<Device>>,
    own: bool,
    start: Instant,
    /// Of each thread: on a virtual clock the time it spent, else what it ran over.
    threads: Vec<Duration>,
    counts: Counts,
    waited: Duration,
}

/// What a [`Watch`] shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lap {
    /// The time that something took.
    pub time: Duration,
    /// What was taken off the real time.
    pub overrun: Duration,
    /// What the device did meanwhile, for all threads.
    pub counts: Counts,
    /// What all threads together [waited](Device::waited) for it meanwhile; it is part of their time.
    pub waited: Duration,
}

impl Watch {
    /// Begins now.
    pub fn start(device: Option<&Arc<Device>>) -> Watch {
        Watch::begin(device, false)
    }

    /// As [`start`](Watch::start) for what this thread does alone: others may use the device meanwhile.
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

    /// The time up to now, when all that this thread has touched is there.
    pub fn elapsed(&self) -> Duration {
        self.lap().time
    }

    /// The same, with what it is made of.
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
            Clock::Virtual => (most, Duration::ZERO),
            Clock::Delay => (real.saturating_sub(most), most.min(real)),
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
        (Clock::Virtual, _) => device.spent(),
        (Clock::Delay, true) => vec![device.own_overrun()],
        (Clock::Delay, false) => device.overruns(),
    }
}
