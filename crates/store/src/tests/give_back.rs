//! Space that comes back: after drops, and from nearly empty parts of the stores; and every crash meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use halocline_explore::{Report, Tracked, Violation};
use halocline_media::{Dram, Medium};
use halocline_pool::Pool;

use super::killed::needed_bytes;
use super::workload::StoreStep::{
    Batch, Checkpoint, Delete, DropSecond, GiveBack, Put, Reclaim, Snapshot, Together,
};
use super::workload::{Running, StoreStep, explore, options, states};
use crate::fault::{self, StoreFault};
use crate::{Store, StoreError, Stores, WriteBatch};

const KEYS: u32 = 2000;

fn dram_stores() -> (Pool, Stores) {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    (pool, stores)
}

/// Puts keys with values of a KiB into stores, in turn.
fn fill(stores: &[&Store], keys: u32) {
    for key in 0..keys {
        for store in stores {
            store.put(key.to_be_bytes(), vec![key as u8; 1000]).unwrap();
        }
    }
}

fn is_filled(store: &Store, keys: u32) -> bool {
    (0..keys).all(|key| store.get(key.to_be_bytes()).unwrap() == Some(vec![key as u8; 1000]))
        && store.len() == u64::from(keys)
}

fn pool_bytes(stores: &Stores) -> u64 {
    stores.stats().pool_bytes
}

#[test]
fn a_dropped_store_gives_its_space_back() {
    let (pool, stores) = dram_stores();
    let kept = stores.store("kept").unwrap();
    fill(&[&kept], 100);
    let dropped = stores.store("dropped").unwrap();
    fill(&[&dropped], 20 * KEYS);
    stores.checkpoint().unwrap();
    let full = pool_bytes(&stores);
    assert!(full > 40_000_000);
    stores.drop_store("dropped").unwrap();
    assert!(matches!(dropped.get("x"), Err(StoreError::Dropped { .. })));
    let left = pool_bytes(&stores);
    assert!(left < 6 << 20, "{left} of {full} bytes are left");
    assert!(is_filled(&kept, 100));
    drop((kept, dropped, stores));
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    assert!(is_filled(&stores.existing("kept").unwrap(), 100));
    // What is asked for is no good part of all.
    stores.give_back(Duration::ZERO).unwrap();
    assert!(pool_bytes(&stores) <= 3 << 20, "{}", pool_bytes(&stores));
    let space = pool.vacuum().unwrap();
    assert!(space.allocated.min(space.len) < 10 << 20, "{space:?}");
    assert!(is_filled(&stores.existing("kept").unwrap(), 100));
}

/// The records of both stores are in the same segments, and their pages too.
#[test]
fn what_a_dropped_store_shared_with_others_comes_back() {
    let (pool, stores) = dram_stores();
    let (kept, dropped) = (stores.store("kept").unwrap(), stores.store("dropped").unwrap());
    let thin = stores.store("thin").unwrap();
    fill(&[&kept, &dropped, &thin], 4 * KEYS);
    stores.checkpoint().unwrap();
    stores.drop_store("dropped").unwrap();
    for key in (0..4 * KEYS).filter(|key| key % 64 != 0) {
        thin.delete(key.to_be_bytes()).unwrap();
    }
    stores.give_back(Duration::ZERO).unwrap();
    let (left, live) = (pool_bytes(&stores), u64::from(4 * KEYS) * 1000);
    assert!(left < live * 3 / 2 + (3 << 20), "{left} bytes for {live}");
    assert!(is_filled(&kept, 4 * KEYS) && thin.len() == u64::from(4 * KEYS / 64));
    drop((kept, dropped, thin, stores));
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    assert!(is_filled(&stores.existing("kept").unwrap(), 4 * KEYS));
}

/// Pages of leaves move, with what is not in them yet.
#[test]
fn pages_move_out_of_chunks() {
    let (pool, stores) = dram_stores();
    let (kept, dropped) = (stores.store("kept").unwrap(), stores.store("dropped").unwrap());
    for key in 0..20 * KEYS {
        kept.put(key.to_be_bytes(), "1").unwrap();
        dropped.put(key.to_be_bytes(), "2").unwrap();
    }
    stores.checkpoint().unwrap();
    kept.delete_range(30_000_u32.to_be_bytes()..).unwrap();
    stores.drop_store("dropped").unwrap();
    // In DRAM only, until the checkpoint that moves the leaves.
    for key in 0..20_000_u32 {
        kept.put((2 * key).to_be_bytes(), "3").unwrap();
    }
    let before = pool_bytes(&stores);
    let given = stores.give_back(Duration::ZERO).unwrap();
    assert_eq!(pool_bytes(&stores) + given, before);
    let expected = |key: u32| match key {
        key if key % 2 == 0 => Some(b"3".to_vec()),
        key if key < 30_000 => Some(b"1".to_vec()),
        _ => None,
    };
    let holds = |store: &Store| {
        (0..20 * KEYS).all(|key| store.get(key.to_be_bytes()).unwrap() == expected(key))
            && store.scan::<&[u8]>(..).count() as u64 == store.len()
    };
    assert!(holds(&kept));
    let report = stores
        .check(&mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert!(report.is_intact(), "{:?}", report.problems);
    drop((kept, dropped, stores));
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    assert!(holds(&stores.existing("kept").unwrap()));
}

/// Needed bytes after a drop are those of the other store: by keys and by segments.
#[test]
fn a_drop_counts_what_it_leaves() {
    for (large, second) in [(30, 180), (30, 30), (20_000, 180), (40_000, 20)] {
        let memory = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_on(Medium::from(&memory)).unwrap();
        let mut running = Running::open(&pool).unwrap();
        let mut steps: Vec<StoreStep> = (0..second).map(|key| Batch(vec![key, key + 1], vec![])).collect();
        steps.extend((0..20).map(|key| Put(key, large)));
        steps.extend([
            Snapshot,
            Batch((0..9).collect(), (9..12).collect()),
            Checkpoint,
            Reclaim,
        ]);
        steps.extend([Put(3, large), Batch(vec![2, 3], vec![4]), DropSecond, Snapshot]);
        for (at, step) in steps.iter().enumerate() {
            running.step(at, step).unwrap();
        }
        let (counted, found) = needed_bytes(&running);
        // The first snapshot was dropped with the second one.
        assert_eq!(counted, found, "{large}, {second}");
        for step in [Reclaim, GiveBack, Reclaim] {
            running.step(999, &step).unwrap();
        }
        assert_eq!(Some(&running.contents().unwrap()), states(&steps).last());
    }
}

/// A reader in another handle goes on, and finds what it saw elsewhere.
#[test]
fn readers_go_on_when_space_is_given_back() {
    let (pool, stores) = dram_stores();
    let (kept, dropped) = (stores.store("kept").unwrap(), stores.store("dropped").unwrap());
    fill(&[&kept, &dropped], 2 * KEYS);
    stores.checkpoint().unwrap();
    let reader = Stores::open_reader(&pool).unwrap();
    let seen = reader.existing("kept").unwrap();
    fill(&[&dropped], KEYS);
    for key in 0..KEYS {
        kept.put(key.to_be_bytes(), "newer").unwrap();
    }
    stores.drop_store("dropped").unwrap();
    assert!(stores.give_back(Duration::ZERO).unwrap() > 0);
    let mut batch = WriteBatch::new();
    (0..3000_u32).for_each(|key| batch.put(&kept, key.to_le_bytes(), vec![7; 900]).unwrap());
    stores.write(batch).unwrap();
    assert!(is_filled(&seen, 2 * KEYS));
    reader.refresh().unwrap();
    assert_eq!(seen.get(5_u32.to_be_bytes()).unwrap().unwrap(), b"newer");
    assert!(matches!(
        reader.existing("dropped"),
        Err(StoreError::NoSuchStore { .. })
    ));
}

/// Returns steps that write more than a chunk of large values and delete all but those of a few whole
/// segments.
fn thinned() -> Vec<StoreStep> {
    let mut steps: Vec<StoreStep> = (0..130).map(|key| Put(key, 14_000)).collect();
    steps.extend([
        Batch(vec![200], (0..100).collect()),
        Batch(vec![201], (108..130).collect()),
        Checkpoint,
        Reclaim,
        Checkpoint,
    ]);
    steps
}

fn crashes() -> Result<Report, Box<Violation>> {
    let steps = [
        Put(51, 30),
        GiveBack,
        Put(52, 14_000),
        Put(53, 14_000),
        Together(vec![51, 60]),
        GiveBack,
        Delete(103),
        Put(54, 30),
    ];
    explore(&thinned(), &steps)
}

#[test]
fn every_crash_while_space_is_given_back() {
    let report = crashes().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 100, "{report}");
    let fault = StoreFault::GiveBackEarly;
    let explored = fault::with(fault, || catch_unwind(AssertUnwindSafe(crashes)));
    assert!(!matches!(explored, Ok(Ok(_))), "{fault:?} is not noticed");
}

#[test]
fn every_crash_while_a_store_is_dropped() {
    let setup = [
        thinned(),
        vec![
            Batch((0..50).collect(), vec![]),
            Checkpoint,
            Batch((20..70).collect(), vec![]),
        ],
    ]
    .concat();
    let steps = [
        Put(51, 30),
        DropSecond,
        Batch((0..30).collect(), vec![]),
        Checkpoint,
        Put(52, 14_000),
        DropSecond,
        GiveBack,
        Put(53, 14_000),
    ];
    let report = explore(&setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 100, "{report}");
}

/// The checkpoint of a drop splits leaves of the other store, and so needs pages.
#[test]
fn a_dropped_store_is_whole_until_the_checkpoint_without_it() {
    let dropped = || {
        let setup = [Batch((0..100).collect(), vec![]), Checkpoint];
        explore(
            &setup,
            &[Batch((200..400).collect(), vec![]), DropSecond, Put(1, 30)],
        )
    };
    let report = dropped().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 20, "{report}");
    let fault = StoreFault::FreeDropped;
    let explored = fault::with(fault, || catch_unwind(AssertUnwindSafe(dropped)));
    assert!(!matches!(explored, Ok(Ok(_))), "{fault:?} is not noticed");
}
