//! Every crash of loads: the store is there as a whole, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_explore::{Crash, MutantReport, Report, Tracked, Violation};
use halocline_pool::Pool;

use super::page_cache::strict;
use super::workload::{MediumOf, ON_DAX, Running, Visible, explorer, goes_on};
use crate::fault::{self, StoreFault};
use crate::tests::workload::StoreStep::{Checkpoint, Put};

/// A store that is loaded while others are written.
#[derive(Debug, Clone, Copy)]
struct LoadCase {
    /// Number of pairs.
    pairs: u32,
    /// Bytes of each value.
    len: usize,
}

const NAME: &str = "loaded";

fn pairs(case: LoadCase) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pair = |number: u32| (number.to_be_bytes().to_vec(), vec![number as u8; case.len]);
    (0..case.pairs).map(pair).collect()
}

fn prepare(on: MediumOf) -> impl Fn(&Arc<Tracked>) {
    move |medium| {
        let pool = Pool::create_on(on(medium)).unwrap();
        let mut running = Running::open(&pool).unwrap();
        for number in 0..5 {
            running.step(0, &Put(number, 30)).unwrap();
        }
        running.step(0, &Checkpoint).unwrap();
    }
}

/// As [`prepare`], in a slab that need not grow for a load. If it grows, so that others find free segments
/// after the load, it does not matter whether the load's crash has lost them.
fn prepare_with_room(medium: &Arc<Tracked>) {
    prepare(ON_DAX)(medium);
    let pool = Pool::open_on(ON_DAX(medium)).unwrap();
    let running = Running::open(&pool).unwrap();
    running.stores.handle.state.slab.make_room(20).unwrap();
}

/// Loads a store, with commits before, in the middle and after it: each an operation.
fn work(on: MediumOf, case: LoadCase) -> impl Fn(&Arc<Tracked>) {
    move |medium| {
        let pool = Pool::open_on(on(medium)).unwrap();
        let mut running = Running::open(&pool).unwrap();
        let put = |running: &mut Running, operation: u64| {
            medium.begin(operation);
            running.step(operation as usize, &Put(1, 10)).unwrap();
            medium.acknowledge(operation);
        };
        let stores = running.stores.clone();
        let mut loader = stores.load_sorted(NAME).unwrap();
        for (at, (key, value)) in pairs(case).iter().enumerate() {
            if at as u32 == case.pairs / 2 {
                put(&mut running, 0);
            }
            loader.push(key, value).unwrap();
        }
        medium.begin(1);
        let loaded = loader.finish().unwrap();
        medium.acknowledge(1);
        put(&mut running, 2);
        medium.begin(3);
        loaded.put("later", "1").unwrap();
        medium.acknowledge(3);
        std::mem::forget((running, stores, loaded));
    }
}

fn check(medium: Arc<Tracked>, crash: &Crash<'_>, case: LoadCase) -> Result<(), String> {
    let (first, last) = crash.completed(0);
    let pool = Pool::open_on(Arc::clone(&medium)).map_err(|error| error.to_string())?;
    let running = Running::open(&pool)?;
    let is_there = match running.stores.existing(NAME) {
        Ok(store) => {
            let found: Result<BTreeMap<_, _>, _> = store.scan::<Vec<u8>>(..).collect();
            let mut found = found.map_err(|error| error.to_string())?;
            let later = found.remove(&b"later"[..]).is_some();
            if (later && last < 4) || (!later && first >= 4) {
                return Err(format!(
                    "the later pair is there: {later}, after {first} operations"
                ));
            }
            if found != pairs(case) || store.len() != (found.len() + usize::from(later)) as u64 {
                return Err(format!(
                    "{} pairs are there, {} are counted",
                    found.len(),
                    store.len()
                ));
            }
            true
        }
        Err(crate::StoreError::NoSuchStore { .. }) => false,
        Err(error) => return Err(error.to_string()),
    };
    if (is_there && last < 2) || (!is_there && first >= 2) {
        return Err(format!(
            "the store is there: {is_there}, after {first} operations"
        ));
    }
    let report = running.stores.check(&mut |_| std::ops::ControlFlow::Continue(()));
    let report = report.map_err(|error| error.to_string())?;
    if !report.is_intact() {
        return Err(format!("{report:?}"));
    }
    let found: Visible = running.contents()?;
    goes_on(&pool, running, 0, &found)
}

fn explore(on: MediumOf, case: LoadCase) -> Result<Report, Box<Violation>> {
    explorer().run(prepare(on), work(on, case), |medium, crash| {
        check(medium, crash, case)
    })
}

const CASES: [LoadCase; 3] = [
    LoadCase { pairs: 1, len: 0 },
    LoadCase { pairs: 120, len: 20 },
    LoadCase {
        pairs: 9,
        len: 40_000,
    },
];

#[test]
fn a_crash_leaves_all_of_a_loaded_store_or_nothing() {
    for on in [ON_DAX, strict as MediumOf] {
        for case in CASES {
            let report = explore(on, case).unwrap_or_else(|violation| panic!("{case:?}: {violation}"));
            assert!(report.images > 20, "{report}");
        }
    }
}

/// Each flush of a load is needed, but for the second copy of the checkpoint. One fence would do for all of
/// its segments.
#[test]
fn flushes_and_fences_of_loads_are_needed() {
    let case = CASES[1];
    let report: MutantReport = explorer()
        .mutants(
            prepare_with_room,
            work(ON_DAX, case),
            |medium: Arc<Tracked>, crash: &Crash<'_>| check(medium, crash, case),
        )
        .unwrap_or_else(|violation| panic!("{violation}"));
    let flushes = report.missed.iter().filter(|(_, text)| text.starts_with("flush"));
    assert!(flushes.count() <= 1, "{report}");
}

#[test]
fn crashes_show_a_load_that_is_not_durable() {
    let explored = fault::with(StoreFault::LoadUnfenced, || explore(ON_DAX, CASES[1]));
    assert!(explored.is_err());
}
