//! State that all threads of a device share, and the private lane of each: [`DeviceState`], [`CoreLanes`].
//!
//! Only its own thread uses a lane, so an access takes no lock and executes no locked instruction. Other
//! threads may read its [`ThreadCounters`].
#![allow(unsafe_code, reason = "each thread has its own lane of the device")]

use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::CacheTags;
use crate::counts::ThreadCounters;
use crate::lane::CoreLane;
use crate::model::TimingModel;
use crate::thread_keys;

/// State shared by all threads of a device.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) model: TimingModel,
    pub(crate) cache: CacheTags,
    /// The device's buffers of units read and of units written.
    pub(crate) reads: Option<CacheTags>,
    pub(crate) writes: Option<CacheTags>,
    pub(crate) lanes: CoreLanes,
    /// Fixed thread count of [`Device::share_among`](crate::Device::share_among), or 0.
    pub(crate) share: AtomicUsize,
}

impl DeviceState {
    /// Returns the number of threads that share the device: those whose clock is at most a millisecond
    /// behind.
    pub(crate) fn threads(&self, now: u64) -> usize {
        let share = self.share.load(Ordering::Relaxed);
        if share > 0 {
            return share;
        }
        let since = now.saturating_sub((self.model.ticks_per_ns * 1e6) as u64);
        let active = |counters: &&ThreadCounters| counters.position.get() > since;
        self.lanes.counters().filter(active).count().max(1)
    }
}

/// One lane per thread, created on first use.
#[derive(Debug)]
pub(crate) struct CoreLanes {
    cells: Box<[OnceLock<Box<LaneCell>>]>,
    /// Exclusive upper bound of the lane numbers in use.
    used: AtomicUsize,
}

#[derive(Debug)]
struct LaneCell {
    counters: ThreadCounters,
    lane: UnsafeCell<CoreLane>,
}

// SAFETY: `lane` is only used by the thread whose number the cell has (`CoreLanes::with_own`); two threads
// never have the same number at once, and a lock is between the end of one and the start of the next.
// `counters` are atomics.
unsafe impl Sync for LaneCell {}

impl CoreLanes {
    pub(crate) fn new() -> CoreLanes {
        CoreLanes {
            cells: (0..thread_keys::MAX_THREADS).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
        }
    }

    /// Returns the counters of each lane in use.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &ThreadCounters> {
        self.places().flatten()
    }

    /// Returns the counters by lane number, with `None` for numbers that no thread has used.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&ThreadCounters>> {
        let used = self.used.load(Ordering::Acquire);
        let cells = self.cells[..used].iter();
        cells.map(|cell| cell.get().map(|cell| &cell.counters))
    }

    /// Calls `act` with the lane of this thread, which starts at the time `reached` if the thread is new.
    #[inline(always)]
    pub(crate) fn with_own<R>(
        &self,
        reached: impl Fn() -> u64,
        act: impl FnOnce(&mut CoreLane, &ThreadCounters) -> R,
    ) -> R {
        let key = thread_keys::key();
        let number = key as usize % thread_keys::MAX_THREADS;
        let cell = match self.cells[number].get() {
            Some(cell) => cell,
            None => self.new_lane(number),
        };
        // SAFETY: this thread alone has the number, so it alone gets here with this cell; `act` is the
        // device's code, which does not come here again.
        let lane = unsafe { &mut *cell.lane.get() };
        if lane.owner != key {
            Self::take(lane, &cell.counters, key, reached);
        }
        act(lane, &cell.counters)
    }

    #[cold]
    fn new_lane(&self, number: usize) -> &LaneCell {
        let cell = self.cells[number].get_or_init(|| {
            Box::new(LaneCell {
                counters: ThreadCounters::default(),
                lane: UnsafeCell::new(CoreLane::new(0)),
            })
        });
        // After the cell is initialised, so that readers of `used` find its counters.
        self.used.fetch_max(number + 1, Ordering::Release);
        cell
    }

    #[cold]
    fn take(lane: &mut CoreLane, counters: &ThreadCounters, key: u64, reached: impl Fn() -> u64) {
        let now = reached();
        counters.skipped.add(now.saturating_sub(counters.position.get()));
        counters.position.set(now.max(counters.position.get()));
        *lane = CoreLane::new(now);
        lane.owner = key;
    }
}
