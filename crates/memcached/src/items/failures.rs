//! Commits that fail: items that were to leave do so later, and the eviction policy knows what is there.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use halocline_cache::PolicyKind;
use halocline_media::Dram;
use halocline_ordered::TreeKind;
use halocline_pool::Pool;

use super::Items;
use super::workload::{Backend, Delete, Incr, Running, START, Set, Step, Store, Touch, Tree};
use crate::MemcachedError;
use crate::error::Result;
use crate::eviction::Evictor;
use crate::fault::{MemcachedFault, with};
use crate::settings::Durability;
use crate::storage::{
    ItemChange, ItemGeneration, ItemStorage, ItemStorageStats, ScannedItem, StorageNumber, StoredItem,
};

/// Bytes of the pool, of which items take two thirds.
const LIMIT: u64 = 60_000;
const ITEM: usize = 4000;

/// A storage whose changes fail while `fails` is set.
struct FailingStorage {
    inner: Arc<dyn ItemStorage>,
    fails: Arc<AtomicBool>,
}

struct FailingGeneration {
    inner: Arc<dyn ItemGeneration>,
    fails: Arc<AtomicBool>,
}

impl FailingStorage {
    fn generation(&self, inner: Arc<dyn ItemGeneration>) -> Arc<dyn ItemGeneration> {
        let fails = Arc::clone(&self.fails);
        Arc::new(FailingGeneration { inner, fails })
    }
}

impl ItemStorage for FailingStorage {
    fn current(&self) -> Result<Arc<dyn ItemGeneration>> {
        Ok(self.generation(self.inner.current()?))
    }

    fn flush(&self) -> Result<Arc<dyn ItemGeneration>> {
        Ok(self.generation(self.inner.flush()?))
    }

    fn reclaim(&self) -> Result<bool> {
        self.inner.reclaim()
    }

    fn number(&self, number: StorageNumber) -> Result<Option<u64>> {
        self.inner.number(number)
    }

    fn set_number(&self, number: StorageNumber, value: u64) -> Result<()> {
        self.inner.set_number(number, value)
    }

    fn footprint(&self, key: usize, value: usize) -> u64 {
        self.inner.footprint(key, value)
    }

    fn is_atomic(&self) -> bool {
        self.inner.is_atomic()
    }

    fn waits(&self) -> bool {
        self.inner.waits()
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn stats(&self) -> ItemStorageStats {
        self.inner.stats()
    }
}

impl ItemGeneration for FailingGeneration {
    fn get(&self, key: &[u8]) -> Result<Option<StoredItem>> {
        self.inner.get(key)
    }

    fn write(&self, changes: &[ItemChange<'_>]) -> Result<()> {
        if self.fails.load(Relaxed) {
            Err(MemcachedError::Storage("the test has asked for it".into()))
        } else {
            self.inner.write(changes)
        }
    }

    fn scan(&self, visit: &mut dyn FnMut(ScannedItem<'_>) -> Result<bool>) -> Result<()> {
        self.inner.scan(visit)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn footprint(&self) -> u64 {
        self.inner.footprint()
    }
}

/// Items at the bound of the pool, over a storage that fails on demand.
struct FullItems {
    running: Running,
    fails: Arc<AtomicBool>,
}

impl FullItems {
    fn new(backend: Backend) -> FullItems {
        let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
        let clock: halocline_store::Clock = Arc::new(|| START);
        let inner = backend
            .open(&pool, Durability::Operation, Arc::clone(&clock))
            .unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let storage = FailingStorage {
            inner,
            fails: Arc::clone(&fails),
        };
        let evictor = Some(Evictor::new(PolicyKind::S3Fifo, LIMIT));
        let items = Items::open(Arc::new(storage), clock, evictor, None, None).unwrap();
        let running = Running {
            items,
            clock: Arc::default(),
        };
        let full = FullItems { running, fails };
        full.succeed(&sets(0..20));
        full
    }

    fn succeed(&self, steps: &[Step]) {
        steps.iter().for_each(|step| _ = self.running.step(*step));
    }

    /// Lets commands fail, one by one or sent together.
    fn fail(&self, steps: &[Step], together: usize) {
        self.fails.store(true, Relaxed);
        for steps in steps.chunks(together) {
            assert!(self.running.outcomes(steps).iter().all(Result::is_err));
        }
        self.fails.store(false, Relaxed);
    }

    /// Returns the numbers of items that are there and not known to the eviction policy, or the other way
    /// round.
    fn unknown(&self) -> Vec<u8> {
        let visible = self.running.visible();
        let evictor = self.running.items.evictor.as_ref().unwrap();
        (0..=u8::MAX)
            .filter(|number| evictor.knows(&[b'k', *number]) != visible.contains_key(number))
            .collect()
    }

    fn bytes(&self) -> u64 {
        self.running.items.present().footprint()
    }
}

fn sets(numbers: std::ops::Range<u8>) -> Vec<Step> {
    numbers.map(|number| Set(number, ITEM)).collect()
}

const BACKENDS: [Backend; 2] = [Store, Tree(TreeKind::Lb)];

#[test]
fn items_that_could_not_leave_do_so_with_the_next_commit() {
    for backend in BACKENDS {
        for together in [1, 3] {
            let full = FullItems::new(backend);
            let before = full.running.visible();
            let evictions = full.running.items.counters.evictions.get();
            full.fail(&sets(50..80), together);
            assert_eq!(full.running.visible(), before, "{backend:?}");
            assert_eq!(full.running.items.counters.evictions.get(), evictions);
            assert!(!full.unknown().is_empty(), "some were to leave");
            full.succeed(&sets(80..82));
            assert!(full.unknown().is_empty(), "{backend:?}");
            assert!(full.bytes() <= LIMIT * 2 / 3);
            assert!(full.bytes() > LIMIT / 3, "not all have left");
        }
    }
}

#[test]
fn items_that_could_not_leave_do_so_in_the_background() {
    for backend in BACKENDS {
        let full = FullItems::new(backend);
        full.fail(&sets(50..60), 1);
        while full.running.items.reclaim().unwrap() {}
        assert!(full.unknown().is_empty(), "{backend:?}");
    }
}

#[test]
fn items_whose_change_has_failed_stay_known() {
    for backend in BACKENDS {
        let full = FullItems::new(backend);
        let there: Vec<u8> = full.running.visible().into_keys().collect();
        let changes: Vec<Step> = there
            .iter()
            .map(|number| match number % 3 {
                0 => Delete(*number),
                1 => Touch(*number, -1),
                _ => Set(*number, 2 * ITEM),
            })
            .collect();
        full.fail(&changes, 4);
        full.fail(&[Incr(200)], 1);
        while full.running.items.reclaim().unwrap() {}
        assert!(full.unknown().is_empty(), "{backend:?}");
        assert!(full.bytes() <= LIMIT * 2 / 3);
    }
}

#[test]
fn items_that_are_stored_again_stay() {
    for backend in BACKENDS {
        let full = FullItems::new(backend);
        full.fail(&sets(50..60), 1);
        let unknown = full.unknown();
        full.succeed(&[Set(unknown[0], 10)]);
        assert!(full.running.visible().contains_key(&unknown[0]), "{backend:?}");
        assert!(full.unknown().is_empty());
    }
}

#[test]
fn forgotten_items_are_noticed() {
    for backend in BACKENDS {
        let unknown = with(MemcachedFault::ForgetLeaving, || {
            let full = FullItems::new(backend);
            full.fail(&sets(50..80), 1);
            full.succeed(&sets(80..82));
            full.unknown()
        });
        assert!(!unknown.is_empty(), "{backend:?}");
    }
}
