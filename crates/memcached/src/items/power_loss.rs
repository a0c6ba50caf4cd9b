//! Power loss with each durability: what was acknowledged is there, or the state at an earlier moment, no
//! earlier than the last sync; and no cas value repeats, as the clock goes on.

use super::workload::{Cas, Delete, Flush, Incr, Set, Step, Store, Sync, Together, Workload};
use crate::fault::{MemcachedFault, with};
use crate::settings::Durability;

const SETUP: [Step; 3] = [Set(9, 9), Set(1, 100), Incr(3)];

const STEPS: [Step; 14] = [
    Set(1, 10),
    Cas(1, 30),
    Sync,
    Set(2, 20_000),
    Incr(3),
    Together(4, 8, 50),
    Sync,
    Delete(2),
    Incr(3),
    Flush,
    Set(1, 7),
    Sync,
    Together(1, 4, 3),
    Set(2, 1),
];

/// Returns a workload over the key-value store.
fn workload<'a>(
    durability: Durability,
    setup: &'a [Step],
    steps: &'a [Step],
    limit: Option<u64>,
) -> Workload<'a> {
    Workload {
        backend: Store,
        durability,
        setup,
        steps,
        limit,
    }
}

#[test]
fn each_durability_keeps_what_it_promises() {
    for durability in [Durability::Operation, Durability::Group, Durability::Process] {
        let explored = workload(durability, &SETUP, &STEPS, None).explore();
        let report = explored.unwrap_or_else(|violation| panic!("{durability}: {violation}"));
        assert!(report.images > 30, "{durability}: {report}");
    }
}

#[test]
fn broken_rules_are_noticed() {
    let fill: Vec<Step> = (0..12).map(|number| Set(number, 4000)).collect();
    let evicts = [Set(20, 4000), Set(21, 4000)];
    for (fault, durability) in [
        (MemcachedFault::DeferCommits, Durability::Operation),
        (MemcachedFault::SkipSync, Durability::Group),
        (MemcachedFault::ForgetFlush, Durability::Group),
        (MemcachedFault::IgnoreClock, Durability::Group),
        (MemcachedFault::EvictApart, Durability::Process),
        (MemcachedFault::IgnoreClock, Durability::Process),
    ] {
        let (setup, steps, limit) = match fault {
            MemcachedFault::EvictApart => (&fill[..], &evicts[..], Some(60_000)),
            _ => (&SETUP[..], &STEPS[..], None),
        };
        let explored = with(fault, || workload(durability, setup, steps, limit).explore());
        assert!(explored.is_err(), "{fault:?} with {durability}");
    }
}
