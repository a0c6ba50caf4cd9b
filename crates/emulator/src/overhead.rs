//! The overhead of the model itself: [`ModelOverhead`].
//!
//! A call's further cost depends on its caller: experiments measure it on a device with the host's own
//! figures and set it with [`Device::charge`](super::Device::charge). Overhead that exceeds the time before a
//! call is carried over and subtracted later, up to the cost of 64 calls, so that a charge that was too high
//! is forgotten after a while. A miss's real latency on the host counts as part of the delay.

use std::sync::OnceLock;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::profile::DeviceProfile;
use crate::spec::{ClockMode, EmulatedSpec};
use crate::{CacheShape, CoreShape, Device};
use halocline_media::LINE;

/// Nanoseconds that the model takes per call, measured on this host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelOverhead {
    /// A repeated touch of the same line.
    pub hit_ns: f64,
    /// Any other touch, including its clock reads.
    pub miss_ns: f64,
    /// A prefetch.
    pub prefetch_ns: f64,
    /// The part of `miss_ns` that looks like work of the caller because it lies between two clock reads.
    pub clock_ns: f64,
}

/// The subtracted parts of [`ModelOverhead`], in ticks.
#[derive(Debug)]
pub(crate) struct OverheadTicks {
    pub(crate) hit: u64,
    pub(crate) clock: u64,
}

const CALLS: u64 = 5_000;
const PARTS: u64 = 5;

impl ModelOverhead {
    /// Returns the overhead, measured once for real delays; zero on a virtual clock, to which no real time is
    /// added.
    pub(crate) fn for_clock(clock: ClockMode) -> ModelOverhead {
        static MEASURED: OnceLock<ModelOverhead> = OnceLock::new();
        if clock == ClockMode::Virtual {
            return ModelOverhead::default();
        }
        *MEASURED.get_or_init(ModelOverhead::measure)
    }

    pub(crate) fn ticks(self, ticks_per_ns: f64) -> OverheadTicks {
        let ticks = |ns: f64| (ns * ticks_per_ns) as u64;
        OverheadTicks {
            hit: ticks(self.hit_ns),
            clock: ticks(self.clock_ns),
        }
    }

    /// Measures the overhead on a device that answers immediately.
    fn measure() -> ModelOverhead {
        let mut profile = DeviceProfile::dram();
        let device = &mut profile.device;
        (device.random_ns, device.next_unit_ns, device.buffered_ns) = (0.01, 0.01, 0.01);
        device.read_gbps = vec![1e6];
        let spec = EmulatedSpec {
            clock: ClockMode::Delay,
            absolute: true,
            cache: CacheShape::with_bytes(1 << 20),
            core: CoreShape::default(),
            ..EmulatedSpec::new(profile)
        };
        let device = Device::build(&spec, None, ModelOverhead::default());
        let best = |each: &dyn Fn(u64)| {
            let (mut time, mut work) = (f64::INFINITY, f64::INFINITY);
            for part in 0..PARTS {
                let (start, before) = (Instant::now(), device.recorded_work());
                (part * CALLS..(part + 1) * CALLS).for_each(each);
                let ns = start.elapsed().as_secs_f64() * 1e9;
                time = time.min(ns / CALLS as f64);
                let ticks = (device.recorded_work() - before) as f64;
                work = work.min(ticks / device.ticks_per_ns() / CALLS as f64);
            }
            (time, work)
        };
        // Keep the lines far apart so that nothing is fetched ahead.
        let (miss_ns, clock_ns) = best(&|call| device.touch(call * 9 * LINE, 1));
        let far = PARTS * CALLS * 9 * LINE;
        let (prefetch_ns, _) = best(&|call| device.prefetch(far + call * 9 * LINE));
        // Touch the same line repeatedly, which takes the fast path.
        let again = |_| device.touch(far, 1);
        device.settle();
        again(0);
        let (hit_ns, _) = best(&again);
        ModelOverhead {
            hit_ns,
            miss_ns,
            prefetch_ns,
            clock_ns,
        }
    }
}
