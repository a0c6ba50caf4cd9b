//! Workloads whose crashes are explored on the tracked medium: what was acknowledged as durable is there,
//! wholly, and no cas value repeats. Copies of hot items answer lookups while a workload runs, so that a copy
//! that differs from the item is noticed as well.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
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
use crate::protocol::StoreMode;
use crate::settings::Durability;
use crate::storage::{ItemStorage, StoreStorage, TreeStorage, TreeStorageOptions};

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

/// The storage of a workload.
#[derive(Debug, Clone, Copy)]
pub(super) enum Backend {
    Store,
    Tree(TreeKind),
    /// Trees with few hashes, so that keys share them.
    Collisions(TreeKind),
}

pub(super) use Backend::{Collisions, Store, Tree};

impl Backend {
    fn open(self, pool: &Pool, durability: Durability, clock: Clock) -> Arc<dyn ItemStorage> {
        let (kind, hash): (_, fn(&[u8]) -> u64) = match self {
            Store => {
                // Without a thread of its own, the stores do the same in each run.
                let options = StoresOptions::default().with_background(false);
                let options = options.with_clock(clock);
                return Arc::new(StoreStorage::open(pool, durability, options).unwrap());
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
    /// Opens at a time, in ms since 1970.
    fn open_at(
        pool: &Pool,
        backend: Backend,
        durability: Durability,
        limit: Option<u64>,
        now: u64,
    ) -> Running {
        let clock = Arc::new(AtomicU64::new(now));
        let of_items = Arc::clone(&clock);
        let of_items: Clock = Arc::new(move || of_items.load(Relaxed));
        let storage = backend.open(pool, durability, Arc::clone(&of_items));
        let evictor = limit.map(|bytes| Evictor::new(PolicyKind::S3Fifo, bytes));
        let hot = Some(HotItems::new(1 << 20).unwrap().always_on());
        let items = Items::open(storage, of_items, evictor, None, hot).unwrap();
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
                while self.items.reclaim().unwrap() {}
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

/// A workload, which is explored from the end of its setup on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload<'a> {
    pub(super) backend: Backend,
    pub(super) durability: Durability,
    pub(super) setup: &'a [Step],
    pub(super) steps: &'a [Step],
    /// Bytes of the pool from which on items leave.
    pub(super) limit: Option<u64>,
}

impl Workload<'_> {
    fn open(&self, pool: &Pool) -> Running {
        Running::open_at(pool, self.backend, self.durability, self.limit, START)
    }

    /// Returns what is visible after each number of steps. As in an exploration, the items are opened anew
    /// after the setup.
    pub(super) fn states(&self) -> Vec<Visible> {
        let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
        let mut states = vec![Visible::new()];
        for (done, steps) in [(&[][..], self.setup), (self.setup, self.steps)] {
            let running = self.open(&pool);
            running.clock.fetch_add(passed(done), Relaxed);
            for step in steps {
                running.step(*step);
                states.push(running.visible());
            }
        }
        states
    }

    pub(super) fn explore(&self) -> Result<Report, Box<Violation>> {
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
            let running = self.open(&pool);
            self.setup.iter().for_each(|step| run(&running, step));
        };
        let work = |medium: &Arc<Tracked>| {
            let pool = Pool::open_on(Arc::clone(medium)).unwrap();
            let running = self.open(&pool);
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

    /// Accepts a medium that holds one of the states that a crash may leave, and on which no cas value comes
    /// again.
    fn check(
        &self,
        medium: Arc<Tracked>,
        crash: &Crash<'_>,
        states: &[Visible],
        given: &[u64],
    ) -> Result<(), String> {
        let (first, last) = crash.completed(self.setup.len());
        let all = [self.setup, self.steps].concat();
        let mut now = START + passed(&all[..first]);
        let least = match self.durability {
            Durability::Operation => first,
            Durability::Group => synced(&all[..first]).max(self.setup.len()),
            Durability::Process => self.setup.len(),
        };
        if self.durability != Durability::Operation {
            // Cas values rely on a clock that has gone on since the machine went down.
            now += 1000;
        }
        let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
        let running = Running::open_at(&pool, self.backend, Durability::Operation, None, now);
        let found = running.visible();
        let states = &states[least..=last];
        if !states.contains(&found) && !self.is_between(&found, states) {
            let sizes = |state: &Visible| -> Vec<(u8, usize)> {
                state.iter().map(|(number, data)| (*number, data.len())).collect()
            };
            let states: Vec<_> = states.iter().map(sizes).collect();
            return Err(format!("{:?} instead of one of {states:?}", sizes(&found)));
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

    /// Returns true if `found` has changes of a command, or of commands that were sent together, that are
    /// durable one after another.
    fn is_between(&self, found: &Visible, states: &[Visible]) -> bool {
        let sent_together = self.steps.iter().any(|step| matches!(step, Together(..)));
        let has_parts = !self.backend.is_atomic() && (self.limit.is_some() || sent_together);
        let ([first, last], true) = (states, has_parts) else {
            return false;
        };
        let is_in = |state: &Visible, number: &u8, data: &Vec<u8>| state.get(number) == Some(data);
        let all_right = found
            .iter()
            .all(|(number, data)| is_in(first, number, data) || is_in(last, number, data));
        let mut stay = first.iter().filter(|(number, data)| is_in(last, number, data));
        all_right && stay.all(|(number, data)| is_in(found, number, data))
    }

    pub(super) fn passes(&self, images: usize) {
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
