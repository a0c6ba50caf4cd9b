//! The emulated device itself: [`Device`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Host;
use crate::cache::Tags;
use crate::clock;
use crate::counts::{Counts, Tallies};
use crate::lane::{BULK, Lane};
use crate::lanes::{Lanes, Shared};
use crate::model::Model;
use crate::own::{OwnCost, OwnTicks};
use crate::profile::DeviceProfile;
use crate::spec::{Clock, EmulatedSpec};
use halocline_media::{LINE, MediaError};

/// Calls whose cost may be owed: a charge that was too high for a while is not taken off work for long after.
const MOST_OWED: u64 = 64;

/// Ticks of a virtual nanosecond.
const VIRTUAL_TICKS: f64 = 1000.0;

/// An emulated device below a modelled cache. Any number of threads may use it at once.
///
/// Addresses are its own: 64-bit numbers, of which each user takes a range with [`Device::reserve`].
///
/// # Panics
/// When more than 1024 threads use emulated devices at once.
#[derive(Debug)]
pub struct Device {
    shared: Shared,
    spec: EmulatedSpec,
    host: Option<Host>,
    delay: bool,
    born: u64,
    /// What the model takes itself.
    own: OwnCost,
    own_ticks: OwnTicks,
    /// Ticks that a call costs its caller beside them.
    charge: AtomicU64,
    addresses: AtomicU64,
}

impl Device {
    /// A device as described. Measures the host first if it is relative and no [`Host`] is given, which takes about two
    /// seconds once a process.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`] of that measurement.
    pub fn new(spec: &EmulatedSpec) -> Result<Arc<Device>, MediaError> {
        let host = match (&spec.host, spec.absolute) {
            (_, true) => None,
            (Some(host), false) => Some(host.clone()),
            (None, false) => Some(Host::get()?),
        };
        let own = OwnCost::of(spec.clock);
        Ok(Arc::new(Device::build(spec, host, own)))
    }

    pub(crate) fn build(spec: &EmulatedSpec, host: Option<Host>, own: OwnCost) -> Device {
        let delay = spec.clock == Clock::Delay;
        let ticks_per_ns = if delay {
            clock::ticks_per_ns()
        } else {
            VIRTUAL_TICKS
        };
        let mut model = Model::new(&spec.profile, host.as_ref(), spec.core, ticks_per_ns);
        if delay && let Some(host) = &host {
            model.host_line = (LINE as f64 / host.read_gbps[0] * ticks_per_ns) as u64;
        }
        let buffer = || Tags::buffer(spec.profile.buffer_units);
        Device {
            shared: Shared {
                model,
                cache: Tags::new(spec.cache),
                reads: buffer(),
                writes: buffer(),
                lanes: Lanes::new(),
                share: 0.into(),
            },
            spec: spec.clone(),
            host,
            delay,
            born: if delay { clock::now() } else { 0 },
            own,
            own_ticks: own.ticks(ticks_per_ns),
            charge: AtomicU64::new(0),
            addresses: AtomicU64::new(0),
        }
    }

    /// What it was made from.
    pub fn spec(&self) -> &EmulatedSpec {
        &self.spec
    }

    /// The profile it shows.
    pub fn profile(&self) -> &DeviceProfile {
        &self.spec.profile
    }

    /// The host it is relative to; `None` when it is absolute.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// A range of `len` addresses for one more user; returns where it starts, at a multiple of 2 MiB.
    pub fn reserve(&self, len: u64) -> u64 {
        const ALIGN: u64 = 2 << 20;
        self.addresses
            .fetch_add(len.max(1).next_multiple_of(ALIGN), Ordering::Relaxed)
    }

    /// Says that `len` bytes from the address on are about to be read: returns when the model lets the core go on.
    #[inline(always)]
    pub fn touch(&self, at: u64, len: usize) {
        self.touch_real(at, len, &[]);
    }

    /// As [`touch`](Device::touch), with the bytes themselves: what they take to come to the CPU on this host is then part of the
    /// device's latency, not added to it.
    #[inline(always)]
    pub fn touch_real(&self, at: u64, len: usize, bytes: &[u8]) {
        let (first, last) = (at / LINE, at.saturating_add(len.max(1) as u64 - 1) / LINE);
        self.with_lane(|lane, tallies| {
            if first == last && !lane.busy && first == lane.last {
                tallies.hits.add(1);
                lane.hits += 1;
            } else {
                self.touch_slowly(lane, tallies, first, last, bytes);
            }
        });
    }

    /// As [`touch_real`](Device::touch_real) for `len` bytes from `offset` on, as far as there are, of bytes that begin at
    /// the address `base`.
    #[inline]
    pub fn touch_bytes(&self, base: u64, bytes: &[u8], offset: usize, len: usize) {
        let end = offset.saturating_add(len).min(bytes.len());
        if let Some(read) = bytes.get(offset..end)
            && !read.is_empty()
        {
            self.touch_real(base + offset as u64, read.len(), read);
        }
    }

    /// Says that `len` bytes from the address on are about to be read from front to back, line by line with the work that is
    /// done on them: the transfer goes on beside that work, and lines behind are fetched ahead. The model lets the core go on
    /// when the first line is there, and makes it wait for the last one at its next access.
    pub fn scan(&self, at: u64, len: usize) {
        if len > 0 {
            self.with_lane(|lane, tallies| {
                self.enter(lane, tallies);
                lane.scan(&self.shared, tallies, at / LINE, (at + len as u64 - 1) / LINE);
                self.leave(lane, tallies, false);
            });
        }
    }

    /// Says that the core has asked for `len` bytes from the address on, which a [`scan`](Device::scan) that goes on there is to
    /// read: they come without a wait. Where no scan is expected, nothing happens.
    pub fn scan_ahead(&self, at: u64, len: usize) {
        if len > 0 {
            self.with_lane(|lane, tallies| {
                self.enter(lane, tallies);
                lane.scan_ahead(&self.shared, tallies, at / LINE, (at + len as u64 - 1) / LINE);
                self.leave(lane, tallies, false);
            });
        }
    }

    /// Says that the lines of these addresses are about to be read, none of which is known by what is in another: they come side
    /// by side, as far as the core can have misses in flight.
    pub fn touch_each(&self, addresses: impl Iterator<Item = u64>) {
        self.with_lane(|lane, tallies| {
            self.enter(lane, tallies);
            let missed = lane.touch_each(&self.shared, tallies, addresses.map(|at| at / LINE));
            self.leave(lane, tallies, missed);
        });
    }

    #[inline(never)]
    fn touch_slowly(&self, lane: &mut Lane, tallies: &Tallies, first: u64, last: u64, bytes: &[u8]) {
        self.enter(lane, tallies);
        let missed = lane.touch(&self.shared, tallies, first, last);
        if self.delay && missed && last - first < BULK {
            for byte in bytes.iter().step_by(LINE as usize).chain(bytes.last()) {
                std::hint::black_box(*byte);
            }
        }
        self.leave(lane, tallies, missed);
    }

    /// Starts to fetch the line at the address: it is then there earlier.
    #[inline(always)]
    pub fn prefetch(&self, at: u64) {
        let line = at / LINE;
        self.with_lane(|lane, tallies| self.prefetch_line(lane, tallies, line));
    }

    #[inline(never)]
    fn prefetch_line(&self, lane: &mut Lane, tallies: &Tallies, line: u64) {
        self.enter(lane, tallies);
        if !self.shared.cache.access(line) {
            lane.prefetch(&self.shared, tallies, line);
        }
        self.leave(lane, tallies, false);
    }

    /// Says that `len` bytes from the address on were written: the cache has them now.
    pub fn wrote(&self, at: u64, len: usize) {
        for line in at / LINE..(at + len as u64).div_ceil(LINE) {
            self.shared.cache.access(line);
        }
    }

    /// Sends the lines of a range on their way to the device.
    pub fn flush(&self, at: u64, len: u64) {
        if len > 0 {
            self.with_lane(|lane, tallies| {
                self.enter(lane, tallies);
                lane.flush(&self.shared, tallies, at / LINE, (at + len - 1) / LINE);
                self.leave(lane, tallies, false);
            });
        }
    }

    /// Waits until the device has accepted what this thread has flushed.
    pub fn fence(&self) {
        self.with_lane(|lane, tallies| {
            self.enter(lane, tallies);
            lane.fence(tallies);
            self.leave(lane, tallies, false);
        });
    }

    /// Waits for everything this thread has touched: at the end of a measurement.
    pub fn settle(&self) {
        self.with_lane(|lane, tallies| {
            self.enter(lane, tallies);
            lane.settle();
            self.leave(lane, tallies, false);
        });
    }

    /// Adds work of this thread to its virtual clock. Real time needs no such call.
    pub fn work(&self, time: Duration) {
        if !self.delay {
            self.with_lane(|lane, tallies| {
                lane.worked((time.as_secs_f64() * 1e9 * VIRTUAL_TICKS) as u64);
                // The rules for what is awaited are only in the long way.
                lane.busy = true;
                tallies.position.set(lane.position());
            });
        }
    }

    /// What has been done so far, by all threads.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for tallies in self.shared.lanes.tallies() {
            tallies.add_to(&mut sum);
        }
        sum
    }

    /// Virtual: the time of the thread that is furthest. Delay: real time since the device was made.
    pub fn elapsed(&self) -> Duration {
        let position = if self.delay { clock::now() } else { self.furthest() };
        self.duration(position.saturating_sub(self.born))
    }

    /// Fixes the number of threads that share the device's bandwidth; 0 goes back to counting those that use it.
    pub fn share_among(&self, threads: usize) {
        self.shared.share.store(threads, Ordering::Relaxed);
    }

    /// Empties the modelled cache and the device's buffers. Threads that use it meanwhile do no harm.
    pub fn drop_caches(&self) {
        let Shared {
            cache, reads, writes, ..
        } = &self.shared;
        for tags in [Some(cache), reads.as_ref(), writes.as_ref()]
            .into_iter()
            .flatten()
        {
            tags.clear();
        }
    }

    /// What the model takes itself for an access, as measured when the device was made; of all of them it is the
    /// [`overrun`](Device::overrun).
    pub fn own_cost(&self) -> OwnCost {
        self.own
    }

    /// Says what each call costs its caller on top of [`own_cost`](Device::own_cost): what would have overlapped has to be over
    /// before the model looks at the clock. It depends on the caller, so it is measured there: what the same takes on a
    /// device of the host's own figures more than without one, for each of the [`calls`](Counts::calls). From then on it is
    /// no work of the modelled core but part of the [`overrun`](Device::overrun).
    pub fn charge(&self, call: Duration) {
        let ticks = call.as_secs_f64() * 1e9 * self.shared.model.ticks_per_ns;
        self.charge.store(ticks as u64, Ordering::Relaxed);
    }

    /// What was [charged](Device::charge).
    pub fn charged(&self) -> Duration {
        self.duration(self.charge.load(Ordering::Relaxed))
    }

    /// Real time, of all threads together, that the model's own computing took, and reads of the host within it. It comes
    /// on top of the delays: subtract it from what a clock on the wall shows, or state it. [`Watch`](crate::Watch) does.
    pub fn overrun(&self) -> Duration {
        self.overruns().iter().sum()
    }

    /// [`overrun`](Device::overrun) of each thread. A place belongs to the same thread as long as that lives.
    pub fn overruns(&self) -> Vec<Duration> {
        let of = |tallies: Option<&Tallies>| tallies.map_or(0, |tallies| tallies.overrun.get());
        let places = self.shared.lanes.places();
        places.map(|place| self.duration(of(place))).collect()
    }

    /// Time on the device's clock that each thread has spent, in the same places.
    pub(crate) fn spent(&self) -> Vec<Duration> {
        let of = |tallies: Option<&Tallies>| {
            tallies.map_or(0, |tallies| {
                tallies.position.get().saturating_sub(tallies.skipped.get())
            })
        };
        let places = self.shared.lanes.places();
        places.map(|place| self.duration(of(place))).collect()
    }

    /// Time on the device's clock that this thread has spent.
    pub(crate) fn own_spent(&self) -> Duration {
        let spent = |tallies: &Tallies| tallies.position.get().saturating_sub(tallies.skipped.get());
        self.duration(self.with_lane(|_, tallies| spent(tallies)))
    }

    /// Time, of all threads together, for which the modelled cores waited for the device. Only where accesses are delayed.
    pub fn waited(&self) -> Duration {
        let tallies = self.shared.lanes.tallies();
        self.duration(tallies.map(|tallies| tallies.waited.get()).sum())
    }

    /// [`overrun`](Device::overrun) of this thread.
    pub fn own_overrun(&self) -> Duration {
        self.duration(self.with_lane(|_, tallies| tallies.overrun.get()))
    }

    fn duration(&self, ticks: u64) -> Duration {
        Duration::from_nanos((ticks as f64 / self.shared.model.ticks_per_ns) as u64)
    }

    pub(crate) fn ticks_per_ns(&self) -> f64 {
        self.shared.model.ticks_per_ns
    }

    /// Ticks of work that this thread's lane has seen.
    pub(crate) fn worked(&self) -> u64 {
        self.with_lane(|lane, _| lane.work)
    }

    fn furthest(&self) -> u64 {
        let positions = self.shared.lanes.tallies().map(|tallies| tallies.position.get());
        positions.max().unwrap_or(self.born)
    }

    /// With the lane of this thread; one that comes later starts at the time that has been reached.
    #[inline(always)]
    fn with_lane<R>(&self, act: impl FnOnce(&mut Lane, &Tallies) -> R) -> R {
        let reached = || if self.delay { clock::now() } else { self.furthest() };
        self.shared.lanes.with_own(reached, act)
    }

    /// Adds the work since the model was left.
    #[inline(always)]
    fn enter(&self, lane: &mut Lane, tallies: &Tallies) {
        tallies.calls.add(1);
        if self.delay {
            let now = clock::now_after_loads();
            let (since, own) = (now - lane.left, &self.own_ticks);
            // What one call cost its caller may show only after the next one: the rest is owed.
            let call = own.clock + self.charge.load(Ordering::Relaxed);
            let owed = lane.owed + call + lane.hits * own.hit;
            let model = owed.min(since);
            lane.owed = (owed - model).min(MOST_OWED * call);
            lane.worked(since - model);
            tallies.overrun.add(model);
            (lane.entered, lane.before) = (now, lane.now);
        }
        lane.hits = 0;
    }

    /// Waits as long as the core of the model did. What the model computed meanwhile took real time that the core knows
    /// nothing of.
    #[inline(always)]
    fn leave(&self, lane: &mut Lane, tallies: &Tallies, loaded: bool) {
        if self.delay {
            let now = if loaded {
                clock::now_after_loads()
            } else {
                clock::now()
            };
            tallies.overrun.add(now - lane.entered);
            let stall = lane.now - lane.before;
            tallies.waited.add(stall);
            lane.left = if stall > 0 {
                clock::wait_until(now + stall)
            } else {
                now
            };
            lane.behind = lane.left.saturating_sub(lane.now);
        }
        tallies.position.set(lane.position() + lane.behind);
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
