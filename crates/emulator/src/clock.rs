//! A clock for short intervals: the time stamp counter on x86-64, the system's monotonic clock elsewhere.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Fractional bits of a tick that the model computes with.
const FRACTION_BITS: u32 = 4;

/// Returns the current time in the model's ticks.
#[inline(always)]
pub(crate) fn now() -> u64 {
    imp::count() << FRACTION_BITS
}

/// Returns the current time once all earlier loads have completed.
#[inline(always)]
pub(crate) fn now_after_loads() -> u64 {
    imp::wait_for_loads();
    now()
}

/// Returns the ticks of [`now`] per nanosecond, measured once per process. The model's own overhead is many
/// times the delays it models, so a small error here would be a large error there.
pub(crate) fn ticks_per_ns() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let (start, count) = both();
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        let (end, after) = both();
        (after - count) as f64 / (end - start).as_nanos() as f64
    })
}

/// Reads both clocks at the same moment: of many readings, the one with the shortest gap between its two
/// counter reads.
fn both() -> (Instant, u64) {
    let reading = || {
        let before = now();
        let instant = Instant::now();
        let after = now();
        (after - before, instant, before + (after - before) / 2)
    };
    let readings = (0..1000).map(|_| reading());
    let best = readings.min_by_key(|(gap, ..)| *gap);
    best.map_or_else(|| (Instant::now(), now()), |(_, instant, count)| (instant, count))
}

/// Spins until [`now`] is at least `until`; returns the time reached.
#[inline(always)]
pub(crate) fn wait_until(until: u64) -> u64 {
    loop {
        let now = now();
        // A pause instruction would take longer than reading the clock.
        if now >= until {
            return now;
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code, reason = "time stamp counter and load fence")]
mod imp {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};

    #[inline(always)]
    pub(crate) fn count() -> u64 {
        // SAFETY: reads a counter that every x86-64 CPU has.
        unsafe { _rdtsc() }
    }

    #[inline(always)]
    pub(crate) fn wait_for_loads() {
        // SAFETY: orders loads and has no other effect.
        unsafe { _mm_lfence() }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(crate) fn count() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    pub(crate) fn wait_for_loads() {}
}
