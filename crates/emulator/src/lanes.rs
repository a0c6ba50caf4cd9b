//! What all threads of a device share, and the lane that each has for itself: [`Shared`], [`Lanes`].
//!
//! A lane is only touched by its thread, so no lock and no locked instruction is on the way of an access; what others may
//! read of it are the [`Tallies`].
#![allow(unsafe_code, reason = "each thread has its own lane of the device")]

use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::Tags;
use crate::counts::Tallies;
use crate::lane::Lane;
use crate::model::Model;
use crate::threads;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) model: Model,
    pub(crate) cache: Tags,
    /// The device's buffer of units read, and that of units written.
    pub(crate) reads: Option<Tags>,
    pub(crate) writes: Option<Tags>,
    pub(crate) lanes: Lanes,
    /// As [`Device::share_among`](crate::Device::share_among).
    pub(crate) share: AtomicUsize,
}

impl Shared {
    /// Threads that share the device: those whose clock is not more than a millisecond behind.
    pub(crate) fn threads(&self, now: u64) -> usize {
        let share = self.share.load(Ordering::Relaxed);
        if share > 0 {
            return share;
        }
        let since = now.saturating_sub((self.model.ticks_per_ns * 1e6) as u64);
        let active = |tallies: &&Tallies| tallies.position.get() > since;
        self.lanes.tallies().filter(active).count().max(1)
    }
}

/// A lane for each thread, made when it first comes.
#[derive(Debug)]
pub(crate) struct Lanes {
    cells: Box<[OnceLock<Box<LaneCell>>]>,
    /// Lanes that have been used, at most.
    used: AtomicUsize,
}

#[derive(Debug)]
struct LaneCell {
    tallies: Tallies,
    lane: UnsafeCell<Lane>,
}

// SAFETY: `lane` is only used by the thread whose number the cell has (`Lanes::with_own`); two threads never have the
// same number at once, and a lock is between the end of one and the start of the next. `tallies` are atomics.
unsafe impl Sync for LaneCell {}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes {
            cells: (0..threads::MOST).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
        }
    }

    /// What each lane has counted.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Tallies> {
        self.places().flatten()
    }

    /// The same by place, with those that no thread has had.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&Tallies>> {
        let used = self.used.load(Ordering::Acquire);
        let cells = self.cells[..used].iter();
        cells.map(|cell| cell.get().map(|cell| &cell.tallies))
    }

    /// With the lane of this thread, which starts at the time `reached` if it is new to it.
    #[inline(always)]
    pub(crate) fn with_own<R>(
        &self,
        reached: impl Fn() -> u64,
        act: impl FnOnce(&mut Lane, &Tallies) -> R,
    ) -> R {
        let key = threads::key();
        let number = key as usize % threads::MOST;
        let cell = match self.cells[number].get() {
            Some(cell) => cell,
            None => self.new_lane(number),
        };
        // SAFETY: this thread alone has the number, so it alone gets here with this cell; `act` is the device's code,
        // which does not come here again.
        let lane = unsafe { &mut *cell.lane.get() };
        if lane.owner != key {
            Self::take(lane, &cell.tallies, key, reached);
        }
        act(lane, &cell.tallies)
    }

    #[cold]
    fn new_lane(&self, number: usize) -> &LaneCell {
        let cell = self.cells[number].get_or_init(|| {
            Box::new(LaneCell {
                tallies: Tallies::default(),
                lane: UnsafeCell::new(Lane::new(0)),
            })
        });
        self.used.fetch_max(number + 1, Ordering::Release);
        cell
    }

    #[cold]
    fn take(lane: &mut Lane, tallies: &Tallies, key: u64, reached: impl Fn() -> u64) {
        let now = reached();
        tallies.skipped.add(now.saturating_sub(tallies.position.get()));
        tallies.position.set(now.max(tallies.position.get()));
        *lane = Lane::new(now);
        lane.owner = key;
    }
}
