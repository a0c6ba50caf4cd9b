//! A profile, a host and a core converted to the ticks that the model adds up: [`TimingModel`].

use serde::{Deserialize, Serialize};

use crate::Host;
use crate::profile::{DeviceFigures, DeviceProfile};
use halocline_media::LINE;

/// Parallelism of a core. The values are not from the reference; the defaults are those of the cores it used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoreShape {
    /// Outstanding misses.
    pub misses: usize,
    /// Nanoseconds of work that the core does while it waits for a line: the capacity of its reorder buffer
    /// (224 entries).
    pub window_ns: f64,
    /// Lines that the stream prefetcher runs ahead of sequential reads, at most 64, across pages; 0 disables
    /// it. `None` chooses as many as one core needs to use the full bandwidth of its profile.
    pub ahead: Option<usize>,
}

impl Default for CoreShape {
    fn default() -> CoreShape {
        CoreShape {
            misses: 12,
            window_ns: 50.0,
            ahead: None,
        }
    }
}

/// Upper bound of the lines that the stream prefetcher runs ahead.
pub(crate) const MAX_AHEAD: usize = 64;
/// Upper bound of a core's outstanding misses.
pub(crate) const MAX_MISSES: usize = 64;

/// Latencies and bandwidths in ticks.
#[derive(Debug)]
pub(crate) struct TimingModel {
    pub(crate) ticks_per_ns: f64,
    pub(crate) random: u64,
    pub(crate) next_unit: u64,
    pub(crate) buffered: u64,
    pub(crate) write: u64,
    /// Right shift that converts a line number to a unit number.
    pub(crate) unit_shift: u32,
    /// Ticks that the host itself takes to read a line in sequence; 0 on a virtual clock.
    pub(crate) host_line: u64,
    pub(crate) window: u64,
    pub(crate) misses: usize,
    /// Lines that the stream prefetcher runs ahead; 0 disables it.
    pub(crate) ahead: usize,
    /// Ticks per unit when `n` threads share the device, at index `n - 1`.
    read_unit: Vec<u64>,
    write_unit: Vec<u64>,
}

impl TimingModel {
    pub(crate) fn new(
        profile: &DeviceProfile,
        host: Option<&Host>,
        core: CoreShape,
        ticks_per_ns: f64,
    ) -> TimingModel {
        let ticks = |ns: f64| (ns * ticks_per_ns).round() as u64;
        let DeviceProfile { device, dram, .. } = profile;
        // Map the profile's random DRAM read to the host's, and scale the other latencies in the same
        // proportion.
        let scale = host.map_or(1.0, |host| host.random_ns / dram.random_ns);
        let rates = |of: fn(&DeviceFigures) -> &[f64], measured: Option<&[f64]>| {
            let by_threads = |list: &[f64], n: usize| list[n.min(list.len()) - 1];
            let most = of(device)
                .len()
                .max(of(dram).len())
                .max(measured.map_or(1, <[f64]>::len));
            let rate = |n| {
                let ratio = by_threads(of(device), n) / by_threads(of(dram), n);
                measured.map_or(by_threads(of(device), n), |host| by_threads(host, n) * ratio)
            };
            let most = most.max(64);
            (1..=most)
                .map(|n| ticks(profile.unit as f64 * n as f64 / rate(n)).max(1))
                .collect::<Vec<u64>>()
        };
        let read_unit = rates(|figures| &figures.read_gbps, host.map(|host| &host.read_gbps[..]));
        let write_unit = rates(
            |figures| &figures.write_gbps,
            host.map(|host| &host.write_gbps[..]),
        );
        let lines_of_unit = profile.unit / LINE;
        let random = ticks(device.random_ns * scale);
        let for_bandwidth = random * lines_of_unit / read_unit[0] + 2 * lines_of_unit;
        let for_bandwidth = for_bandwidth.clamp(16, MAX_AHEAD as u64) as usize;
        TimingModel {
            ticks_per_ns,
            random,
            next_unit: ticks(device.next_unit_ns * scale),
            buffered: ticks(device.buffered_ns * scale),
            write: ticks(device.write_ns * scale),
            unit_shift: lines_of_unit.trailing_zeros(),
            host_line: 0,
            window: ticks(core.window_ns.max(0.0)),
            misses: core.misses.clamp(1, MAX_MISSES),
            ahead: core.ahead.unwrap_or(for_bandwidth).min(MAX_AHEAD),
            read_unit,
            write_unit,
        }
    }

    /// Returns the ticks between two unit reads of one of `threads` threads.
    #[inline(always)]
    pub(crate) fn read_unit(&self, threads: usize) -> u64 {
        self.read_unit[threads.clamp(1, self.read_unit.len()) - 1]
    }

    /// Returns the ticks between two unit writes of one of `threads` threads.
    #[inline(always)]
    pub(crate) fn write_unit(&self, threads: usize) -> u64 {
        self.write_unit[threads.clamp(1, self.write_unit.len()) - 1]
    }
}
