//! Power loss of stores on a page-cache file.
//!
//! With strict durability a fence is an msync, and commits are durable. Without, only a sync is: after a
//! power loss the stores are refused, or they are as they were opened or closed.

use std::sync::Arc;

use halocline_explore::{Crash, MutantReport, Tracked, TrackedPageCache};
use halocline_media::{Medium, MediumAccess, boot_id};
use halocline_pool::{Pool, PoolError};

use super::workload::StoreStep::{Batch, Checkpoint, Delete, Expire, Put, Reclaim};
use super::workload::{Running, StoreStep, Visible, explorer, mutants_on, states};

pub(crate) fn strict(memory: &Arc<Tracked>) -> Medium {
    Medium::from(TrackedPageCache::new(memory, true))
}

fn lazy(memory: &Arc<Tracked>) -> Medium {
    Medium::from(TrackedPageCache::new(memory, false))
}

#[test]
fn fences_that_are_syncs_keep_commits() {
    let setup = [Put(1, 9), Put(2, 300), Checkpoint];
    let steps = [
        Put(1, 10),
        Delete(2),
        Batch(vec![1, 2, 3], vec![4]),
        Put(2, 20_000),
        Expire(3, 1000),
    ];
    let report = mutants_on(strict, &setup, &steps);
    assert!(report.missed.is_empty() && report.caught > 9, "{report}");
}

/// Returns true if the pool is refused as one that was being written in the boot before.
fn is_refused(error: &crate::StoreError) -> bool {
    matches!(error, crate::StoreError::Pool(PoolError::SlabUnsynced { .. }))
}

/// Changes the number of the boot in which the stores were written, as if the machine had gone down.
fn reboot(memory: &Tracked) {
    /// Bytes of superblocks, which are not written during the workload.
    const SUPERBLOCKS: usize = 16 << 10;
    let image = memory.image();
    for at in (SUPERBLOCKS..image.len()).step_by(64) {
        if image[at..].starts_with(&boot_id()) {
            memory.store(at as u64, &[0xB0; 16]);
        }
    }
}

/// Accepts an image whose stores are refused, or hold what was synced before or after the workload.
fn check(memory: &Arc<Tracked>, crash: &Crash<'_>, before: &Visible, after: &Visible) -> Result<(), String> {
    reboot(memory);
    let is_closed = !crash.acknowledged.is_empty();
    let pool = Pool::open_on(lazy(memory)).map_err(|error| error.to_string())?;
    if let Err(error) = crate::Stores::open(&pool) {
        return if is_refused(&error) && !is_closed {
            Ok(())
        } else {
            Err(error.to_string())
        };
    }
    let running = Running::open(&pool)?;
    let found = running.contents()?;
    if !is_closed && found == *before || found == *after {
        Ok(())
    } else {
        Err(format!("{} and {} keys", found[0].len(), found[1].len()))
    }
}

fn power_losses(setup: &[StoreStep], steps: &[StoreStep]) -> MutantReport {
    let all = [setup, steps].concat();
    let states = states(&all);
    let run = |pool: &Pool, from: usize, steps: &[StoreStep]| {
        let mut running = Running::open(pool).unwrap();
        for (at, step) in steps.iter().enumerate() {
            running.step(from + at, step).unwrap();
        }
    };
    let report = explorer().mutants(
        |memory| {
            let pool = Pool::create_on(lazy(memory)).unwrap();
            run(&pool, 0, setup);
            pool.close().unwrap();
        },
        |memory| {
            memory.begin(0);
            let pool = Pool::open_on(lazy(memory)).unwrap();
            run(&pool, setup.len(), steps);
            memory.acknowledge(0);
        },
        |memory, crash| check(&memory, crash, &states[setup.len()], &states[all.len()]),
    );
    report.unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn stores_are_refused_or_as_they_were_synced() {
    let setup = [
        Put(1, 9),
        Put(2, 300),
        Put(3, 15_000),
        Put(3, 15_000),
        Put(3, 15_000),
    ];
    let steps = [
        Put(1, 10),
        Checkpoint,
        Put(3, 15_000),
        Delete(2),
        Put(3, 15_000),
        Reclaim,
        Put(3, 15_000),
        Batch(vec![1, 2, 3], vec![4]),
        Put(2, 20_000),
    ];
    let report = power_losses(&setup, &steps);
    // Leaving out the first sync shows in none of the images that are sampled.
    assert!(report.caught > 2, "{report}");
}
