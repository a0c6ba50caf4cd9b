//! Rules that show without a crash: each scenario holds, and fails while its rule is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use halocline_media::Dram;
use halocline_pool::Pool;

use super::workload::options;
use crate::append::Overlay;
use crate::fault::{self, StoreFault};
use crate::key_range::KeyRange;
use crate::reads::ReadSet;
use crate::room::SegmentClaim;
use crate::{Store, StoreError, Stores, WriteBatch};

/// Stores in DRAM, one of them, and their clock.
fn opened() -> (Stores, Store, Arc<AtomicU64>) {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let clock = Arc::default();
    let stores = Stores::open_with(&pool, options(&clock)).unwrap();
    let store = stores.store("s").unwrap();
    (stores, store, clock)
}

/// Deletes ranges, and leaves their keys hidden.
fn hide(stores: &Stores, batch: WriteBatch) {
    let state = &stores.handle.state;
    state
        .commit_batch(batch.ops, None, SegmentClaim::Deletions)
        .unwrap();
}

fn refuses_lost_updates() -> bool {
    let (stores, store, _) = opened();
    store.put("n", "1").unwrap();
    let mut transaction = stores.begin();
    transaction.get(&store, "n").unwrap();
    store.put("n", "2").unwrap();
    transaction.put(&store, "n", "3").unwrap();
    transaction.commit().is_err()
}

fn refuses_phantoms() -> bool {
    let (stores, store, _) = opened();
    let mut transaction = stores.begin();
    let count = transaction.scan_prefix(&store, "a").count();
    store.put("a1", "").unwrap();
    transaction.put(&store, "count", count.to_string()).unwrap();
    transaction.commit().is_err()
}

/// Writes after a transaction was compared with the trees, and before it has the committer.
fn refuses_what_came_during_validation() -> bool {
    let (stores, store, _) = opened();
    let mut reads = ReadSet::new(stores.snapshot().commit());
    let range = KeyRange::of_prefix(b"a");
    reads.add(&store.state, Vec::new(), vec![range]);
    let state = &stores.handle.state;
    let watched = state.watch_reads(reads).unwrap();
    store.put("b", "").unwrap();
    assert!(state.validate(&Overlay::default(), &watched).is_ok());
    store.put("a1", "").unwrap();
    state.validate(&Overlay::default(), &watched).is_err()
}

/// The keys of a range that was deleted before a transaction began are deleted while it is validated.
#[test]
fn deletions_of_hidden_keys_conflict_with_nothing() {
    let (stores, store, _) = opened();
    (0..9).for_each(|key| store.put(format!("k{key}"), "old").unwrap());
    let mut batch = WriteBatch::new();
    batch.delete_range(&store, "k".."l").unwrap();
    hide(&stores, batch);
    let mut reads = ReadSet::new(stores.snapshot().commit());
    let range = KeyRange::of_prefix(b"k");
    reads.add(&store.state, Vec::new(), vec![range]);
    let state = &stores.handle.state;
    let watched = state.watch_reads(reads).unwrap();
    assert_eq!(store.len(), 0);
    state.validate(&Overlay::default(), &watched).unwrap();
}

/// Sets a key whose range is deleted, and whose deletion of its own is outstanding.
fn hides_versions_behind_new_values() -> bool {
    let (stores, store, _) = opened();
    (0..9).for_each(|key| store.put(format!("k{key}"), "old").unwrap());
    let before = stores.snapshot();
    let mut batch = WriteBatch::new();
    batch.delete_range(&store, "k".."l").unwrap();
    hide(&stores, batch);
    let between = stores.snapshot();
    assert!(store.get("k5").unwrap().is_none() && store.scan::<&str>(..).next().is_none());
    store.put("k5", "new").unwrap();
    assert_eq!(store.len(), 1);
    assert_eq!(before.scan::<&str>(&store, ..).count(), 9);
    assert_eq!(store.get("k5").unwrap().unwrap(), b"new");
    between.get(&store, "k5").unwrap().is_none() && between.scan::<&str>(&store, ..).next().is_none()
}

/// Transactions depend on what a deleted range hides, before and after its keys are deleted.
#[test]
fn deleted_ranges_conflict_with_reads() {
    for is_finished in [false, true] {
        for reads_all in [false, true] {
            let (stores, store, _) = opened();
            (0..40).for_each(|key| store.put(format!("k{key:02}"), "old").unwrap());
            let begin = |range: std::ops::Range<&str>| {
                let mut transaction = stores.begin();
                if reads_all {
                    transaction
                        .scan(&store, range)
                        .for_each(|pair| drop(pair.unwrap()));
                } else {
                    drop(transaction.get(&store, range.start).unwrap());
                }
                transaction.put(&store, "sum", "1").unwrap();
                transaction
            };
            let (inside, outside) = (begin("k05".."k07"), begin("k30".."k31"));
            let mut batch = WriteBatch::new();
            batch.delete_range(&store, "k00".."k20").unwrap();
            hide(&stores, batch);
            if is_finished {
                assert_eq!(store.len(), 20);
            }
            assert!(matches!(inside.commit(), Err(StoreError::Conflict { .. })));
            outside.commit().unwrap();
        }
    }
}

fn hides_expired_keys() -> bool {
    let (_stores, store, clock) = opened();
    store.put_with_ttl("k", "v", Duration::from_millis(10)).unwrap();
    clock.store(10, Ordering::Relaxed);
    store.get("k").unwrap().is_none()
}

/// Overwrites a key many times beside a snapshot, and lets the space be used again.
fn keeps_versions() -> bool {
    let (stores, store, _) = opened();
    store.put("k", "old").unwrap();
    let snapshot = stores.snapshot();
    for round in 0..40 {
        store.put("k", vec![round; 15_000]).unwrap();
        stores.reclaim().unwrap();
    }
    matches!(snapshot.get(&store, "k"), Ok(Some(value)) if value == b"old")
}

fn keeps_deletions() -> bool {
    let (stores, store, _) = opened();
    store.put("k", "old").unwrap();
    let snapshot = stores.snapshot();
    store.delete("k").unwrap();
    stores.checkpoint().unwrap();
    matches!(snapshot.get(&store, "k"), Ok(Some(value)) if value == b"old")
}

/// Overwrites a key many times beside a reader, and lets the space be used again.
fn keeps_what_readers_see() -> bool {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let options = options(&Arc::default()).with_pending_bytes(60_000);
    let stores = Stores::open_with(&pool, options.clone()).unwrap();
    let store = stores.store("s").unwrap();
    // A later version at the same place would lead to what the reader sees.
    store.put("before", vec![1; 333]).unwrap();
    store.put("k", "old").unwrap();
    let reader = Stores::open_reader_with(&pool, &options).unwrap();
    let seen = reader.existing("s").unwrap();
    for round in 0..=255 {
        store.put("k", vec![round; 15_000]).unwrap();
        stores.reclaim().unwrap();
    }
    assert!(stores.stats().pool_bytes < 2 << 20, "space is used again");
    matches!(seen.get("k"), Ok(Some(value)) if value == b"old")
}

/// Lets a loaded store take the place of another one, beside a snapshot and a transaction.
fn hides_replacements() -> bool {
    let (stores, old, _) = opened();
    let mut loader = stores.load_sorted("new").unwrap();
    loader.push("k", "loaded").unwrap();
    let new = loader.finish().unwrap();
    let (snapshot, mut transaction, mut replacing) = (stores.snapshot(), stores.begin(), stores.begin());
    replacing.put(&new, "other", "1").unwrap();
    replacing.replace(&old, &new);
    replacing.commit().unwrap();
    let is_hidden =
        snapshot.get(&new, "k").unwrap().is_none() && snapshot.scan::<&str>(&new, ..).next().is_none();
    let read = transaction.get(&new, "k").unwrap();
    transaction.put(&new, "copy", read.unwrap_or_default()).unwrap();
    is_hidden && transaction.commit().is_err()
}

/// A reader whose writer uses space again all the time says so.
#[test]
fn a_reader_that_is_overtaken_gives_up() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let options = options(&Arc::default());
    let stores = Stores::open_with(&pool, options.clone()).unwrap();
    stores.store("s").unwrap().put("k", "v").unwrap();
    let reader = Stores::open_reader_with(&pool, &options).unwrap();
    let seen = reader.existing("s").unwrap();
    let is_overtaken = |error: StoreError| matches!(error, StoreError::Overtaken { .. });
    fault::with(StoreFault::MoveOn, || {
        assert!(is_overtaken(seen.get("k").unwrap_err()));
        assert!(is_overtaken(reader.refresh().unwrap_err()));
        let other = Stores::open_reader_with(&pool, &options);
        assert!(is_overtaken(other.unwrap_err()));
    });
    assert_eq!(seen.get("k").unwrap().unwrap(), b"v");
}

/// A catalog that no program has written like this leaves no number for a new store. What is there stays.
#[test]
fn a_catalog_without_numbers_refuses_new_stores() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let open = || Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let stores = open();
    stores.store("s").unwrap().put("k", "v").unwrap();
    stores.handle.state.committer().next_store = u32::MAX;
    drop(stores);
    let stores = open();
    for _ in 0..2 {
        for error in [stores.store("new").err(), stores.load_sorted("new").err()] {
            let text = error.unwrap().to_string();
            assert!(
                text.contains("the catalog of the stores leaves no number"),
                "{text}"
            );
        }
    }
    assert_eq!(stores.names(), ["s"]);
    assert_eq!(stores.store("s").unwrap().get("k").unwrap().unwrap(), b"v");
}

#[test]
fn scenarios_hold_and_show_broken_rules() {
    let scenarios: [(StoreFault, fn() -> bool); 10] = [
        (StoreFault::SkipValidation, refuses_lost_updates),
        (StoreFault::SkipRanges, refuses_phantoms),
        (StoreFault::OverwriteDeleted, hides_versions_behind_new_values),
        (StoreFault::ForgetRecent, refuses_what_came_during_validation),
        (StoreFault::IgnoreExpiry, hides_expired_keys),
        (StoreFault::IgnoreSnapshots, keeps_versions),
        (StoreFault::PurgeEarly, keeps_deletions),
        (StoreFault::IgnoreReaders, keeps_what_readers_see),
        (StoreFault::ReleaseSilently, keeps_what_readers_see),
        (StoreFault::SeeReplacements, hides_replacements),
    ];
    for (fault, holds) in scenarios {
        assert!(holds(), "{fault:?} is not injected");
        assert!(!fault::with(fault, holds), "{fault:?} is not noticed");
    }
}
