//! The emulated device: [`Device`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Host;
use crate::cache::CacheTags;
use crate::clock;
use crate::counts::{Counts, ThreadCounters};
use crate::lane::{CoreLane, MIN_BULK_LINES};
use crate::model::TimingModel;
use crate::overhead::{ModelOverhead, OverheadTicks};
use crate::profile::DeviceProfile;
use crate::shared::{CoreLanes, DeviceState};
use crate::spec::{ClockMode, EmulatedSpec};
use halocline_media::{LINE, MediaError};

/// Upper bound of the overhead carried over to later calls, in calls. It limits how long a charge that was
/// too high keeps reducing the measured work.
const MAX_OWED_CALLS: u64 = 64;

/// Ticks per nanosecond of the virtual clock.
const VIRTUAL_TICKS: f64 = 1000.0;

/// An emulated device below a modelled cache, shared by any number of threads.
///
/// The device has its own 64-bit address space; each user reserves a range with [`Device::reserve`].
///
/// # Panics
/// Access panics if more than 1024 threads use emulated devices at once.
#[derive(Debug)]
pub struct Device {
    shared: DeviceState,
    spec: EmulatedSpec,
    host: Option<Host>,
    delay: bool,
    born: u64,
    /// The model's own overhead per call.
    own: ModelOverhead,
    overhead_ticks: OverheadTicks,
    /// Ticks that each call costs its caller in addition to the model's own overhead.
    charge: AtomicU64,
    addresses: AtomicU64,
}

impl Device {
    /// Creates a device. A relative device without a given [`Host`] measures this host first, which takes
    /// about a second once per process.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`] if that measurement cannot allocate its buffers.
    pub fn new(spec: &EmulatedSpec) -> Result<Arc<Device>, MediaError> {
        let host = match (&spec.host, spec.absolute) {
            (_, true) => None,
            (Some(host), false) => Some(host.clone()),
            (None, false) => Some(Host::get()?),
        };
        let own = ModelOverhead::for_clock(spec.clock);
        Ok(Arc::new(Device::build(spec, host, own)))
    }

    pub(crate) fn build(spec: &EmulatedSpec, host: Option<Host>, own: ModelOverhead) -> Device {
        let delay = spec.clock == ClockMode::Delay;
        let ticks_per_ns = if delay {
            clock::ticks_per_ns()
        } else {
            VIRTUAL_TICKS
        };
        let mut model = TimingModel::new(&spec.profile, host.as_ref(), spec.core, ticks_per_ns);
        if delay && let Some(host) = &host {
            model.host_line = (LINE as f64 / host.read_gbps[0] * ticks_per_ns) as u64;
        }
        let buffer = || CacheTags::buffer(spec.profile.buffer_units);
        Device {
            shared: DeviceState {
                model,
                cache: CacheTags::new(spec.cache),
                reads: buffer(),
                writes: buffer(),
                lanes: CoreLanes::new(),
                share: 0.into(),
            },
            spec: spec.clone(),
            host,
            delay,
            born: if delay { clock::now() } else { 0 },
            own,
            overhead_ticks: own.ticks(ticks_per_ns),
            charge: AtomicU64::new(0),
            addresses: AtomicU64::new(0),
        }
    }

    /// Returns the specification of the device.
    pub fn spec(&self) -> &EmulatedSpec {
        &self.spec
    }

    /// Returns the emulated profile.
    pub fn profile(&self) -> &DeviceProfile {
        &self.spec.profile
    }

    /// Returns the host that figures are relative to, or `None` if they are absolute.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Returns the modelled sequential read bandwidth of `threads` threads together, in bytes per second.
    pub fn read_bandwidth(&self, threads: usize) -> f64 {
        self.bandwidth(threads, self.shared.model.read_unit(threads))
    }

    /// Returns the modelled sequential write bandwidth of `threads` threads together, in bytes per second.
    pub fn write_bandwidth(&self, threads: usize) -> f64 {
        self.bandwidth(threads, self.shared.model.write_unit(threads))
    }

    /// Returns the modelled time of a random read that waits for the read before, in nanoseconds.
    pub fn random_read_ns(&self) -> f64 {
        self.shared.model.random as f64 / self.shared.model.ticks_per_ns
    }

    /// Returns the bytes per second of threads that each move a unit in some ticks.
    fn bandwidth(&self, threads: usize, ticks: u64) -> f64 {
        let bytes = (self.spec.profile.unit * threads.max(1) as u64) as f64;
        bytes * self.shared.model.ticks_per_ns * 1e9 / ticks as f64
    }

    /// Reserves a range of `len` addresses and returns its start, a multiple of 2 MiB.
    pub fn reserve(&self, len: u64) -> u64 {
        const ALIGN: u64 = 2 << 20;
        self.addresses
            .fetch_add(len.max(1).next_multiple_of(ALIGN), Ordering::Relaxed)
    }

    /// Charges a read of `len` bytes at `address`. Returns when the modelled core may continue.
    #[inline(always)]
    pub fn touch(&self, address: u64, len: usize) {
        self.touch_real(address, len, &[]);
    }

    /// Charges a read like [`touch`](Device::touch) and reads `bytes` on the host, so that the host's own
    /// latency becomes part of the device's latency instead of adding to it.
    #[inline(always)]
    pub fn touch_real(&self, address: u64, len: usize, bytes: &[u8]) {
        let (first, last) = (
            address / LINE,
            address.saturating_add(len.max(1) as u64 - 1) / LINE,
        );
        self.with_lane(|lane, counters| {
            if first == last && !lane.busy && first == lane.last {
                counters.hits.add(1);
                lane.hits += 1;
            } else {
                self.touch_slowly(lane, counters, first, last, bytes);
            }
        });
    }

    /// Charges a read of `len` bytes from `offset` of `bytes`, which begin at the address `base`. The range
    /// is clamped to the length of `bytes`.
    #[inline]
    pub fn touch_bytes(&self, base: u64, bytes: &[u8], offset: usize, len: usize) {
        let end = offset.saturating_add(len).min(bytes.len());
        if let Some(read) = bytes.get(offset..end)
            && !read.is_empty()
        {
            self.touch_real(base + offset as u64, read.len(), read);
        }
    }

    /// Charges a sequential read of `len` bytes at `address` that the core processes line by line. The
    /// transfer overlaps with the processing, and lines after the range are fetched ahead. The modelled
    /// core continues when the first line has arrived, and waits for the last one at its next access.
    pub fn scan(&self, address: u64, len: usize) {
        if len > 0 {
            self.with_lane(|lane, counters| {
                self.enter(lane, counters);
                lane.scan(
                    &self.shared,
                    counters,
                    address / LINE,
                    (address + len as u64 - 1) / LINE,
                );
                self.leave(lane, counters, false);
            });
        }
    }

    /// Fetches `len` bytes at `address` ahead for a [`scan`](Device::scan) that is expected to continue
    /// there. Does nothing if no scan is expected at that address.
    pub fn scan_ahead(&self, address: u64, len: usize) {
        if len > 0 {
            self.with_lane(|lane, counters| {
                self.enter(lane, counters);
                lane.scan_ahead(
                    &self.shared,
                    counters,
                    address / LINE,
                    (address + len as u64 - 1) / LINE,
                );
                self.leave(lane, counters, false);
            });
        }
    }

    /// Charges reads of independent lines, which overlap up to the number of misses that the core can have
    /// outstanding.
    pub fn touch_each(&self, addresses: impl Iterator<Item = u64>) {
        self.with_lane(|lane, counters| {
            self.enter(lane, counters);
            let missed = lane.touch_each(&self.shared, counters, addresses.map(|address| address / LINE));
            self.leave(lane, counters, missed);
        });
    }

    #[inline(never)]
    fn touch_slowly(
        &self,
        lane: &mut CoreLane,
        counters: &ThreadCounters,
        first: u64,
        last: u64,
        bytes: &[u8],
    ) {
        self.enter(lane, counters);
        let missed = lane.touch(&self.shared, counters, first, last);
        if self.delay && missed && last - first < MIN_BULK_LINES {
            for byte in bytes.iter().step_by(LINE as usize).chain(bytes.last()) {
                std::hint::black_box(*byte);
            }
        }
        self.leave(lane, counters, missed);
    }

    /// Starts to fetch the line at `address`.
    #[inline(always)]
    pub fn prefetch(&self, address: u64) {
        let line = address / LINE;
        self.with_lane(|lane, counters| self.prefetch_line(lane, counters, line));
    }

    #[inline(never)]
    fn prefetch_line(&self, lane: &mut CoreLane, counters: &ThreadCounters, line: u64) {
        self.enter(lane, counters);
        if !self.shared.cache.access(line) {
            lane.prefetch(&self.shared, counters, line);
        }
        self.leave(lane, counters, false);
    }

    /// Records that `len` bytes at `address` were written, which puts their lines into the cache.
    pub fn wrote(&self, address: u64, len: usize) {
        for line in address / LINE..(address + len as u64).div_ceil(LINE) {
            self.shared.cache.access(line);
        }
    }

    /// Writes the lines of a range back to the device.
    pub fn flush(&self, address: u64, len: u64) {
        if len > 0 {
            self.with_lane(|lane, counters| {
                self.enter(lane, counters);
                lane.flush(&self.shared, counters, address / LINE, (address + len - 1) / LINE);
                self.leave(lane, counters, false);
            });
        }
    }

    /// Waits until the device has accepted the lines that this thread has flushed.
    pub fn fence(&self) {
        self.with_lane(|lane, counters| {
            self.enter(lane, counters);
            lane.fence(counters);
            self.leave(lane, counters, false);
        });
    }

    /// Waits until everything that this thread has touched has arrived. Call it at the end of a measurement.
    pub fn settle(&self) {
        self.with_lane(|lane, counters| {
            self.enter(lane, counters);
            lane.settle();
            self.leave(lane, counters, false);
        });
    }

    /// Adds CPU work of this thread to its virtual clock. Has no effect if accesses are delayed in real time.
    pub fn work(&self, time: Duration) {
        if !self.delay {
            self.with_lane(|lane, counters| {
                lane.advance((time.as_secs_f64() * 1e9 * VIRTUAL_TICKS) as u64);
                // The fast path of `touch` skips the rules for pending accesses, so force the slow one.
                lane.busy = true;
                counters.position.set(lane.position());
            });
        }
    }

    /// Returns the sum of all threads' counters.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counters in self.shared.lanes.counters() {
            counters.add_to(&mut sum);
        }
        sum
    }

    /// Returns the time of the furthest thread on a virtual clock, or the real time since the device was
    /// created.
    pub fn elapsed(&self) -> Duration {
        let position = if self.delay { clock::now() } else { self.furthest() };
        self.duration(position.saturating_sub(self.born))
    }

    /// Fixes the number of threads that share the device's bandwidth; 0 restores automatic counting.
    pub fn share_among(&self, threads: usize) {
        self.shared.share.store(threads, Ordering::Relaxed);
    }

    /// Empties the modelled cache and the device's buffers. Other threads may use the device meanwhile.
    pub fn drop_caches(&self) {
        let DeviceState {
            cache, reads, writes, ..
        } = &self.shared;
        for tags in [Some(cache), reads.as_ref(), writes.as_ref()]
            .into_iter()
            .flatten()
        {
            tags.clear();
        }
    }

    /// Returns the model's own overhead per access, measured when the device was created.
    /// [`overrun`](Device::overrun) is its sum over all accesses.
    pub fn model_overhead(&self) -> ModelOverhead {
        self.own
    }

    /// Sets what each call costs its caller in addition to [`model_overhead`](Device::model_overhead): loads
    /// that would have overlapped must complete before the model reads the clock. The cost depends on the
    /// caller, which measures it as the extra time per [call](Counts::calls) of the same work on a device
    /// with the host's own figures. It then counts as [`overrun`](Device::overrun) instead of as work of
    /// the modelled core.
    pub fn charge(&self, call: Duration) {
        let ticks = call.as_secs_f64() * 1e9 * self.shared.model.ticks_per_ns;
        self.charge.store(ticks as u64, Ordering::Relaxed);
    }

    /// Returns the cost set by [`charge`](Device::charge).
    pub fn charged(&self) -> Duration {
        self.duration(self.charge.load(Ordering::Relaxed))
    }

    /// Returns the real time that the model itself took in all threads, including the host reads within it.
    /// It comes on top of the modelled delays, so a measurement must subtract or report it, as
    /// [`Watch`](crate::Watch) does.
    pub fn overrun(&self) -> Duration {
        self.overruns().iter().sum()
    }

    /// Returns the [`overrun`](Device::overrun) of each thread. An index belongs to one thread for as long as
    /// it lives.
    pub fn overruns(&self) -> Vec<Duration> {
        let of = |counters: Option<&ThreadCounters>| counters.map_or(0, |counters| counters.overrun.get());
        let places = self.shared.lanes.places();
        places.map(|place| self.duration(of(place))).collect()
    }

    /// Returns the time on the device's clock that each thread has spent, indexed like
    /// [`overruns`](Device::overruns).
    pub(crate) fn spent(&self) -> Vec<Duration> {
        let of = |counters: Option<&ThreadCounters>| {
            counters.map_or(0, |counters| {
                counters.position.get().saturating_sub(counters.skipped.get())
            })
        };
        let places = self.shared.lanes.places();
        places.map(|place| self.duration(of(place))).collect()
    }

    /// Returns the time on the device's clock that this thread has spent.
    pub(crate) fn own_spent(&self) -> Duration {
        let spent =
            |counters: &ThreadCounters| counters.position.get().saturating_sub(counters.skipped.get());
        self.duration(self.with_lane(|_, counters| spent(counters)))
    }

    /// Returns the time for which the modelled cores of all threads were stalled. Zero on a virtual clock.
    pub fn waited(&self) -> Duration {
        let counters = self.shared.lanes.counters();
        self.duration(counters.map(|counters| counters.waited.get()).sum())
    }

    /// Returns the [`overrun`](Device::overrun) of this thread.
    pub fn own_overrun(&self) -> Duration {
        self.duration(self.with_lane(|_, counters| counters.overrun.get()))
    }

    fn duration(&self, ticks: u64) -> Duration {
        Duration::from_nanos((ticks as f64 / self.shared.model.ticks_per_ns) as u64)
    }

    pub(crate) fn ticks_per_ns(&self) -> f64 {
        self.shared.model.ticks_per_ns
    }

    /// Returns the ticks of work that this thread's lane has recorded.
    pub(crate) fn recorded_work(&self) -> u64 {
        self.with_lane(|lane, _| lane.work)
    }

    fn furthest(&self) -> u64 {
        let positions = self
            .shared
            .lanes
            .counters()
            .map(|counters| counters.position.get());
        positions.max().unwrap_or(self.born)
    }

    /// Calls `act` with the lane of this thread. A new thread's lane starts at the time that has been
    /// reached.
    #[inline(always)]
    fn with_lane<R>(&self, act: impl FnOnce(&mut CoreLane, &ThreadCounters) -> R) -> R {
        let reached = || if self.delay { clock::now() } else { self.furthest() };
        self.shared.lanes.with_own(reached, act)
    }

    /// Adds the work done since the model was left.
    #[inline(always)]
    fn enter(&self, lane: &mut CoreLane, counters: &ThreadCounters) {
        counters.calls.add(1);
        if self.delay {
            let now = clock::now_after_loads();
            let (since, own) = (now - lane.left, &self.overhead_ticks);
            // The cost of a call may show only after the next one, so the part that exceeds the elapsed time
            // carries over.
            let call = own.clock + self.charge.load(Ordering::Relaxed);
            let owed = lane.owed + call + lane.hits * own.hit;
            let model = owed.min(since);
            lane.owed = (owed - model).min(MAX_OWED_CALLS * call);
            lane.advance(since - model);
            counters.overrun.add(model);
            (lane.entered, lane.before) = (now, lane.now);
        }
        lane.hits = 0;
    }

    /// Waits for as long as the modelled core stalled. The time that the model computed counts as overrun,
    /// because the modelled core did not spend it.
    #[inline(always)]
    fn leave(&self, lane: &mut CoreLane, counters: &ThreadCounters, loaded: bool) {
        if self.delay {
            let now = if loaded {
                clock::now_after_loads()
            } else {
                clock::now()
            };
            counters.overrun.add(now - lane.entered);
            let stall = lane.now - lane.before;
            counters.waited.add(stall);
            lane.left = if stall > 0 {
                clock::wait_until(now + stall)
            } else {
                now
            };
            lane.behind = lane.left.saturating_sub(lane.now);
        }
        counters.position.set(lane.position() + lane.behind);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "emulated {}, {}, {}, cache {} MiB",
            self.spec.profile.name,
            if self.host.is_some() {
                "relative"
            } else {
                "absolute"
            },
            if self.delay { "delay" } else { "virtual" },
            self.spec.cache.bytes() as f64 / f64::from(1 << 20),
        )
    }
}
