//! The host's clock for short times: the time stamp counter, or what the system has elsewhere.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Fractions of a count of the clock that the model computes with.
const FINE: u32 = 4;

/// The time as the model counts it.
#[inline(always)]
pub(crate) fn now() -> u64 {
    imp::count() << FINE
}

/// As [`now`], after the loads before it have been answered.
#[inline(always)]
pub(crate) fn now_after_loads() -> u64 {
    imp::wait_for_loads();
    now()
}

/// Ticks of [`now`] in a nanosecond, measured once. What the model takes itself is many times what it models, so a small
/// error here would be a large one there.
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

/// Both clocks at the same time: of many readings the one that nothing came between.
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

/// Waits until [`now`] is at least `until`; returns it.
#[inline(always)]
pub(crate) fn wait_until(until: u64) -> u64 {
    loop {
        let now = now();
        // No pause: it takes longer than a look at the clock.
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
        // SAFETY: orders loads, touches nothing.
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
