//! Back to an intact generation: [`Pool::repair`].
//!
//! Every superblock copy names a generation. They are tried from the newest on, each read whole; the first that is intact
//! is kept. If it is not the newest, it is published again under a higher number, so that the damaged ones lose for good.

use std::path::Path;
use std::sync::Arc;

use halocline_media::{AnyMedium, Medium};
use zerocopy::little_endian::U64;

use crate::PoolError;
use crate::access::Access;
use crate::check::{CheckProgress, Problem, distinct, verify};
use crate::layout::{FORMAT_VERSION, Superblock};
use crate::open::{medium_name, open_file};
use crate::pool::{Pool, PoolOptions, read_directory};
use crate::superblock::{Slot, Slots, check_reach};

/// What [`Pool::repair`] has found and done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The newest generation there was.
    pub newest: u64,
    /// The generation that was found intact and kept; `newest` if nothing is lost.
    pub kept: u64,
    /// The number under which it is published now.
    pub generation: u64,
    /// What is wrong with the generations that were given up.
    pub problems: Vec<Problem>,
}

impl RepairReport {
    /// Whether changes that had been published were given up.
    pub fn lost_changes(&self) -> bool {
        self.kept < self.newest
    }
}

impl Pool<AnyMedium> {
    /// Reads everything the newest generation names and keeps it if it is intact, else goes back to the newest one that
    /// is, at worst the last synced one. What is kept survives power loss when this returns. No other handle may be
    /// writing; readers keep their snapshots.
    ///
    /// # Errors
    /// [`PoolError::BeyondRepair`] if no generation is intact (nothing is changed), [`PoolError::Locked`], and as
    /// [`open`](Pool::open).
    pub fn repair(
        path: impl AsRef<Path>,
        progress: impl Fn(CheckProgress) + Sync,
    ) -> Result<RepairReport, PoolError> {
        let path = path.as_ref();
        let (medium, locks) = open_file(path, &PoolOptions::default())?;
        let access = Access::of_file(locks, path.into());
        let _writer = access.lock_writer()?;
        let _sync = access.lock_sync()?;
        repair(&medium, path, halocline_media::boot_id(), &progress)
    }
}

impl<M: Medium> Pool<M> {
    /// [`repair`](Pool::repair) on any medium.
    ///
    /// # Errors
    /// As [`repair`](Pool::repair).
    pub fn repair_on(
        medium: &Arc<M>,
        progress: impl Fn(CheckProgress) + Sync,
    ) -> Result<RepairReport, PoolError> {
        let path = medium_name(&**medium);
        let access = Access::of_medium(medium, &path);
        let _writer = access.lock_writer()?;
        let _sync = access.lock_sync()?;
        repair(&**medium, &path, halocline_media::boot_id(), &progress)
    }
}

fn repair(
    medium: &dyn Medium,
    path: &Path,
    boot_id: [u8; 16],
    progress: &(dyn Fn(CheckProgress) + Sync),
) -> Result<RepairReport, PoolError> {
    let slots = Slots::read(medium);
    if let Some(found) = slots.iter().find_map(|slot| {
        if let Slot::Newer(found) = slot {
            Some(*found)
        } else {
            None
        }
    }) {
        return Err(PoolError::NewerFormat {
            path: path.to_owned(),
            found,
            supported: FORMAT_VERSION,
        });
    }
    if slots
        .iter()
        .all(|slot| matches!(slot, Slot::Empty | Slot::Foreign))
    {
        return Err(PoolError::NotAPool {
            path: path.to_owned(),
            reason: "it does not start like a pool",
        });
    }
    let mut candidates: Vec<Superblock> = slots.valid().map(|(_, superblock)| *superblock).collect();
    candidates.sort_by_key(|superblock| std::cmp::Reverse(superblock.generation.get()));
    candidates.dedup_by_key(|superblock| superblock.generation.get());
    let newest = candidates
        .first()
        .map_or(0, |superblock| superblock.generation.get());
    let mut problems = Vec::new();
    for candidate in candidates {
        let found = examine(medium, path, &candidate, progress);
        if !found.is_empty() {
            problems.extend(found);
            continue;
        }
        let kept = candidate.generation.get();
        let generation = if kept == newest { kept } else { newest + 1 };
        republish(medium, candidate, generation, boot_id)?;
        return Ok(RepairReport {
            newest,
            kept,
            generation,
            problems,
        });
    }
    let problem = problems
        .first()
        .map_or_else(|| "all superblocks are damaged".to_owned(), Problem::to_string);
    Err(PoolError::BeyondRepair {
        path: path.to_owned(),
        problem,
    })
}

/// All that is wrong with a generation.
fn examine(
    medium: &dyn Medium,
    path: &Path,
    superblock: &Superblock,
    progress: &(dyn Fn(CheckProgress) + Sync),
) -> Vec<Problem> {
    let directory =
        check_reach(superblock, medium, path).and_then(|()| read_directory(medium, path, superblock));
    match directory {
        Ok(directory) => verify(medium, &distinct(&directory), progress),
        Err(error) => {
            vec![Problem::Generation {
                generation: superblock.generation.get(),
                reason: error.to_string(),
            }]
        }
    }
}

/// Makes a generation the newest and durable, first in a synced copy, so that the copy it came from is not needed when
/// it is overwritten.
fn republish(
    medium: &dyn Medium,
    from: Superblock,
    generation: u64,
    boot_id: [u8; 16],
) -> Result<(), PoolError> {
    let superblock = Superblock {
        generation: U64::new(generation),
        synced_generation: U64::new(generation),
        boot_id,
        ..from
    };
    medium.sync()?;
    superblock.write(medium, Slots::read(medium).sync_target());
    medium.fence()?;
    medium.sync()?;
    let slots = Slots::read(medium);
    let published = slots
        .valid()
        .any(|(slot, found)| slot < 2 && found.generation.get() == generation);
    if !published {
        superblock.write(medium, slots.publish_target());
        medium.fence()?;
        medium.sync()?;
    }
    Ok(())
}
