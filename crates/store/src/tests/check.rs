//! Checks of stores with a flipped bit in each kind of page.

use std::ops::ControlFlow;
use std::sync::Arc;

use halocline_media::{Dram, MediumAccess};
use halocline_pool::Pool;

use super::workload::options;
use crate::key_range::KeyRange;
use crate::layout::CHECKPOINT_COPY;
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
        .walk(state.medium(), &mut |page| branches.push(page), &mut |page| {
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
    let catalog = stores.handle.state.committer().catalog[0];
    for at in [8, 16, 40] {
        let found = with_flip(&stores, &medium, catalog + at);
        assert!(matches!(found[..], [StoresProblem::Catalog { .. }]), "{found:?}");
    }
    assert_eq!(problems(&stores), []);
}

#[test]
fn a_check_that_waits_for_a_checkpoint_is_cancelled() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default())).unwrap();
    let _checkpoint = stores.handle.state.maintenance.lock().unwrap();
    let report = stores.check(&mut |_| ControlFlow::Break(())).unwrap();
    assert!(report.cancelled && report.is_intact());
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
