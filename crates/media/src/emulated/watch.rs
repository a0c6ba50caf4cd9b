//! How long something took that may have run on an emulated device: [`Watch`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Clock, Counts, Device};

/// Measures a time from [`start`](Watch::start) on. What the emulation computes itself does not count:
/// - without a device it is what a clock on the wall shows;
/// - where accesses are delayed it is that without the [`overrun`](Device::overrun) of the thread that had most of it:
///   several threads run over beside each other, so taking off the sum would take off too much;
/// - on a virtual clock it is the device's time alone, to which no work of the CPU goes.
#[derive(Debug)]
pub struct Watch {
    device: Option<Arc<Device>>,
    own: bool,
    start: Instant,
    clock: Duration,
    overruns: Vec<Duration>,
    counts: Counts,
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
            clock: device.map(|device| device.elapsed()).unwrap_or_default(),
            overruns: device.map(|device| overruns(device, own)).unwrap_or_default(),
            counts: device.map(|device| device.counts()).unwrap_or_default(),
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
        if device.spec().clock == Clock::Virtual {
            return Lap {
                time: device.elapsed().saturating_sub(self.clock),
                overrun: Duration::ZERO,
                counts,
            };
        }
        let before = |thread: usize| self.overruns.get(thread).copied().unwrap_or_default();
        let overruns = overruns(device, self.own).into_iter().enumerate();
        let most = overruns.map(|(thread, after)| after.saturating_sub(before(thread)));
        let overrun = most.max().unwrap_or_default().min(real);
        Lap {
            time: real - overrun,
            overrun,
            counts,
        }
    }
}

fn overruns(device: &Device, own: bool) -> Vec<Duration> {
    if own {
        vec![device.own_overrun()]
    } else {
        device.overruns()
    }
}
