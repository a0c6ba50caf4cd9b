//! Tests of FAST&FAIR with injected faults. `persistent` covers what it shares with other
//! trees on the slow tier.

use super::crash::inserts;
use super::faults::noticed;
use super::persistent::is_persistent;
use super::workload::{Do, Needless};
use crate::FastFair;
use crate::fair::fault::FastFairFault;
use crate::fair::{FairFormat, key_offset};
use crate::persistent::fault::PersistentFault;

is_persistent! {
    FastFairKind: FastFair of FairFormat,
    leaf: 30,
    needless: Needless {
        // A removal takes effect with its first store. If it ends in another line, a duplicate remains, which
        // the next visit to the node clears.
        changes: 5,
        // The frontier is made durable for other threads; a single one fences again before it links a node,
        // and in a load only the last frontier counts.
        loads: 9,
        // The first visit of the parent adds what is missing from it.
        splits: 6,
        // Unlinking the leaf also makes the removal of its last entry durable. A takeover becomes visible
        // only when it is complete.
        empty_leaves: 7,
        ..Needless::NONE
    },
    needless_above: 9,
    key_offset: key_offset,
}

fn found(fault: FastFairFault, setup: &[Do], operations: &[Do]) {
    noticed::<FastFairKind>(fault, setup, operations);
}

/// Returns operations that leave a leaf with room for a few entries.
fn most() -> Vec<Do> {
    inserts((1..=25).map(|key| key * 10))
}

fn full() -> Vec<Do> {
    inserts((1..=30).map(|key| key * 10))
}

#[test]
fn shifts_out_of_order() {
    for fault in [
        FastFairFault::KeyBeforeValue,
        FastFairFault::ShiftUnfenced,
        FastFairFault::InsertUnflushed,
    ] {
        found(fault, &most(), &inserts([5, 105, 205, 255]));
    }
    for fault in [FastFairFault::ValueMovesFirst, FastFairFault::ShiftUnfenced] {
        found(fault, &most(), &[Do::Remove(10), Do::Remove(120)]);
    }
    found(FastFairFault::CopyStays, &most(), &inserts([5]));
}

#[test]
fn updates_not_durable() {
    found(FastFairFault::UpdateUnfenced, &most(), &[Do::Update(20, 1)]);
}

#[test]
fn splits_out_of_order() {
    for fault in [
        FastFairFault::LinkBeforeNew,
        FastFairFault::EndBeforeLink,
        FastFairFault::ParentFirst,
        FastFairFault::NoHint,
        FastFairFault::HintIgnored,
    ] {
        for key in [5, 295] {
            found(fault, &full(), &inserts([key]));
        }
    }
    noticed::<FastFairKind>(PersistentFault::SplitsUnfinished, &full(), &inserts([5]));
}

#[test]
fn keys_taken_over_too_early() {
    let removals = |range: std::ops::RangeInclusive<u64>| range.map(|key| Do::Remove(key * 10));
    let again = (1..=62).map(|key| Do::Insert(key * 10 + 1));
    let setup = inserts((1..=62).map(|key| key * 10));
    let operations: Vec<Do> = removals(31..=60).chain(again.clone()).collect();
    found(FastFairFault::FreeBeforeUnlink, &setup, &operations);
    let operations: Vec<Do> = removals(1..=30).collect();
    found(FastFairFault::HintIgnored, &setup, &operations);
    // The third leaf, whose entry in the parent is not in the line of the head.
    let setup = inserts((1..=152).map(|key| key * 10));
    let operations: Vec<Do> = removals(61..=90).collect();
    found(FastFairFault::JoinUnfenced, &setup, &operations);
    // A split in the middle leaves entries after those of the old leaf.
    let setup = [full(), inserts([295])].concat();
    let operations: Vec<Do> = removals(16..=30).chain([Do::Remove(295)]).collect();
    found(FastFairFault::StaleEntries, &setup, &operations);
}

#[test]
fn loads_not_durable() {
    found(FastFairFault::LoadUnfenced, &[], &[Do::Load(150)]);
}
