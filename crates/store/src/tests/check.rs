//! Checks of stores with a flipped bit in each kind of page.

use std::ops::ControlFlow;
use std::sync::Arc;

use halocline_media::{Dram, MediumAccess};
use halocline_pool::Pool;

use super::workload::options;
use crate::key_range::KeyRange;
use crate::layout::{CHECKPOINT_COPY, MAX_VALUE};
use crate::{Stores, StoresProblem};

fn problems(stores: &Stores) -> Vec<StoresProblem> {
    let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
    report.problems
}

/// Returns the findings while a bit is flipped.
fn with_flip(stores: &Stores, medium: &Dram, at: u64) -> Vec<StoresProblem> {
    let mut byte = [0];
    medium.load(at, &mut byte);
    medium.store(at, &[byte[0] ^ 8]);
    let found = problems(stores);
    medium.store(at, &byte);
    found
}

/// Offsets of one page of each kind.
struct Pages {
    branches: Vec<u64>,
    leaves: Vec<u64>,
    records: Vec<u64>,
    chunks: Vec<u64>,
}

fn pages(stores: &Stores, store: &crate::Store) -> Pages {
    let state = &stores.handle.state;
    let (mut branches, mut leaves, mut records, mut chunks) = (vec![], vec![], vec![], vec![]);
    let trees = store.state.read();
    trees
        .tree
        .walk(&state.pages(), &mut |page| branches.push(page), &mut |page| {
            leaves.push(page);
            Ok(())
        })
        .unwrap();
    drop(trees);
    state
        .for_each_newest(&store.state, &KeyRange::ALL, |_, record| {
            records.push(record.offset);
            chunks.extend(state.extent_of(&record).unwrap().1);
        })
        .unwrap();
    Pages {
        branches,
        leaves,
        records,
        chunks,
    }
}

#[test]
fn damage_of_every_kind_is_reported() {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let store = stores.store("s").unwrap();
    for number in 0..400_u32 {
        store.put(number.to_be_bytes(), b"the value").unwrap();
    }
    store.put("large", vec![7; 50_000]).unwrap();
    stores.checkpoint().unwrap();
    store.put("pending", "not in a leaf yet").unwrap();
    assert_eq!(problems(&stores), []);
    let Pages {
        branches,
        leaves,
        records,
        chunks,
    } = pages(&stores, &store);
    assert!(leaves.len() > 5 && chunks.len() == 4);
    let in_store = |page: u64, offsets: &[u64], what: &str| {
        for at in offsets {
            let found = with_flip(&stores, &medium, page + at);
            let is_it = |problem: &StoresProblem| matches!(problem, StoresProblem::Damage { store, what: found, .. } if store == "s" && found.contains(what));
            assert!(found.iter().any(is_it), "{what}, byte {at}: {found:?}");
        }
    };
    // Checksum, level, children, lengths, separators.
    in_store(branches[0], &[0, 8, 10, 12, 14, 16, 20], "branch");
    for leaf in [leaves[0], leaves[3], leaves[leaves.len() - 1]] {
        // Word, fingerprint, prefix, slice; the offset of a record leads to no record of the key.
        in_store(leaf, &[0, 7, 8, 56, 256, 263], "leaf");
        in_store(leaf, &[640, 641], "record");
    }
    for record in [records[0], records[200], records[records.len() - 1]] {
        in_store(record, &[0, 2, 8, 12, 16, 32, 33], "record");
    }
    in_store(chunks[1], &[8, 16, 5000], "record");
    // Two damaged leaves are two findings.
    let mut byte = [0];
    medium.load(leaves[1], &mut byte);
    medium.store(leaves[1], &[byte[0] ^ 1]);
    assert_eq!(with_flip(&stores, &medium, leaves[3]).len(), 2);
    medium.store(leaves[1], &byte);
    let root = stores.handle.state.slab.root();
    for copy in [root, root + CHECKPOINT_COPY] {
        let found = with_flip(&stores, &medium, copy + 24);
        assert_eq!(found, [StoresProblem::Checkpoint { offset: copy }]);
    }
    let catalog = stores.handle.state.committer().catalog.segments[0];
    for at in [16, 24, 48] {
        let found = with_flip(&stores, &medium, catalog + at);
        assert!(matches!(found[..], [StoresProblem::Catalog { .. }]), "{found:?}");
    }
    assert_eq!(problems(&stores), []);
}

#[test]
fn a_reader_finds_damage() {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let store = stores.store("s").unwrap();
    for number in 0..400_u32 {
        store.put(number.to_be_bytes(), b"the value").unwrap();
    }
    stores.checkpoint().unwrap();
    let Pages { leaves, records, .. } = pages(&stores, &store);
    let root = stores.handle.state.slab.root();
    let reader = Stores::open_reader(&Pool::open_on(Arc::clone(&medium)).unwrap()).unwrap();
    assert_eq!(problems(&reader), []);
    for at in [leaves[1], records[7] + 12, root + 24, root + CHECKPOINT_COPY + 24] {
        assert_eq!(with_flip(&reader, &medium, at).len(), 1, "byte {at}");
    }
    assert_eq!(problems(&reader), []);
}

#[test]
fn a_check_that_waits_for_a_checkpoint_is_cancelled() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let _checkpoint = stores.handle.state.maintenance.lock().unwrap();
    let report = stores.check(&mut |_| ControlFlow::Break(())).unwrap();
    assert!(report.cancelled && report.is_intact());
}

/// Puts values of 1 MiB with one commit.
fn put_large(stores: &Stores, store: &crate::Store, keys: std::ops::Range<u32>) {
    let mut batch = crate::WriteBatch::new();
    keys.for_each(|key| batch.put(store, key.to_be_bytes(), vec![1; MAX_VALUE]).unwrap());
    stores.write(batch).unwrap();
}

/// A step ends after 8 MiB of the entries of a leaf. No defect is reported twice.
#[test]
fn steps_over_large_values_are_bounded() {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let store = stores.store("s").unwrap();
    put_large(&stores, &store, 0..20);
    stores.checkpoint().unwrap();
    let (mut keys, mut largest) = (0, 0);
    let report = stores.check(&mut |progress| {
        largest = largest.max(progress.keys - keys);
        keys = progress.keys;
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert_eq!(
        (
            report.keys,
            report.leaves,
            report.problems,
            report.uncounted.len()
        ),
        (20, 1, vec![], 0)
    );
    assert_eq!(report.bytes, 20 * (4 + MAX_VALUE as u64));
    assert!(largest <= 8, "{largest} values of 1 MiB");
    let Pages { records, chunks, .. } = pages(&stores, &store);
    for at in [records[2], chunks[chunks.len() - 1]] {
        let found = with_flip(&stores, &medium, at + 40);
        assert!(matches!(found[..], [StoresProblem::Damage { .. }]), "{found:?}");
    }
}

/// The same of entries in DRAM: no checkpoint is made while the test holds the lock.
#[test]
fn steps_over_large_values_in_dram_are_bounded() {
    let medium = Arc::new(Dram::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default()).with_background(true)).unwrap();
    let store = stores.store("s").unwrap();
    let state = &stores.handle.state;
    let _no_checkpoint = state.maintenance.lock().unwrap();
    put_large(&stores, &store, 0..20);
    let Pages { records, chunks, .. } = pages(&stores, &store);
    for damaged in [None, Some(records[2]), Some(chunks[chunks.len() - 1])] {
        if let Some(at) = damaged {
            medium.store(at + 40, &[0xFF]);
        }
        let (mut keys, mut problems, mut from) = (0, 0, Some(Vec::new()));
        while let Some(key) = from {
            let step = store.state.read().check_step(state, store.state.id, &key, &[]);
            assert!(step.keys <= 8, "{} values of 1 MiB", step.keys);
            keys += step.keys;
            problems += step.problems.len();
            from = step.next;
        }
        assert_eq!(keys + problems as u64, 20);
        assert_eq!(problems > 0, damaged.is_some());
    }
}

#[test]
fn wrong_counters_are_reported() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let store = stores.store("s").unwrap();
    store.put("key", "value").unwrap();
    let keys = &store.state.keys;
    keys.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let found = problems(&stores);
    let expected = StoresProblem::Counters {
        store: "s".to_owned(),
        counted: (2, 8),
        found: (1, 8),
    };
    assert_eq!(found, [expected]);
}
