//! Every crash of small workloads with durable commands.

use super::exploration::{Workload, dax};
use super::workload::{
    Backend, Cas, Collisions, Delete, Flush, Incr, Pass, Pipeline, Set, Step, Store, Together, Touch, Tree,
};
use crate::fault::{MemcachedFault, with};
use crate::settings::Durability;
use halocline_ordered::TreeKind;

/// Returns a workload whose commands are durable when they are acknowledged.
fn workload<'a>(backend: Backend, setup: &'a [Step], steps: &'a [Step], limit: Option<u64>) -> Workload<'a> {
    Workload {
        backend,
        durability: Durability::Operation,
        medium: dax,
        setup,
        steps,
        limit,
    }
}

/// The storages of which each is explored. The changes are the same for all trees.
const BACKENDS: [Backend; 4] = [
    Store,
    Tree(TreeKind::Lb),
    Tree(TreeKind::FastFair),
    Collisions(TreeKind::Wb),
];

#[test]
fn commands_are_there_wholly_or_not_at_all() {
    let steps = [
        Set(1, 10),
        Set(2, 20_000),
        Cas(1, 30),
        Incr(3),
        Incr(3),
        Set(4, 100_000),
        Delete(2),
        Set(2, 1),
        Delete(1),
        Touch(2, 10),
    ];
    for backend in BACKENDS {
        workload(backend, &[Set(9, 9), Set(8, 8)], &steps, None).passes(50);
    }
}

#[test]
fn items_that_are_stored_together_are_there_together() {
    let steps = [
        Together(1, 6, 10),
        Together(4, 9, 4000),
        Set(2, 1),
        Together(0, 9, 1),
    ];
    for backend in [Store, Collisions(TreeKind::Fp)] {
        workload(backend, &[Set(5, 5)], &steps, None).passes(30);
    }
    // Others leave for them.
    let steps = [Together(12, 16, 4000), Together(10, 14, 3000)];
    workload(Store, &filling(0..12), &steps, LIMIT).passes(5);
}

#[test]
fn commands_that_are_sent_together_are_there_together() {
    let steps = [
        Pipeline(&[Set(1, 10), Incr(3), Delete(5), Touch(6, 100)]),
        Set(5, 50),
        Pipeline(&[Delete(1), Incr(4), Set(2, 4000), Incr(3)]),
        // Some depend on others before them.
        Pipeline(&[Set(7, 7), Incr(3), Delete(7), Set(7, 70), Incr(3), Touch(2, 50)]),
        Pipeline(&[Delete(2), Delete(4)]),
    ];
    for backend in BACKENDS {
        workload(backend, &[Set(5, 5), Set(6, 6)], &steps, None).passes(40);
    }
    // Others leave for them.
    let steps = [Pipeline(&[Set(12, 4000), Delete(11), Set(13, 3000), Incr(14)])];
    workload(Store, &filling(0..12), &steps, LIMIT).passes(5);
}

#[test]
fn items_expire_and_are_flushed() {
    let steps = [
        Touch(1, 10),
        Set(2, 5),
        Pass(20),
        Set(3, 3),
        Flush,
        Set(1, 1),
        Flush,
        Set(4, 4),
    ];
    for backend in BACKENDS {
        workload(backend, &[Set(1, 10), Set(5, 5)], &steps, None).passes(50);
    }
}

/// Returns steps that set large items, with which to fill a pool of [`LIMIT`] bytes or to exceed it.
fn filling(numbers: std::ops::Range<u8>) -> Vec<Step> {
    numbers.map(|number| Set(number, 4000)).collect()
}

const LIMIT: Option<u64> = Some(60_000);

#[test]
fn items_leave_together_with_the_one_that_needs_their_place() {
    let (fill, more) = (filling(0..12), filling(12..20));
    for backend in [Store, Tree(TreeKind::Lb)] {
        let workload = workload(backend, &fill, &more, LIMIT);
        let states = workload.states();
        assert!(
            states[20].after.len() < states[12].after.len() + 8,
            "some must have left"
        );
        workload.passes(20);
    }
}

#[test]
fn broken_rules_are_noticed() {
    let fill = filling(0..12);
    let cases: [(_, _, &[Step], &[Step], _); 12] = [
        (
            MemcachedFault::ReserveNothing,
            Store,
            &[Set(1, 1)],
            &[Set(1, 2), Set(2, 2)],
            None,
        ),
        (
            MemcachedFault::ForgetFlush,
            Store,
            &[Set(1, 1)],
            &[Flush, Set(2, 2)],
            None,
        ),
        (
            MemcachedFault::CommitApart,
            Store,
            &[Set(1, 1)],
            &[Together(1, 4, 2), Set(2, 2)],
            None,
        ),
        (
            MemcachedFault::CommitApart,
            Store,
            &[Set(1, 1)],
            &[Pipeline(&[Set(2, 2), Incr(3), Delete(1)]), Set(2, 3)],
            None,
        ),
        (
            MemcachedFault::EvictApart,
            Store,
            &fill,
            &[Set(20, 4000), Set(21, 4000)],
            LIMIT,
        ),
        (
            MemcachedFault::StaleCopy,
            Store,
            &[Set(1, 1)],
            &[Set(1, 2), Set(1, 3)],
            None,
        ),
        (
            MemcachedFault::StaleCopy,
            Store,
            &[Set(1, 1)],
            &[Set(2, 2), Together(1, 4, 3)],
            None,
        ),
        // The first write to a tree after its opening has a fence of its own.
        (
            MemcachedFault::LinkUnfenced,
            Tree(TreeKind::Lb),
            &[Set(1, 1)],
            &[Set(1, 900), Set(1, 800)],
            None,
        ),
        (
            MemcachedFault::LinkUnfenced,
            Tree(TreeKind::FastFair),
            &[Set(1, 1), Set(2, 2)],
            &[Set(1, 900), Set(2, 900), Pipeline(&[Set(1, 800), Set(2, 800)])],
            None,
        ),
        (
            MemcachedFault::FreeBeforeLink,
            Tree(TreeKind::Fp),
            &[Set(1, 1)],
            &[Set(1, 2)],
            None,
        ),
        (
            MemcachedFault::ForgetLeaked,
            Tree(TreeKind::Wb),
            &[Set(1, 1)],
            &[Set(1, 2)],
            None,
        ),
        (
            MemcachedFault::FreeUnconfirmed,
            Tree(TreeKind::FastFair),
            &[Set(1, 1)],
            &[Set(1, 2)],
            None,
        ),
    ];
    for (fault, backend, setup, steps, limit) in cases {
        let found = with(fault, || workload(backend, setup, steps, limit).explore());
        assert!(found.is_err(), "{fault:?} in {steps:?}");
    }
}
