//! Power loss without durable fences: the last synced state always survives, later changes only if they are
//! intact, and nothing is returned silently.

use std::cell::RefCell;
use std::sync::Arc;

use halocline_explore::{Crash, Explorer, MutantReport, Tracked, Violation};

use super::model::{BOOT, ExpectedObjects, NEXT_BOOT, PoolStep, SMALL_POOL, find, goes_on, run, states};
use super::wrapped::Wrapped;
use crate::fault::{self, PoolFault};
use crate::{Pool, PoolError};

/// Accepts an image that opens, or that reports the need for repair and then opens, with a state that is not
/// older than the last acknowledged sync.
fn check(
    medium: &Arc<Tracked>,
    crash: &Crash<'_>,
    steps: &[PoolStep],
    done: usize,
    states: &[ExpectedObjects],
) -> Result<(), String> {
    let synced = crash
        .acknowledged
        .iter()
        .rev()
        .find(|step| matches!(steps[**step as usize], PoolStep::Sync));
    let first = synced.map_or(done, |step| *step as usize + 1);
    let last = done + crash.acknowledged.len() + usize::from(crash.in_flight.is_some());
    let open = || Pool::open_with(Wrapped::lazy(medium), SMALL_POOL, NEXT_BOOT);
    let pool = match open() {
        Ok(pool) => pool,
        Err(PoolError::UnsyncedAfterReboot { .. } | PoolError::DamagedSuperblock { .. }) => {
            Pool::repair_with(medium, NEXT_BOOT, |_| ()).map_err(|error| error.to_string())?;
            open().map_err(|error| format!("after repair: {error}"))?
        }
        Err(error) => return Err(error.to_string()),
    };
    let at = find(&pool, states, first, last)?;
    goes_on(&pool, states, at)
}

/// Explores the steps on a pool after the setup, which is performed by the same handle and ends with a sync.
pub(crate) fn explore(
    explorer: &Explorer,
    setup: &[PoolStep],
    steps: &[PoolStep],
    mutants: bool,
) -> Result<MutantReport, Box<Violation>> {
    let all = [setup, steps].concat();
    let states = states(&all);
    let pool = RefCell::new(None);
    let prepare = |medium: &Arc<Tracked>| {
        let created = Pool::create_with(Wrapped::lazy(medium), SMALL_POOL).unwrap();
        run(&created, setup, |_| (), |_| ());
        pool.replace(Some(created));
    };
    let work = |medium: &Arc<Tracked>| {
        let number = |step| step + setup.len() as u64;
        let pool = pool.take().unwrap();
        run(
            &pool,
            steps,
            |step| medium.begin(number(step)),
            |step| medium.acknowledge(number(step)),
        );
        // The process dies without closing it.
        std::mem::forget(pool);
    };
    let check = |medium: Arc<Tracked>, crash: &Crash<'_>| check(&medium, crash, &all, setup.len(), &states);
    if mutants {
        return explorer.mutants(prepare, work, check);
    }
    let unchanged = explorer.run(prepare, work, check)?;
    let mut report = MutantReport::default();
    report.unchanged = unchanged;
    Ok(report)
}

/// Space in plenty, so that no sync is implied.
const SETUP: &[PoolStep] = &[
    PoolStep::Put("a", 1, &[100]),
    PoolStep::Put("big", 2, &[60_000]),
    PoolStep::Remove("big"),
    PoolStep::Sync,
];

/// After each sync both superblocks that publishes write are overwritten, and so is what the sync let go.
const STEPS: &[PoolStep] = &[
    PoolStep::Put("a", 3, &[60, 60]),
    PoolStep::Put("b", 4, &[100]),
    PoolStep::Sync,
    PoolStep::Put("a", 5, &[100]),
    PoolStep::Remove("b"),
    PoolStep::Put("a", 6, &[50; 3]),
    PoolStep::Sync,
    PoolStep::Put("c", 7, &[100]),
    PoolStep::Put("a", 8, &[50; 3]),
    PoolStep::Put("a", 9, &[100]),
];

#[test]
fn synced_states_survive_power_loss() {
    let explorer = Explorer {
        limit: 500,
        ..Explorer::default()
    };
    let report = explore(&explorer, SETUP, STEPS, true).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.missed.is_empty(), "{report}");
}

#[test]
fn space_is_let_go_by_an_implied_sync() {
    let explorer = Explorer {
        limit: 500,
        ..Explorer::default()
    };
    let mut steps = Vec::new();
    for seed in 1..12 {
        steps.push(PoolStep::Put("a", seed, &[100, 100]));
    }
    steps.push(PoolStep::Sync);
    let report = explore(&explorer, &[], &steps, false).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.unchanged.growths < 3, "{report}");
}

#[test]
fn a_rule_broken_is_noticed() {
    let explorer = Explorer {
        limit: 200,
        ..Explorer::default()
    };
    // Without ample space.
    let (setup, steps) = (
        [PoolStep::Put("a", 1, &[100]), PoolStep::Sync],
        [PoolStep::Put("a", 2, &[100]); 4],
    );
    explore(&explorer, &setup, &steps, false).unwrap_or_else(|violation| panic!("{violation}"));
    let result = fault::with(PoolFault::IgnoreSynced, || {
        explore(&explorer, &setup, &steps, false)
    });
    assert!(result.is_err());
    for fault in [PoolFault::SyncSuperblockFirst, PoolFault::TrustNewestAfterReboot] {
        let result = fault::with(fault, || explore(&explorer, SETUP, STEPS, false));
        assert!(result.is_err(), "{fault:?} was not noticed");
    }
}

#[test]
fn a_clean_restart_needs_no_repair() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let lazy = Wrapped::lazy(&medium);
    let pool = Pool::create_with(Arc::clone(&lazy), SMALL_POOL).unwrap();
    run(
        &pool,
        &[PoolStep::Put("a", 1, &[100]), PoolStep::Put("b", 1, &[100])],
        |_| (),
        |_| (),
    );
    drop(pool);
    let pool = Pool::open_with(Arc::clone(&lazy), SMALL_POOL, NEXT_BOOT).unwrap();
    let info = pool.info().unwrap();
    assert_eq!((info.generation, info.synced_generation, info.objects), (3, 3, 2));
    run(&pool, &[PoolStep::Put("c", 1, &[100])], |_| (), |_| ());
    std::mem::forget(pool);
    // The process has died, but the page cache is intact.
    let pool = Pool::open_with(Arc::clone(&lazy), SMALL_POOL, NEXT_BOOT).unwrap();
    assert_eq!(pool.snapshot().unwrap().generation(), 4);
    // Now the machine has gone down.
    let error = Pool::open_with(Arc::clone(&lazy), SMALL_POOL, BOOT).unwrap_err();
    assert!(
        matches!(
            error,
            PoolError::UnsyncedAfterReboot {
                newest: 4,
                synced: 3,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn repair_keeps_what_is_intact_and_else_goes_back() {
    for damage in [false, true] {
        let medium = Arc::new(Tracked::new(0).unwrap());
        let lazy = Wrapped::lazy(&medium);
        let pool = Pool::create_with(Arc::clone(&lazy), SMALL_POOL).unwrap();
        run(
            &pool,
            &[
                PoolStep::Put("a", 1, &[100]),
                PoolStep::Sync,
                PoolStep::Put("a", 2, &[100]),
            ],
            |_| (),
            |_| (),
        );
        let offset = pool.snapshot().unwrap().object("a").unwrap().extent_ref(0).offset;
        std::mem::forget(pool);
        if damage {
            halocline_media::MediumAccess::store_u64(&*lazy, offset, 0);
        }
        let error = Pool::open_with(Arc::clone(&lazy), SMALL_POOL, NEXT_BOOT).unwrap_err();
        assert!(
            matches!(
                error,
                PoolError::UnsyncedAfterReboot {
                    newest: 3,
                    synced: 2,
                    ..
                }
            ),
            "{error}"
        );
        let report = Pool::repair_with(&lazy, NEXT_BOOT, |_| ()).unwrap();
        assert_eq!(
            (report.newest, report.lost_changes(), report.problems.len()),
            (3, damage, usize::from(damage))
        );
        assert_eq!(
            (report.kept, report.generation),
            if damage { (2, 4) } else { (3, 3) }
        );
        let pool = Pool::open_with(Arc::clone(&lazy), SMALL_POOL, NEXT_BOOT).unwrap();
        let seed = if damage { 1 } else { 2 };
        find(&pool, &[ExpectedObjects::from([("a", (seed, vec![100]))])], 0, 0).unwrap();
    }
}
