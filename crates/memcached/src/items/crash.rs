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
use halocline_ordered::TreeKind;
use halocline_pool::Pool;
use halocline_store::{Clock, StoresOptions};
use xxhash_rust::xxh3::xxh3_64;

use super::{Arithmetic, Calculated, HotItems, Items, Lookup, Removal, RemoveOutcome, Write, WriteOutcome};
use crate::eviction::Evictor;
use crate::fault::{MemcachedFault, with};
use crate::protocol::StoreMode;
use crate::storage::{ItemStorage, StoreStorage, TreeStorage, TreeStorageOptions};

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

/// The storage of a workload.
#[derive(Debug, Clone, Copy)]
enum Backend {
    Store,
    Tree(TreeKind),
    /// Trees with few hashes, so that keys share them.
    Collisions(TreeKind),
}

use Backend::{Collisions, Store, Tree};

impl Backend {
    fn open(self, pool: &Pool, clock: Clock) -> Arc<dyn ItemStorage> {
        let (kind, hash): (_, fn(&[u8]) -> u64) = match self {
            Store => {
                // Without a thread of its own, the stores do the same in each run.
                let options = StoresOptions::default().with_background(false);
                return Arc::new(StoreStorage::open(pool, options.with_clock(clock)).unwrap());
            }
            Tree(kind) => (kind, xxh3_64),
            Collisions(kind) => (kind, |key| xxh3_64(key) % 2),
        };
        let options = TreeStorageOptions { chunk: 4096, hash };
        Arc::new(TreeStorage::open(pool, kind, clock, options).unwrap())
    }

    /// Returns true if a command with several changes is durable wholly or not at all.
    fn is_atomic(self) -> bool {
        matches!(self, Store)
    }
}

struct Running {
    items: Items,
    clock: Arc<AtomicU64>,
}

impl Running {
    fn open(pool: &Pool, backend: Backend, limit: Option<u64>) -> Running {
        let clock = Arc::new(AtomicU64::new(START));
        let of_items = Arc::clone(&clock);
        let of_items: Clock = Arc::new(move || of_items.load(Relaxed));
        let storage = backend.open(pool, Arc::clone(&of_items));
        let evictor = limit.map(|bytes| Evictor::new(PolicyKind::S3Fifo, bytes));
        let hot = Some(HotItems::new(1 << 20).unwrap().always_on());
        let items = Items::open(storage, of_items, evictor, None, hot).unwrap();
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
                while self.items.reclaim().unwrap() {}
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

/// A workload, which is explored from the end of its setup on.
#[derive(Debug, Clone, Copy)]
struct Workload<'a> {
    backend: Backend,
    setup: &'a [Step],
    steps: &'a [Step],
    /// Bytes of the pool from which on items leave.
    limit: Option<u64>,
}

impl Workload<'_> {
    /// Returns what is visible after each number of steps. As in an exploration, the items are opened anew
    /// after the setup.
    fn states(&self) -> Vec<Visible> {
        let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
        let mut states = vec![Visible::new()];
        for (done, steps) in [(&[][..], self.setup), (self.setup, self.steps)] {
            let running = Running::open(&pool, self.backend, self.limit);
            running.clock.fetch_add(passed(done), Relaxed);
            for step in steps {
                running.step(*step);
                states.push(running.visible());
            }
        }
        states
    }

    fn explore(&self) -> Result<Report, Box<Violation>> {
        let states = self.states();
        // The greatest cas value that was given in each number of steps.
        let given = RefCell::new(vec![0]);
        let explorer = Explorer {
            limit: match self.backend {
                Store => 100,
                // Trees have tests of their own.
                _ => 30,
            },
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
            let running = Running::open(&pool, self.backend, self.limit);
            self.setup.iter().for_each(|step| run(&running, step));
        };
        let work = |medium: &Arc<Tracked>| {
            let pool = Pool::open_on(Arc::clone(medium)).unwrap();
            let running = Running::open(&pool, self.backend, self.limit);
            running.clock.fetch_add(passed(self.setup), Relaxed);
            for (at, step) in self.steps.iter().enumerate() {
                medium.begin(at as u64);
                run(&running, step);
                medium.acknowledge(at as u64);
            }
            // Whatever closing does is no part of the workload.
            std::mem::forget(running);
        };
        explorer.run(prepare, work, |medium, crash| {
            self.check(medium, crash, &states, &given.borrow())
        })
    }

    fn check(
        &self,
        medium: Arc<Tracked>,
        crash: &Crash<'_>,
        states: &[Visible],
        given: &[u64],
    ) -> Result<(), String> {
        let (first, last) = crash.completed(self.setup.len());
        let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
        let running = Running::open(&pool, self.backend, None);
        let all = [self.setup, self.steps].concat();
        running.clock.fetch_add(passed(&all[..first]), Relaxed);
        let found = running.visible();
        if !self.is_right(&found, &states[first], &states[last]) {
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
        if cas <= given[first] {
            return Err(format!(
                "the cas value {cas} comes again, {} was given before",
                given[first]
            ));
        }
        match self.backend {
            Store => Ok(()),
            _ => running.leaks_nothing(),
        }
    }

    /// Returns true if `found` is right between two states.
    fn is_right(&self, found: &Visible, first: &Visible, last: &Visible) -> bool {
        if self.backend.is_atomic() || self.limit.is_none() {
            return found == first || found == last;
        }
        // Items leave in steps of their own.
        let is_in = |state: &Visible, number: &u8, data: &Vec<u8>| state.get(number) == Some(data);
        let all_right = found
            .iter()
            .all(|(number, data)| is_in(first, number, data) || is_in(last, number, data));
        let mut stay = first.iter().filter(|(number, data)| is_in(last, number, data));
        all_right && stay.all(|(number, data)| is_in(found, number, data))
    }

    fn passes(&self, images: usize) {
        let report = self
            .explore()
            .unwrap_or_else(|violation| panic!("{self:?}: {violation}"));
        assert!(report.images >= images, "{report}");
    }
}

impl Running {
    /// Checks that no more nodes are in use than the items need.
    fn leaks_nothing(&self) -> Result<(), String> {
        while self.items.reclaim().unwrap() {}
        let storage = &self.items.storage;
        let mut needed = 0;
        let sum = &mut |item: crate::storage::ScannedItem<'_>| {
            needed += storage.footprint(item.key.len(), item.value_bytes);
            Ok(true)
        };
        self.items.present().scan(sum).unwrap();
        match storage.stats().live_bytes {
            used if used == needed => Ok(()),
            used => Err(format!("{used} bytes are in use, {needed} are needed")),
        }
    }
}

/// Returns the time that passes in steps, in ms.
fn passed(steps: &[Step]) -> u64 {
    let ms = |step: &Step| match step {
        Pass(seconds) => seconds * 1000,
        _ => 0,
    };
    steps.iter().map(ms).sum()
}

/// The storages of which each is explored. The changes are the same for all trees.
const BACKENDS: [Backend; 4] = [
    Store,
    Tree(TreeKind::Lb),
    Tree(TreeKind::FastFair),
    Collisions(TreeKind::Wb),
];

#[test]
fn commands_are_there_wholly_or_not_at_all() {
    let steps = [
        Set(1, 10),
        Set(2, 20_000),
        Cas(1, 30),
        Incr(3),
        Incr(3),
        Set(4, 100_000),
        Delete(2),
        Set(2, 1),
        Delete(1),
        Touch(2, 10),
    ];
    for backend in BACKENDS {
        let workload = Workload {
            backend,
            setup: &[Set(9, 9), Set(8, 8)],
            steps: &steps,
            limit: None,
        };
        workload.passes(50);
    }
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
    for backend in BACKENDS {
        let workload = Workload {
            backend,
            setup: &[Set(1, 10), Set(5, 5)],
            steps: &steps,
            limit: None,
        };
        workload.passes(50);
    }
}

/// Items that fill a pool of [`LIMIT`] bytes, and more of them.
fn filling(numbers: std::ops::Range<u8>) -> Vec<Step> {
    numbers.map(|number| Set(number, 4000)).collect()
}

const LIMIT: Option<u64> = Some(60_000);

#[test]
fn items_leave_together_with_the_one_that_needs_their_place() {
    let (fill, more) = (filling(0..12), filling(12..20));
    for backend in [Store, Tree(TreeKind::Lb)] {
        let workload = Workload {
            backend,
            setup: &fill,
            steps: &more,
            limit: LIMIT,
        };
        let states = workload.states();
        assert!(states[20].len() < states[12].len() + 8, "some must have left");
        workload.passes(20);
    }
}

#[test]
fn broken_rules_are_noticed() {
    let fill = filling(0..12);
    let cases: [(_, _, &[Step], &[Step], _); 8] = [
        (
            MemcachedFault::ReserveNothing,
            Store,
            &[Set(1, 1)],
            &[Set(1, 2), Set(2, 2)],
            None,
        ),
        (
            MemcachedFault::ForgetFlush,
            Store,
            &[Set(1, 1)],
            &[Flush, Set(2, 2)],
            None,
        ),
        (
            MemcachedFault::EvictApart,
            Store,
            &fill,
            &[Set(20, 4000), Set(21, 4000)],
            LIMIT,
        ),
        (
            MemcachedFault::StaleCopy,
            Store,
            &[Set(1, 1)],
            &[Set(1, 2), Set(1, 3)],
            None,
        ),
        // The first write to a tree after its opening has a fence of its own.
        (
            MemcachedFault::LinkUnfenced,
            Tree(TreeKind::Lb),
            &[Set(1, 1)],
            &[Set(1, 900), Set(1, 800)],
            None,
        ),
        (
            MemcachedFault::FreeBeforeLink,
            Tree(TreeKind::Fp),
            &[Set(1, 1)],
            &[Set(1, 2)],
            None,
        ),
        (
            MemcachedFault::ForgetLeaked,
            Tree(TreeKind::Wb),
            &[Set(1, 1)],
            &[Set(1, 2)],
            None,
        ),
        (
            MemcachedFault::FreeUnconfirmed,
            Tree(TreeKind::FastFair),
            &[Set(1, 1)],
            &[Set(1, 2)],
            None,
        ),
    ];
    for (fault, backend, setup, steps, limit) in cases {
        let workload = Workload {
            backend,
            setup,
            steps,
            limit,
        };
        let found = with(fault, || workload.explore());
        assert!(found.is_err(), "{fault:?}");
    }
}
