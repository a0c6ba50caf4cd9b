//! Tests of the wB+-Tree with injected faults. `persistent` covers what it shares with
//! other trees on the slow tier.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::MediumAccess;
use halocline_pool::Pool;

use super::crash::inserts;
use super::faults::noticed;
use super::persistent::is_persistent;
use super::workload::{Do, Kind, Needless, run};
use crate::wb::fault::WbFault;
use crate::wb::{WbFormat, key_offset};
use crate::{TreeError, WbTree};

is_persistent! {
    WbKind: WbTree of WbFormat,
    leaf: 28,
    // The next fence makes a new node's pairs and copies durable. A log that is cleared late repeats values
    // that are already present. The frontier is made durable for other threads; a single one fences again
    // before it links a node, and in a load only the last frontier counts.
    needless: Needless {
        splits: 3,
        empty_leaves: 15,
        loads: 7,
        ..Needless::NONE
    },
    needless_above: 19,
    key_offset: key_offset,
}

fn found(fault: WbFault, setup: &[Do], operations: &[Do]) {
    noticed::<WbKind>(fault, setup, operations);
}

fn some() -> Vec<Do> {
    inserts([50, 20, 90, 40, 10, 70])
}

fn full() -> Vec<Do> {
    inserts((1..=28).map(|key| key * 10))
}

#[test]
fn changes_of_a_node_out_of_order() {
    for fault in [
        WbFault::EntryUnflushed,
        WbFault::BitmapUnfenced,
        WbFault::BitmapFirst,
        WbFault::SlotsStillCount,
        WbFault::SlotsNotMended,
    ] {
        found(fault, &some(), &inserts([30, 5, 100]));
    }
    for fault in [
        WbFault::SlotsStillCount,
        WbFault::BitmapFirst,
        WbFault::RemoveUnfenced,
    ] {
        found(fault, &some(), &[Do::Remove(20), Do::Remove(10)]);
    }
    found(WbFault::UpdateUnfenced, &some(), &[Do::Update(20, 1)]);
}

#[test]
fn splits_out_of_order() {
    for fault in [
        WbFault::NewUnflushed,
        WbFault::LogCountsEarly,
        WbFault::LogAppliedEarly,
        WbFault::LogClearedEarly,
        WbFault::LogNotCleared,
        WbFault::LogsIgnored,
    ] {
        for key in [5, 275] {
            found(fault, &full(), &inserts([key, 7]));
        }
    }
}

#[test]
fn joins_out_of_order() {
    let removals = |range: std::ops::RangeInclusive<u64>| range.map(|key| Do::Remove(key * 10));
    let setup = inserts((1..=58).map(|key| key * 10));
    for fault in [
        WbFault::CopiesUnflushed,
        WbFault::LogCountsEarly,
        WbFault::LogAppliedEarly,
        WbFault::LogClearedEarly,
        WbFault::LogsIgnored,
    ] {
        let operations: Vec<Do> = removals(1..=28).chain([Do::Insert(1)]).collect();
        found(fault, &setup, &operations);
    }
}

#[test]
fn loads_not_durable() {
    found(WbFault::LoadUnfenced, &[], &[Do::Load(150)]);
}

#[test]
fn a_log_of_words_that_are_in_no_node_is_refused() {
    for (count, offset) in [(16, 0), (1, 8), (1, 1 << 40)] {
        let medium = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
        let mut tree = <WbKind as Kind>::create(&pool);
        run(&mut tree, &full(), |_| (), |_| ());
        let log = tree.0.slab.root() + 64;
        drop(tree);
        medium.store_u64(log, count);
        medium.store_u64(log + 16, offset);
        let error = <WbKind as Kind>::open(&pool).map(drop).unwrap_err();
        assert!(
            matches!(error, TreeError::Damaged { node, .. } if node == log),
            "{error}"
        );
    }
}
