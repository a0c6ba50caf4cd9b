//! Power loss with each durability: what was acknowledged is there, or the state at an earlier moment, no
//! earlier than the last sync; and no cas value repeats, as the clock goes on.
//!
//! Trees keep each command where fences are durable. On a page-cache file whose fences are not, they are
//! refused after power loss, unless the items were closed.

use halocline_ordered::TreeKind;

use super::exploration::{MediumOf, Workload, dax, lazy_file, strict_file};
use super::workload::{
    Backend, Cas, Collisions, Delete, Flush, Incr, Pipeline, Set, Step, Store, Sync, Together, Tree,
};
use crate::fault::{MemcachedFault, with};
use crate::settings::Durability::{self, Group, Operation, Process};

const SETUP: [Step; 3] = [Set(9, 9), Set(1, 100), Incr(3)];

const STEPS: [Step; 15] = [
    Set(1, 10),
    Cas(1, 30),
    Sync,
    Set(2, 20_000),
    Incr(3),
    Together(4, 8, 50),
    Sync,
    Delete(2),
    Incr(3),
    Pipeline(&[Set(5, 6), Incr(3), Delete(4)]),
    Flush,
    Set(1, 7),
    Sync,
    Together(1, 4, 3),
    Set(2, 1),
];

/// Steps for which no slab grows, with records of the size of those of [`SETUP`]: a reboot is recognised by
/// the heads of slabs alone.
const IN_PLACE: [Step; 9] = [
    Set(1, 10),
    Incr(3),
    Sync,
    Set(2, 120),
    Pipeline(&[Set(4, 40), Delete(1), Incr(3)]),
    Delete(2),
    Sync,
    Set(1, 7),
    Incr(3),
];

const TREES: [Backend; 3] = [
    Tree(TreeKind::Lb),
    Tree(TreeKind::FastFair),
    Collisions(TreeKind::Fp),
];

fn workload<'a>(
    backend: Backend,
    durability: Durability,
    medium: MediumOf,
    steps: &'a [Step],
) -> Workload<'a> {
    Workload {
        backend,
        durability,
        medium,
        setup: &SETUP,
        steps,
        limit: None,
    }
}

#[test]
fn each_durability_keeps_what_it_promises() {
    for durability in [Operation, Group, Process] {
        workload(Store, durability, dax, &STEPS).passes(30);
        workload(Store, durability, strict_file, &STEPS).passes(10);
    }
}

#[test]
fn trees_keep_each_command_where_fences_are_durable() {
    for backend in TREES {
        for durability in [Group, Process] {
            workload(backend, durability, dax, &STEPS).passes(30);
        }
        workload(backend, Operation, strict_file, &STEPS).passes(10);
    }
}

#[test]
fn trees_are_refused_or_whole_where_fences_are_not_durable() {
    for backend in TREES {
        for durability in [Group, Process] {
            workload(backend, durability, lazy_file, &IN_PLACE).passes(30);
        }
    }
}

#[test]
fn broken_rules_are_noticed() {
    let fill: Vec<Step> = (0..12).map(|number| Set(number, 4000)).collect();
    let evicts = [Set(20, 4000), Set(21, 4000)];
    for (fault, durability) in [
        (MemcachedFault::DeferCommits, Operation),
        (MemcachedFault::SkipSync, Group),
        (MemcachedFault::ForgetFlush, Group),
        (MemcachedFault::IgnoreClock, Group),
        (MemcachedFault::EvictApart, Process),
        (MemcachedFault::IgnoreClock, Process),
    ] {
        let whole = workload(Store, durability, dax, &STEPS);
        let workload = match fault {
            MemcachedFault::EvictApart => Workload {
                setup: &fill,
                steps: &evicts,
                limit: Some(60_000),
                ..whole
            },
            _ => whole,
        };
        let explored = with(fault, || workload.explore());
        assert!(explored.is_err(), "{fault:?} with {durability}");
    }
}

#[test]
fn broken_rules_of_trees_are_noticed() {
    let (lb, fair) = (TREES[0], TREES[1]);
    let cases: [(_, _, _, MediumOf, &[Step]); 8] = [
        (MemcachedFault::LinkUnfenced, lb, Group, dax, &STEPS),
        (MemcachedFault::LinkUnfenced, fair, Process, dax, &STEPS),
        (MemcachedFault::FreeBeforeLink, fair, Group, dax, &STEPS),
        (MemcachedFault::ForgetFlush, lb, Process, dax, &STEPS),
        // Fences keep cas values apart, not the clock.
        (MemcachedFault::ReserveNothing, lb, Group, dax, &STEPS),
        (
            MemcachedFault::ReserveNothing,
            fair,
            Operation,
            strict_file,
            &STEPS,
        ),
        (MemcachedFault::TrustUnsynced, lb, Group, lazy_file, &IN_PLACE),
        (MemcachedFault::TrustUnsynced, fair, Process, lazy_file, &IN_PLACE),
    ];
    for (fault, backend, durability, medium, steps) in cases {
        let explored = with(fault, || workload(backend, durability, medium, steps).explore());
        assert!(explored.is_err(), "{fault:?} with {backend:?} and {durability}");
    }
}
