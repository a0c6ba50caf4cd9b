//! Emptying of segments comes to an end, and nobody waits for a keeper that fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use halocline_media::{Dram, MediumAccess};
use halocline_pool::{Pool, PoolError};

use super::workload::options;
use crate::fault::{self, StoreFault};
use crate::layout::MAX_VALUE;
use crate::moves::FENCED_BYTES;
use crate::{StoreError, Stores};

/// Returns true if emptying ends after a few calls that find something.
fn comes_to_an_end(stores: &Stores) -> bool {
    (0..40).any(|_| !stores.handle.state.maintain().unwrap())
}

/// Returns true if the emptying of segments ends with values whose lengths leave up to a quarter of each
/// segment unused, wherever they are copied.
fn ends_with_large_values() -> bool {
    [11_000, 13_200, 16_384, 40_000, 100_000].into_iter().all(|len| {
        let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
        let options = options(&Arc::default()).with_garbage_percent(5);
        let stores = Stores::open_with(&pool, options.clone()).unwrap();
        let store = stores.store("s").unwrap();
        for number in 0..60_u32 {
            store.put(number.to_be_bytes(), vec![1; len]).unwrap();
        }
        let ends = comes_to_an_end(&stores);
        let is_copied_once = stores.stats().appended_bytes < 120 * len as u64;
        drop((store, stores));
        // The ends of the segments are measured after the opening.
        let stores = Stores::open_with(&pool, options).unwrap();
        ends && is_copied_once && comes_to_an_end(&stores) && stores.stats().appended_bytes < 20 * len as u64
    })
}

/// Returns true if the emptying of segments ends while a snapshot needs records that have expired since. They
/// are copied once, and later once again.
fn ends_beside_a_snapshot() -> bool {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let clock = Arc::default();
    let stores = Stores::open_with(&pool, options(&clock)).unwrap();
    let store = stores.store("s").unwrap();
    let snapshot = stores.snapshot();
    for number in 0..40_u32 {
        let ttl = Duration::from_millis(10);
        store
            .put_with_ttl(number.to_be_bytes(), vec![1; 9000], ttl)
            .unwrap();
    }
    let written = stores.stats().appended_bytes;
    clock.store(20, Ordering::Relaxed);
    let ends = comes_to_an_end(&stores) && stores.stats().appended_bytes < 3 * written;
    drop(snapshot);
    clock.store(100_000, Ordering::Relaxed);
    // Those in the current segment stay.
    ends && comes_to_an_end(&stores) && stores.stats().keys < 10
}

#[test]
fn segments_are_not_emptied_for_ever() {
    let scenarios: [(StoreFault, fn() -> bool); 2] = [
        (StoreFault::IgnoreTails, ends_with_large_values),
        (StoreFault::ExpireCopies, ends_beside_a_snapshot),
    ];
    for (fault, holds) in scenarios {
        assert!(holds(), "{fault:?} is not injected");
        assert!(!fault::with(fault, holds), "{fault:?} is not noticed");
    }
}

/// Copies leave free segments to the next checkpoint, which may need more of them than the copies.
#[test]
fn copies_find_room_beside_a_checkpoint_of_many_records() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    stores.store("s").unwrap().put("k", "v").unwrap();
    let state = &stores.handle.state;
    state.committer().pending_records = 300_000;
    state.note_full(&PoolError::DiskFull {
        path: pool.path().to_path_buf(),
        wanted: 1,
    });
    assert_eq!(state.room_for_copies(), 0);
    assert!(state.make_room_for_copies());
    assert!(state.room_for_copies() >= FENCED_BYTES);
    // A further attempt is not worth it.
    assert!(!state.make_room_for_copies());
}

/// Four chunks fit a segment.
#[test]
fn large_values_fill_their_segments() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let store = stores.store("s").unwrap();
    for number in 0..20_u32 {
        store.put([number as u8; 200], vec![1; MAX_VALUE / 2]).unwrap();
    }
    let stats = stores.stats();
    let (log, values) = (stats.log_bytes as f64, stats.bytes as f64);
    assert!(log < 1.1 * values, "{:.2}", log / values);
}

/// A damaged leaf lets every checkpoint fail. Commits that do not need it go on.
#[test]
fn commits_do_not_wait_for_a_keeper_that_fails() {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let options = options(&Arc::default())
        .with_background(true)
        .with_pending_records(10);
    let stores = Stores::open_with(&pool, options).unwrap();
    let store = stores.store("s").unwrap();
    store.put("a", "1").unwrap();
    stores.checkpoint().unwrap();
    // The leaf is verified now, and not again before it is changed.
    assert!(store.get("a").unwrap().is_some());
    let leaf = store
        .state
        .read()
        .tree
        .leaf_of(&stores.handle.state.pages(), None);
    let leaf = leaf.unwrap().unwrap().leaf;
    let mut byte = [0];
    medium.load(leaf + 7, &mut byte);
    medium.store(leaf + 7, &[byte[0] ^ 1]);
    store.put("b", "2").unwrap();
    let frozen = || stores.handle.state.frozen.load(Ordering::Acquire);
    let before = frozen();
    assert!(matches!(stores.checkpoint(), Err(StoreError::Damaged { .. })));
    assert_eq!(
        frozen(),
        before,
        "a crash leads back to the last checkpoint that was made"
    );
    let other = stores.store("s").unwrap();
    for number in 0..200_u32 {
        other.put(format!("c{number}"), "3").unwrap();
    }
    assert_eq!(store.get("c199").unwrap().unwrap(), b"3");
    medium.store(leaf + 7, &byte);
    stores.checkpoint().unwrap();
}

/// The leaf of a key is damaged. Keys whose records are in the same segment, and were copied before that is
/// found, keep their values.
#[test]
fn damage_amid_copies_affects_no_other_key() {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let (first, second) = (stores.store("first").unwrap(), stores.store("second").unwrap());
    let segment = stores.handle.state.committer().log.position().segment;
    first.put("a", "1").unwrap();
    second.put("b", "2").unwrap();
    // The log goes on in other segments.
    for _ in 0..20 {
        first.put("filler", vec![0; 10_000]).unwrap();
    }
    stores.checkpoint().unwrap();
    let leaf = second
        .state
        .read()
        .tree
        .leaf_of(&stores.handle.state.pages(), None);
    let leaf = leaf.unwrap().unwrap().leaf;
    drop((first, second, stores));
    let mut byte = [0];
    medium.load(leaf + 7, &mut byte);
    medium.store(leaf + 7, &[byte[0] ^ 1]);
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let first = stores.store("first").unwrap();
    let emptied = stores.handle.state.empty_segments(&[segment]);
    assert!(matches!(emptied, Err(StoreError::Damaged { .. })));
    first.put("c", "3").unwrap();
    assert_eq!(first.get("a").unwrap().unwrap(), b"1");
}
