//! Every crash of small workloads on the tracked medium: what was acknowledged is there, wholly, and no cas
//! value repeats.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use halocline_cache::PolicyKind;
use halocline_media::Tracked;
use halocline_media::explore::{Explorer, Report, Violation};
use halocline_pool::Pool;

use super::{Arithmetic, Calculated, Items, Lookup, Removal, RemoveOutcome, Write, WriteOutcome};
use crate::eviction::Evictor;
use crate::fault::{MemcachedFault, with};
use crate::protocol::StoreMode;
use crate::settings::Durability;

/// A command of a workload on the item of a number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Stores so many bytes.
    Set(u8, usize),
    /// The same with the cas value of the item.
    Cas(u8, usize),
    /// Stores so many bytes for each of the numbers, in one commit.
    Together(u8, u8, usize),
    /// Sets the counter, or adds to it.
    Incr(u8),
    Delete(u8),
    /// Lets the item expire after seconds.
    Touch(u8, i64),
    /// Lets seconds pass.
    Pass(u64),
    Flush,
    /// Syncs, as group durability does again and again.
    Sync,
}

pub(super) use Step::{Cas, Delete, Flush, Incr, Pass, Set, Sync, Together, Touch};

const START: u64 = 1_800_000_000_000;

/// The data of each item.
type Visible = BTreeMap<u8, Vec<u8>>;

/// Returns the write of an item.
fn write<'a>(key: &'a [u8], data: &'a [u8], cas: Option<u64>) -> Write<'a> {
    Write {
        key,
        mode: StoreMode::Set,
        client_flags: 0,
        exptime: 0,
        cas,
        new_cas: None,
        invalidate: false,
        vivify: None,
        data,
    }
}

/// Returns the cas value of an item that was stored.
fn stored(outcome: crate::error::Result<WriteOutcome>) -> u64 {
    match outcome.unwrap() {
        WriteOutcome::Stored { cas, .. } => cas,
        other => panic!("{other:?}"),
    }
}

struct Running {
    items: Items,
    clock: Arc<AtomicU64>,
}

impl Running {
    fn open(pool: &Pool, limit: Option<u64>, durability: Durability) -> Running {
        Running::open_at(pool, limit, durability, START)
    }

    /// Opens at a time, in ms since 1970.
    fn open_at(pool: &Pool, limit: Option<u64>, durability: Durability, now: u64) -> Running {
        let clock = Arc::new(AtomicU64::new(now));
        let of_items = Arc::clone(&clock);
        // Without a thread of its own, the stores do the same in each run.
        let options = super::options(durability).with_background(false);
        let evictor = limit.map(|bytes| Evictor::new(PolicyKind::S3Fifo, bytes));
        let items = Items::open_with(
            pool,
            options,
            Arc::new(move || of_items.load(Relaxed)),
            evictor,
            None,
        );
        let items = items.unwrap();
        items.admit_present(&|| false).unwrap();
        Running { items, clock }
    }

    fn set(&self, number: u8, bytes: usize, cas: Option<u64>) -> u64 {
        let (key, data) = ([b'k', number], vec![number; bytes]);
        stored(self.items.write(&write(&key, &data, cas), 1 << 20))
    }

    /// Returns the greatest cas value that was given.
    fn set_together(&self, numbers: Range<u8>, bytes: usize) -> u64 {
        let pairs: Vec<_> = numbers
            .map(|number| ([b'k', number], vec![number; bytes]))
            .collect();
        let writes: Vec<_> = pairs.iter().map(|(key, data)| write(key, data, None)).collect();
        let outcomes = self.items.write_together(&writes, &|_| 1 << 20);
        outcomes.into_iter().map(stored).max().unwrap()
    }

    /// Does a step, and returns the cas value that it gave.
    fn step(&self, step: Step) -> Option<u64> {
        match step {
            Set(number, bytes) => Some(self.set(number, bytes, None)),
            Together(from, to, bytes) => Some(self.set_together(from..to, bytes)),
            Cas(number, bytes) => {
                let found = self.items.get(&[b'k', number], &Lookup::default()).unwrap();
                Some(self.set(number, bytes, Some(found.unwrap().item.cas)))
            }
            Incr(number) => {
                let change = Arithmetic {
                    delta: 1,
                    decrement: false,
                    cas: None,
                    new_cas: None,
                    ttl: None,
                    vivify: Some(0),
                    initial: 7,
                };
                match self.items.calculate(&[b'k', number], &change).unwrap() {
                    Calculated::Number { item, .. } => Some(item.cas),
                    other => panic!("{other:?}"),
                }
            }
            Delete(number) => {
                let removed = self.items.remove(&[b'k', number], &Removal::default()).unwrap();
                assert_eq!(removed, RemoveOutcome::Removed);
                None
            }
            Touch(number, seconds) => {
                assert!(self.items.touch(&[b'k', number], seconds).unwrap());
                None
            }
            Pass(seconds) => {
                self.clock.fetch_add(seconds * 1000, Relaxed);
                None
            }
            Flush => {
                self.items.flush(0).unwrap();
                while self.items.empty_flushed().unwrap() {}
                None
            }
            Sync => {
                self.items.sync().unwrap();
                None
            }
        }
    }

    fn visible(&self) -> Visible {
        // What looks must not change which items leave.
        let lookup = Lookup {
            no_bump: true,
            ..Lookup::default()
        };
        let data = |number: u8| {
            let found = self.items.get(&[b'k', number], &lookup).unwrap();
            found.map(|found| (number, found.item.data().to_vec()))
        };
        (0..=u8::MAX).filter_map(data).collect()
    }
}

/// Returns what is visible after each number of steps. As in an exploration, the items are opened anew after
/// the setup.
fn states(setup: &[Step], steps: &[Step], limit: Option<u64>) -> Vec<Visible> {
    let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
    let mut states = vec![Visible::new()];
    for (done, steps) in [(&[][..], setup), (setup, steps)] {
        let running = Running::open(&pool, limit, Durability::Operation);
        running.clock.fetch_add(passed(done), Relaxed);
        for step in steps {
            running.step(*step);
            states.push(running.visible());
        }
    }
    states
}

fn explore(setup: &[Step], steps: &[Step], limit: Option<u64>) -> Result<Report, Box<Violation>> {
    explore_with(Durability::Operation, setup, steps, limit)
}

/// Explores the steps with a durability.
pub(super) fn explore_with(
    durability: Durability,
    setup: &[Step],
    steps: &[Step],
    limit: Option<u64>,
) -> Result<Report, Box<Violation>> {
    let all = [setup, steps].concat();
    let states = states(setup, steps, limit);
    // The greatest cas value that was given in each number of steps.
    let given = RefCell::new(vec![0]);
    let explorer = Explorer {
        limit: 100,
        ..Explorer::default()
    };
    let run = |running: &Running, step: &Step| {
        let cas = running.step(*step).unwrap_or(0);
        let mut given = given.borrow_mut();
        let greatest = given.last().copied().unwrap_or(0).max(cas);
        given.push(greatest);
    };
    let prepare = |medium: &Arc<Tracked>| {
        let pool = Pool::create_on(Arc::clone(medium)).unwrap();
        let running = Running::open(&pool, limit, durability);
        setup.iter().for_each(|step| run(&running, step));
    };
    let work = |medium: &Arc<Tracked>| {
        let pool = Pool::open_on(Arc::clone(medium)).unwrap();
        let running = Running::open(&pool, limit, durability);
        running.clock.fetch_add(passed(setup), Relaxed);
        for (at, step) in steps.iter().enumerate() {
            medium.begin(at as u64);
            run(&running, step);
            medium.acknowledge(at as u64);
        }
        // Whatever closing does is no part of the workload.
        std::mem::forget(running);
    };
    explorer.run(prepare, work, |medium, crash| {
        let (first, last) = crash.completed(setup.len());
        let mut now = START + passed(&all[..first]);
        let least = match durability {
            Durability::Operation => first,
            Durability::Group => synced(&all[..first]).max(setup.len()),
            Durability::Process => setup.len(),
        };
        if durability != Durability::Operation {
            // Cas values rely on a clock that has gone on since the machine went down.
            now += 1000;
        }
        check(medium, now, &states[least..=last], given.borrow()[first])
    })
}

/// Returns the number of steps up to the last sync.
fn synced(steps: &[Step]) -> usize {
    let last = steps.iter().rposition(|step| matches!(step, Sync));
    last.map_or(0, |last| last + 1)
}

/// Returns the time that passes in steps, in ms.
fn passed(steps: &[Step]) -> u64 {
    let ms = |step: &Step| match step {
        Pass(seconds) => seconds * 1000,
        _ => 0,
    };
    steps.iter().map(ms).sum()
}

/// Accepts a medium that holds one of the states at a time, and on which no cas value comes again up to
/// `given`.
fn check(medium: Arc<Tracked>, now: u64, states: &[Visible], given: u64) -> Result<(), String> {
    let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
    let running = Running::open_at(&pool, None, Durability::Operation, now);
    let found = running.visible();
    if !states.contains(&found) {
        let sizes = |state: &Visible| -> Vec<(u8, usize)> {
            state.iter().map(|(number, data)| (*number, data.len())).collect()
        };
        let states: Vec<_> = states.iter().map(sizes).collect();
        return Err(format!("{:?} instead of one of {states:?}", sizes(&found)));
    }
    let cas = running.set(255, 1, None);
    match cas > given {
        true => Ok(()),
        false => Err(format!(
            "the cas value {cas} comes again, {given} was given before"
        )),
    }
}

fn passes(setup: &[Step], steps: &[Step], limit: Option<u64>, images: usize) {
    let report = explore(setup, steps, limit).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images >= images, "{report}");
}

#[test]
fn commands_are_there_wholly_or_not_at_all() {
    let steps = [
        Set(1, 10),
        Set(2, 20_000),
        Cas(1, 30),
        Incr(3),
        Incr(3),
        Delete(2),
        Set(2, 1),
        Delete(1),
        Touch(2, 10),
    ];
    passes(&[Set(9, 9)], &steps, None, 50);
}

#[test]
fn items_that_are_stored_together_are_there_together() {
    let steps = [
        Together(1, 6, 10),
        Together(4, 9, 4000),
        Set(2, 1),
        Together(0, 9, 1),
    ];
    passes(&[Set(5, 5)], &steps, None, 30);
    // Others leave for them.
    let fill: Vec<Step> = (0..12).map(|number| Set(number, 4000)).collect();
    passes(
        &fill,
        &[Together(12, 16, 4000), Together(10, 14, 3000)],
        Some(60_000),
        5,
    );
}

#[test]
fn items_expire_and_are_flushed() {
    let steps = [
        Touch(1, 10),
        Set(2, 5),
        Pass(20),
        Set(3, 3),
        Flush,
        Set(1, 1),
        Flush,
        Set(4, 4),
    ];
    passes(&[Set(1, 10), Set(5, 5)], &steps, None, 50);
}

#[test]
fn items_leave_together_with_the_one_that_needs_their_place() {
    let fill: Vec<Step> = (0..12).map(|number| Set(number, 4000)).collect();
    let more: Vec<Step> = (12..20).map(|number| Set(number, 4000)).collect();
    let states = states(&fill, &more, Some(60_000));
    assert!(states[20].len() < states[12].len() + 8, "some must have left");
    passes(&fill, &more, Some(60_000), 20);
}

#[test]
fn broken_rules_are_noticed() {
    let fill: Vec<Step> = (0..12).map(|number| Set(number, 4000)).collect();
    for (fault, setup, steps, limit) in [
        (
            MemcachedFault::ReserveNothing,
            &[Set(1, 1)][..],
            &[Set(1, 2), Set(2, 2)][..],
            None,
        ),
        (
            MemcachedFault::ForgetFlush,
            &[Set(1, 1)],
            &[Flush, Set(2, 2)],
            None,
        ),
        (
            MemcachedFault::CommitApart,
            &[Set(1, 1)],
            &[Together(1, 4, 2), Set(2, 2)],
            None,
        ),
        (
            MemcachedFault::EvictApart,
            &fill,
            &[Set(20, 4000), Set(21, 4000)],
            Some(60_000),
        ),
    ] {
        let found = with(fault, || explore(setup, steps, limit));
        assert!(found.is_err(), "{fault:?}");
    }
}
