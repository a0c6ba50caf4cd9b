//! Steps of workloads whose crashes are [explored](super::exploration), and items on which they run. Copies
//! of hot items answer lookups meanwhile, so that a copy that differs from the item is noticed as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use halocline_cache::PolicyKind;
use halocline_media::MediumKind;
use halocline_ordered::TreeKind;
use halocline_pool::Pool;
use halocline_store::{Clock, StoresOptions};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Arithmetic, Calculated, Change, ChangeOutcome, HotItems, Items, Lookup, Removal, RemoveOutcome, Write,
    WriteOutcome,
};
use crate::error::Result;
use crate::eviction::Evictor;
use crate::protocol::StoreMode;
use crate::settings::Durability;
use crate::storage::{ItemStorage, StoreStorage, TreeStorage, TreeStorageOptions};

/// A command of a workload on the item of a number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Stores this many bytes.
    Set(u8, usize),
    /// The same with the cas value of the item.
    Cas(u8, usize),
    /// Stores this many bytes for each of the numbers, in one commit.
    Together(u8, u8, usize),
    /// Commands that a client sends together: `Set`, `Incr`, `Delete` and `Touch`.
    Pipeline(&'static [Step]),
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

pub(super) use Step::{Cas, Delete, Flush, Incr, Pass, Pipeline, Set, Sync, Together, Touch};

/// The time at which workloads begin, in ms since 1970.
pub(super) const START: u64 = 1_800_000_000_000;

/// The data of each item.
pub(super) type Visible = BTreeMap<u8, Vec<u8>>;

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
    pub(super) fn open(
        self,
        pool: &Pool,
        durability: Durability,
        clock: Clock,
    ) -> Result<Arc<dyn ItemStorage>> {
        let (kind, hash): (_, fn(&[u8]) -> u64) = match self {
            Store => {
                // Without a thread of its own, the stores do the same in each run.
                let options = StoresOptions::default().with_background(false);
                let options = options.with_clock(clock);
                return Ok(Arc::new(StoreStorage::open(pool, durability, options)?));
            }
            Tree(kind) => (kind, xxh3_64),
            Collisions(kind) => (kind, |key| xxh3_64(key) % 2),
        };
        let chunk = if is_durable(pool) {
            4096
        } else {
            // Slabs do not grow during a workload, which would publish a generation of the pool.
            32 << 10
        };
        let options = TreeStorageOptions { chunk, hash };
        Ok(Arc::new(TreeStorage::open(pool, kind, clock, options)?))
    }

    /// Returns true if a command with several changes is durable wholly or not at all.
    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Store)
    }
}

/// Returns true if fences are durable.
pub(super) fn is_durable(pool: &Pool) -> bool {
    !matches!(pool.kind(), MediumKind::PageCache { strict: false })
}

/// Returns the write of an item.
fn write<'a>(key: &'a [u8], data: &'a [u8], cas: Option<u64>) -> Change<'a> {
    Change::Write(Write {
        key,
        mode: StoreMode::Set,
        client_flags: 0,
        exptime: 0,
        cas,
        new_cas: None,
        invalidate: false,
        vivify: None,
        data,
        most: 1 << 20,
    })
}

/// Returns the change of a step that is one, with the key and the data of its item.
fn change<'a>(step: Step, key: &'a [u8], data: &'a [u8]) -> Change<'a> {
    match step {
        Set(..) => write(key, data, None),
        Incr(_) => {
            let arithmetic = Arithmetic {
                delta: 1,
                decrement: false,
                cas: None,
                new_cas: None,
                ttl: None,
                vivify: Some(0),
                initial: 7,
            };
            Change::Calculate { key, arithmetic }
        }
        Delete(_) => {
            let removal = Removal::default();
            Change::Remove { key, removal }
        }
        Touch(_, seconds) => {
            let lookup = Lookup {
                ttl: Some(seconds),
                ..Lookup::default()
            };
            Change::Find { key, lookup }
        }
        other => panic!("{other:?} is no change of one item"),
    }
}

/// Returns the cas value that a change has given.
fn given(outcome: Result<ChangeOutcome>) -> Option<u64> {
    match outcome.unwrap() {
        ChangeOutcome::Write(WriteOutcome::Stored { cas, .. })
        | ChangeOutcome::Calculate(Calculated::Number { cas, .. }) => Some(cas),
        ChangeOutcome::Remove(RemoveOutcome::Removed) | ChangeOutcome::Find(Some(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// Returns the number and the bytes of the item of a step.
pub(super) fn item_of(step: Step) -> (u8, usize) {
    match step {
        Set(number, bytes) => (number, bytes),
        Incr(number) | Delete(number) | Touch(number, _) => (number, 0),
        other => panic!("{other:?} is no change of one item"),
    }
}

/// Returns the changes of one item that a step consists of.
pub(super) fn changes_of(step: Step) -> Vec<Step> {
    match step {
        Together(from, to, bytes) => (from..to).map(|number| Set(number, bytes)).collect(),
        Pipeline(steps) => steps.to_vec(),
        other => vec![other],
    }
}

/// Items in use, with their clock.
pub(super) struct Running {
    pub(super) items: Items,
    pub(super) clock: Arc<AtomicU64>,
}

impl Running {
    /// Opens at a time, in ms since 1970.
    pub(super) fn open_at(
        pool: &Pool,
        backend: Backend,
        durability: Durability,
        limit: Option<u64>,
        now: u64,
    ) -> Result<Running> {
        let clock = Arc::new(AtomicU64::new(now));
        let of_items = Arc::clone(&clock);
        let of_items: Clock = Arc::new(move || of_items.load(Relaxed));
        let storage = backend.open(pool, durability, Arc::clone(&of_items))?;
        let evictor = limit.map(|bytes| Evictor::new(PolicyKind::S3Fifo, bytes));
        let hot = Some(HotItems::new(1 << 20)?.always_on());
        let items = Items::open(storage, of_items, evictor, None, hot)?;
        items.admit_present(&|| false)?;
        Ok(Running { items, clock })
    }

    /// Makes changes that have arrived together.
    pub(super) fn outcomes(&self, steps: &[Step]) -> Vec<Result<ChangeOutcome>> {
        let pair = |step: &Step| {
            let (number, bytes) = item_of(*step);
            ([b'k', number], vec![number; bytes])
        };
        let pairs: Vec<_> = steps.iter().map(pair).collect();
        let changes = steps.iter().zip(&pairs);
        let changes: Vec<_> = changes
            .map(|(step, (key, data))| change(*step, key, data))
            .collect();
        self.items.apply(&changes)
    }

    /// Makes changes that have arrived together. Returns the greatest cas value that they gave.
    pub(super) fn apply(&self, steps: &[Step]) -> Option<u64> {
        self.outcomes(steps).into_iter().filter_map(given).max()
    }

    pub(super) fn set(&self, number: u8, bytes: usize, cas: Option<u64>) -> u64 {
        let (key, data) = ([b'k', number], vec![number; bytes]);
        let outcomes = self.items.apply(&[write(&key, &data, cas)]);
        outcomes.into_iter().find_map(given).unwrap()
    }

    /// Does a step, and returns the cas value that it gave.
    pub(super) fn step(&self, step: Step) -> Option<u64> {
        match step {
            Set(..) | Incr(_) | Delete(_) | Touch(..) | Together(..) | Pipeline(_) => {
                self.apply(&changes_of(step))
            }
            Cas(number, bytes) => {
                let found = self.items.get(&[b'k', number], &Lookup::default()).unwrap();
                Some(self.set(number, bytes, Some(found.unwrap().item.cas)))
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

    pub(super) fn visible(&self) -> Visible {
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

    /// Checks that no more nodes are in use than the items need.
    pub(super) fn leaks_nothing(&self) -> std::result::Result<(), String> {
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
