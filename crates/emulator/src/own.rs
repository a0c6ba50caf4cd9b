//! What the model takes itself: [`OwnCost`].
//!
//! What a call costs its caller besides depends on the caller: experiments measure it on a device with the
//! host's own figures and charge it ([`Device::charge`](super::Device::charge)). What cannot be subtracted
//! from the work before a call is owed and subtracted later, up to the cost of 64 calls, so that a charge
//! that was too high for a while is forgotten. A miss's real latency on the host counts as a part of the
//! delay, and the model's own time is caught up with, up to 1 us.

use std::sync::OnceLock;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::profile::DeviceProfile;
use crate::spec::{Clock, EmulatedSpec};
use crate::{CacheShape, CoreShape, Device};
use halocline_media::LINE;

/// Nanoseconds the model takes for one call, measured on this host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Another touch of the line touched last.
    pub hit_ns: f64,
    /// Any other touch, looks at the clock included.
    pub miss_ns: f64,
    /// A prefetch.
    pub prefetch_ns: f64,
    /// The part of `miss_ns` that looks like work of the caller, as it lies between two looks at the clock.
    pub clock_ns: f64,
}

/// The same in ticks.
#[derive(Debug)]
pub(crate) struct OwnTicks {
    pub(crate) hit: u64,
    pub(crate) clock: u64,
}

const CALLS: u64 = 5_000;
const PARTS: u64 = 5;

impl OwnCost {
    /// Measured once for real delays; nothing on a virtual clock, which no real time goes to.
    pub(crate) fn of(clock: Clock) -> OwnCost {
        static MEASURED: OnceLock<OwnCost> = OnceLock::new();
        if clock == Clock::Virtual {
            return OwnCost::default();
        }
        *MEASURED.get_or_init(OwnCost::measure)
    }

    pub(crate) fn ticks(self, ticks_per_ns: f64) -> OwnTicks {
        let ticks = |ns: f64| (ns * ticks_per_ns) as u64;
        OwnTicks {
            hit: ticks(self.hit_ns),
            clock: ticks(self.clock_ns),
        }
    }

    /// On a device that answers at once.
    fn measure() -> OwnCost {
        let mut profile = DeviceProfile::dram();
        let device = &mut profile.device;
        (device.random_ns, device.next_unit_ns, device.buffered_ns) = (0.01, 0.01, 0.01);
        device.read_gbps = vec![1e6];
        let spec = EmulatedSpec {
            clock: Clock::Delay,
            absolute: true,
            cache: CacheShape::with_bytes(1 << 20),
            core: CoreShape::default(),
            ..EmulatedSpec::new(profile)
        };
        let device = Device::build(&spec, None, OwnCost::default());
        let best = |each: &dyn Fn(u64)| {
            let (mut time, mut work) = (f64::INFINITY, f64::INFINITY);
            for part in 0..PARTS {
                let (start, before) = (Instant::now(), device.worked());
                (part * CALLS..(part + 1) * CALLS).for_each(each);
                let ns = start.elapsed().as_secs_f64() * 1e9;
                time = time.min(ns / CALLS as f64);
                let ticks = (device.worked() - before) as f64;
                work = work.min(ticks / device.ticks_per_ns() / CALLS as f64);
            }
            (time, work)
        };
        // Far apart, so that nothing is fetched ahead.
        let (miss_ns, clock_ns) = best(&|call| device.touch(call * 9 * LINE, 1));
        let far = PARTS * CALLS * 9 * LINE;
        let (prefetch_ns, _) = best(&|call| device.prefetch(far + call * 9 * LINE));
        // The line that was touched last, which is told without a look at anything else.
        let again = |_| device.touch(far, 1);
        device.settle();
        again(0);
        let (hit_ns, _) = best(&again);
        OwnCost {
            hit_ns,
            miss_ns,
            prefetch_ns,
            clock_ns,
        }
    }
}
