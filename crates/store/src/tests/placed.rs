//! Leaves get checksums of their place: every crash of stores of format 1 whose leaves are written anew, and
//! of the leaves after that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halocline_explore::{Crash, Report, Tracked, Violation};
use halocline_media::{Medium, MediumAccess};
use halocline_pool::Pool;
use zerocopy::IntoBytes;

use super::workload::StoreStep::{Checkpoint, Delete, Put};
use super::workload::{Running, StoreStep, explorer, states};
use crate::Stores;
use crate::fault::{self, StoreFault};
use crate::layout::{CHECKPOINT_COPY, Checkpoint as CheckpointCopy, VERSION};
use crate::leaf::{Leaf, LeafPlace};
use crate::recover::is_valid;

/// Returns the leaves of all stores.
fn leaves(stores: &Stores) -> Vec<Leaf> {
    let state = &stores.handle.state;
    let mut leaves = Vec::new();
    for store in state.stores().values() {
        let trees = store.read();
        let mut add = |offset: u64| {
            let place = LeafPlace {
                store: store.id,
                offset,
            };
            leaves.push(Leaf::load(state.medium(), place));
            Ok(())
        };
        trees.tree.walk(&state.pages(), &mut |_| (), &mut add).unwrap();
    }
    leaves
}

/// Stores both copies of the checkpoint as those of format 1.
fn downgrade(medium: &Tracked, root: u64) {
    for at in [root, root + CHECKPOINT_COPY] {
        let mut copy = CheckpointCopy::default();
        medium.load(at, copy.as_mut_bytes());
        copy.version = 1.into();
        copy.checksum = crate::checkpoint::checkpoint_sum(&copy).into();
        medium.store(at, copy.as_bytes());
        medium.flush(at, size_of::<CheckpointCopy>() as u64);
    }
    medium.fence().unwrap();
}

/// Returns new stores of format 1 after these steps.
fn old(medium: &Arc<Tracked>, steps: &[StoreStep]) {
    let root = fault::with(StoreFault::UnplacedLeaves, || {
        let pool = Pool::create_on(Medium::from(medium)).unwrap();
        let mut running = Running::open(&pool).unwrap();
        for (at, step) in steps.iter().enumerate() {
            running.step(at, step).unwrap();
        }
        assert!(leaves(&running.stores).iter().all(|leaf| !leaf.is_placed()));
        running.stores.handle.state.slab.root()
    });
    downgrade(medium, root);
}

/// Accepts an image that holds what was acknowledged, and that a program of format 1 does not take for its
/// own if it has leaves that it does not know.
fn check(medium: Arc<Tracked>, crash: &Crash<'_>, steps: &[StoreStep], done: usize) -> Result<(), String> {
    let states = states(steps);
    let (first, last) = crash.completed(done);
    let pool = Pool::open_on(Medium::from(&medium)).map_err(|error| error.to_string())?;
    let reader = Stores::open_reader(&pool).map_err(|error| error.to_string())?;
    let root = reader.handle.state.slab.root();
    let versions = [root, root + CHECKPOINT_COPY].map(|at| {
        let mut copy = CheckpointCopy::default();
        medium.load(at, copy.as_mut_bytes());
        is_valid(&copy).then_some(copy.version.get())
    });
    let is_old = versions.iter().flatten().any(|version| *version != VERSION);
    if is_old && leaves(&reader).iter().any(Leaf::is_placed) {
        return Err(format!("leaves of format 2 in stores of formats {versions:?}"));
    }
    drop(reader);
    let running = Running::open(&pool)?;
    let found = running.contents()?;
    if found != states[first] && found != states[last] {
        return Err(format!(
            "found {} keys, expected {}",
            found[0].len(),
            states[last][0].len()
        ));
    }
    let report = running.stores.check(&mut |_| std::ops::ControlFlow::Continue(()));
    let problems = report.map_err(|error| error.to_string())?.problems;
    if !problems.is_empty() {
        return Err(format!("{problems:?}"));
    }
    super::workload::goes_on(&pool, running, 0, &found)
}

fn explore(setup: &[StoreStep], steps: &[StoreStep]) -> Result<Report, Box<Violation>> {
    let all = [setup, steps].concat();
    let work = |medium: &Arc<Tracked>| {
        let pool = Pool::open_on(Medium::from(medium)).unwrap();
        let mut running = Running::open(&pool).unwrap();
        for (at, step) in steps.iter().enumerate() {
            medium.begin(at as u64);
            running.step(setup.len() + at, step).unwrap();
            medium.acknowledge(at as u64);
        }
        // Whatever closing does is no part of the workload.
        std::mem::forget(running);
    };
    explorer().run(
        |medium| old(medium, setup),
        work,
        |medium, crash| check(medium, crash, &all, setup.len()),
    )
}

fn puts(keys: std::ops::Range<u32>) -> Vec<StoreStep> {
    keys.map(|key| Put(key, 30)).collect()
}

/// Returns a setup and steps in which old leaves gain and lose entries, and then so do the new leaves that
/// replace them.
fn steps() -> [Vec<StoreStep>; 2] {
    let setup = [puts(0..60), vec![Checkpoint]].concat();
    let steps = [
        vec![Put(3, 7), Put(70, 12), Delete(4), Checkpoint],
        vec![Put(71, 9), Delete(70), Put(3, 8), Checkpoint, Put(72, 1)],
    ];
    [setup, steps.concat()]
}

#[test]
fn old_leaves_are_written_anew() {
    let [setup, steps] = steps();
    let report = explore(&setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 100, "{report}");
    let memory = Arc::new(Tracked::new(0).unwrap());
    old(&memory, &setup);
    let pool = Pool::open_on(Medium::from(&memory)).unwrap();
    let mut running = Running::open(&pool).unwrap();
    let before = leaves(&running.stores);
    assert!(before.len() > 1 && before.iter().all(|leaf| !leaf.is_placed() && leaf.is_intact()));
    for (at, step) in steps.iter().enumerate() {
        running.step(setup.len() + at, step).unwrap();
    }
    // Those without new entries stay what they were.
    let after = leaves(&running.stores);
    assert!(after.iter().all(Leaf::is_intact) && after.iter().any(Leaf::is_placed));
}

#[test]
fn crashes_show_broken_rules_of_places() {
    let [setup, steps] = steps();
    for fault in [StoreFault::PlaceInPlace, StoreFault::KeepVersion] {
        let explored = catch_unwind(AssertUnwindSafe(|| {
            fault::with(fault, || explore(&setup, &steps))
        }));
        assert!(!matches!(explored, Ok(Ok(_))), "not noticed: {fault:?}");
    }
}
