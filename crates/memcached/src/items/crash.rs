//! Every crash of small workloads on the tracked medium: what was acknowledged is there, wholly, and no cas
//! value repeats.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use halocline_cache::PolicyKind;
use halocline_media::Tracked;
use halocline_media::explore::{Crash, Explorer, Report, Violation};
use halocline_pool::Pool;
use halocline_store::StoresOptions;

use super::{Arithmetic, Calculated, Items, Lookup, Removal, RemoveOutcome, Write, WriteOutcome};
use crate::eviction::Evictor;
use crate::fault::{MemcachedFault, with};
use crate::protocol::StoreMode;

/// A command of a workload on the item of a number.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Stores so many bytes.
    Set(u8, usize),
    /// The same with the cas value of the item.
    Cas(u8, usize),
    /// Sets the counter, or adds to it.
    Incr(u8),
    Delete(u8),
    /// Lets the item expire after seconds.
    Touch(u8, i64),
    /// Lets seconds pass.
    Pass(u64),
    Flush,
}

use Step::{Cas, Delete, Flush, Incr, Pass, Set, Touch};

const START: u64 = 1_800_000_000_000;

/// The data of each item.
type Visible = BTreeMap<u8, Vec<u8>>;

struct Running {
    items: Items,
    clock: Arc<AtomicU64>,
}

impl Running {
    fn open(pool: &Pool, limit: Option<u64>) -> Running {
        let clock = Arc::new(AtomicU64::new(START));
        let of_items = Arc::clone(&clock);
        // Without a thread of its own, the stores do the same in each run.
        let options = StoresOptions::default().with_background(false);
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
        let data = vec![number; bytes];
        let write = Write {
            key: &[b'k', number],
            mode: StoreMode::Set,
            client_flags: 0,
            exptime: 0,
            cas,
            new_cas: None,
            invalidate: false,
            vivify: None,
            data: &data,
        };
        match self.items.write(&write, 1 << 20).unwrap() {
            WriteOutcome::Stored { cas, .. } => cas,
            other => panic!("{other:?}"),
        }
    }

    /// Does a step, and returns the cas value that it gave.
    fn step(&self, step: Step) -> Option<u64> {
        match step {
            Set(number, bytes) => Some(self.set(number, bytes, None)),
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
        let running = Running::open(&pool, limit);
        running.clock.fetch_add(passed(done), Relaxed);
        for step in steps {
            running.step(*step);
            states.push(running.visible());
        }
    }
    states
}

fn explore(setup: &[Step], steps: &[Step], limit: Option<u64>) -> Result<Report, Box<Violation>> {
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
        let running = Running::open(&pool, limit);
        setup.iter().for_each(|step| run(&running, step));
    };
    let work = |medium: &Arc<Tracked>| {
        let pool = Pool::open_on(Arc::clone(medium)).unwrap();
        let running = Running::open(&pool, limit);
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
        check(medium, crash, &all, setup.len(), &states, &given.borrow())
    })
}

/// Returns the time that passes in steps, in ms.
fn passed(steps: &[Step]) -> u64 {
    let ms = |step: &Step| match step {
        Pass(seconds) => seconds * 1000,
        _ => 0,
    };
    steps.iter().map(ms).sum()
}

fn check(
    medium: Arc<Tracked>,
    crash: &Crash<'_>,
    steps: &[Step],
    done: usize,
    states: &[Visible],
    given: &[u64],
) -> Result<(), String> {
    let (first, last) = crash.completed(done);
    let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
    let running = Running::open(&pool, None);
    running.clock.fetch_add(passed(&steps[..first]), Relaxed);
    let found = running.visible();
    if found != states[first] && found != states[last] {
        let sizes = |state: &Visible| -> Vec<(u8, usize)> {
            state.iter().map(|(number, data)| (*number, data.len())).collect()
        };
        return Err(format!(
            "{:?} instead of {:?}",
            sizes(&found),
            sizes(&states[last])
        ));
    }
    let cas = running.set(255, 1, None);
    match cas > given[first] {
        true => Ok(()),
        false => Err(format!(
            "the cas value {cas} comes again, {} was given before",
            given[first]
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
