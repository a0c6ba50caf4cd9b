//! What is wrong with a pool and what can be done about it: [`RepairPlan`].
//!
//! Every superblock copy names a generation. The newest one whose directory can be read is kept, whatever is wrong with
//! some of its objects: they are named, and for what is above the pool to build anew or to drop. A generation that power
//! loss may have torn is an exception: unless all of it is intact, an older one that is takes its place. A generation
//! that is not the newest is published again under a higher number, so that the damaged ones lose for good. Of a damaged
//! log all records before the damage are kept.
//!
//! Invariants: making a plan changes nothing; the plan holds the writer's lock, so that what it says is still so when it
//! is applied.

use std::cmp::Reverse;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halocline_media::Medium;
use zerocopy::little_endian::U64;

use crate::PoolError;
use crate::access::{Access, WriterLock};
use crate::check::{PoolCheckProgress, PoolProblem, distinct, log_problem, verify};
use crate::directory::Directory;
use crate::layout::{BLOCK, DATA_START, FORMAT_VERSION, Superblock, checksum};
use crate::log::{LogExamination, PinnedLog};
use crate::open::{medium_name, open_file};
use crate::pool::{Pool, PoolOptions, read_directory};
use crate::superblock::{SuperblockCopy, SuperblockCopies, check_reach};

/// What [`Pool::repair`] has found and done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The newest generation there was.
    pub newest: u64,
    /// The generation that was kept; `newest` if no published change is lost.
    pub kept: u64,
    /// The number under which it is published now.
    pub generation: u64,
    /// What is wrong with the generations that were given up.
    pub problems: Vec<PoolProblem>,
    /// What is wrong with objects of the generation that was kept. They are as they were: to be dropped or built anew.
    pub objects: Vec<PoolProblem>,
    /// What was wrong with its logs, of which the records before the damage are kept.
    pub logs: Vec<PoolProblem>,
}

impl RepairReport {
    /// Returns true if changes that had been published were given up.
    pub fn lost_changes(&self) -> bool {
        self.kept < self.newest
    }
}

/// What a repair of a pool would do, to be looked at before it is [applied](RepairPlan::apply). Nobody else can write to
/// the pool while it lives.
pub struct RepairPlan {
    medium: Medium,
    path: Arc<Path>,
    access: Arc<Access>,
    boot_id: [u8; 16],
    kept: Superblock,
    directory: Directory,
    logs: Vec<(String, LogExamination)>,
    after_power_loss: bool,
    report: RepairReport,
    /// Directories of all generations that can be read, to be saved.
    directories: Vec<Superblock>,
    _writer: WriterLock,
}

impl Pool {
    /// Reads the pool in a file and says what a repair would do and lose. TxnChanges nothing. No other handle may be writing.
    ///
    /// # Errors
    /// [`PoolError::BeyondRepair`] if no generation can be read, [`PoolError::Locked`], and as [`open`](Pool::open).
    pub fn plan_repair(
        path: impl AsRef<Path>,
        progress: impl Fn(PoolCheckProgress) + Sync,
    ) -> Result<RepairPlan, PoolError> {
        let path = path.as_ref();
        let (medium, locks) = open_file(path, &PoolOptions::default())?;
        let access = Access::of_file(locks, path.into());
        plan(medium, path.into(), access, halocline_media::boot_id(), &progress)
    }

    /// Makes a plan and applies it, whatever it loses: see [`plan_repair`](Pool::plan_repair) and [`RepairPlan::apply`].
    ///
    /// # Errors
    /// As both.
    pub fn repair(
        path: impl AsRef<Path>,
        progress: impl Fn(PoolCheckProgress) + Sync,
    ) -> Result<RepairReport, PoolError> {
        Pool::plan_repair(path, progress)?.apply()
    }
}

impl Pool {
    /// [`repair`](Pool::repair) on any medium.
    ///
    /// # Errors
    /// As [`repair`](Pool::repair).
    pub fn repair_on(
        medium: impl Into<Medium>,
        progress: impl Fn(PoolCheckProgress) + Sync,
    ) -> Result<RepairReport, PoolError> {
        Pool::repair_with(medium, halocline_media::boot_id(), progress)
    }

    pub(crate) fn repair_with(
        medium: impl Into<Medium>,
        boot_id: [u8; 16],
        progress: impl Fn(PoolCheckProgress) + Sync,
    ) -> Result<RepairReport, PoolError> {
        let medium = medium.into();
        let path = medium_name(&medium);
        let access = Access::of_medium(&medium, &path);
        plan(medium, path, access, boot_id, &progress)?.apply()
    }
}

impl RepairPlan {
    /// What applying it would find and do.
    pub fn report(&self) -> &RepairReport {
        &self.report
    }

    /// Returns true if the machine went down before the newest generation was synced, so that any part of it may be missing.
    pub fn is_after_power_loss(&self) -> bool {
        self.after_power_loss
    }

    /// Returns true if applying it gives up something that was acknowledged and, for all that is known, was durable:
    /// published generations, or records of a log.
    pub fn loses_changes(&self) -> bool {
        let records = self
            .report
            .logs
            .iter()
            .any(|problem| matches!(problem, PoolProblem::Log { .. }));
        self.report.lost_changes() || records && !self.after_power_loss
    }

    /// Saves all that applying it changes, and what leads to the generations that are given up, to a new file: superblocks,
    /// directories and logs, each at its offset in the pool, with holes between. Copied back over the pool (its data ranges
    /// only) they undo the repair, as long as nothing was written since.
    ///
    /// # Errors
    /// [`PoolError::AlreadyExists`], [`PoolError::Io`].
    pub fn save_state(&self, to: impl AsRef<Path>) -> Result<(), PoolError> {
        let to = to.as_ref();
        let failed = |error| PoolError::io("save the state before the repair to", to, error);
        let file = OpenOptions::new().write(true).create_new(true).open(to);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => PoolError::AlreadyExists { path: to.to_owned() },
            _ => failed(error),
        })?;
        let mut ranges = vec![(0, DATA_START)];
        for superblock in &self.directories {
            let directory = superblock.directory();
            ranges.push((directory.offset, directory.len));
        }
        ranges.extend(self.directory.logs().map(|log| (log.offset, log.len)));
        let mut block = vec![0; BLOCK as usize];
        for (offset, len) in ranges {
            for at in (offset..offset + len).step_by(BLOCK as usize) {
                self.medium.load(at, &mut block);
                file.write_all_at(&block, at).map_err(failed)?;
            }
        }
        file.sync_all().map_err(failed)
    }

    /// Makes the generation that is kept the newest, and cuts its damaged logs off before the damage. What is kept survives
    /// power loss when this returns. Damaged objects stay as they are. Readers keep their snapshots.
    ///
    /// # Errors
    /// [`PoolError::Media`].
    pub fn apply(self) -> Result<RepairReport, PoolError> {
        let _sync = self.access.lock_sync()?;
        let medium = &self.medium;
        let mut cut = false;
        for (name, examined) in &self.logs {
            let record = self.directory.objects.get(name.as_str());
            if let Some(log) = record.and_then(|record| PinnedLog::of(medium, record, checksum(&self.boot_id))) {
                log.cut(examined.found);
                cut = true;
            }
        }
        if cut {
            medium.fence()?;
        }
        republish(medium, self.kept, self.report.generation, self.boot_id)?;
        Ok(self.report)
    }
}

impl std::fmt::Debug for RepairPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepairPlan")
            .field("path", &self.path)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

fn plan(
    medium: Medium,
    path: Arc<Path>,
    access: Arc<Access>,
    boot_id: [u8; 16],
    progress: &(dyn Fn(PoolCheckProgress) + Sync),
) -> Result<RepairPlan, PoolError> {
    let writer = access.lock_writer()?;
    let slots = SuperblockCopies::read(&medium);
    refuse(&slots, &path)?;
    let mut candidates: Vec<Superblock> = slots.valid().map(|(_, superblock)| *superblock).collect();
    let by_age = |superblock: &Superblock| (Reverse(superblock.generation.get()), superblock.file_len.get());
    candidates.sort_by_key(by_age);
    candidates.dedup_by_key(|superblock| superblock.generation.get());
    let newest = candidates.first().map_or(0, |newest| newest.generation.get());
    let torn = |superblock: &Superblock| {
        superblock.generation.get() > slots.synced_generation() && superblock.boot_id != boot_id
    };
    let after_power_loss = candidates.first().is_some_and(torn);
    let (mut problems, mut readable) = (Vec::new(), Vec::new());
    for superblock in candidates {
        let directory = check_reach(&superblock, &medium, &path)
            .and_then(|()| read_directory(&medium, &path, &superblock));
        match directory {
            Ok(directory) => {
                let damaged = verify(&medium, &distinct(&directory), progress);
                let settled = damaged.is_empty() || !torn(&superblock);
                readable.push((superblock, directory, damaged));
                if settled {
                    break;
                }
            }
            Err(error) => problems.push(PoolProblem::Generation {
                generation: superblock.generation.get(),
                reason: error.to_string(),
            }),
        }
    }
    let directories = readable.iter().map(|(superblock, ..)| *superblock).collect();
    // The last one is intact, or need not be; without one, the newest that can be read is.
    let settled = readable.pop();
    let all_torn = |(superblock, _, damaged): &(Superblock, Directory, Vec<PoolProblem>)| {
        torn(superblock) && !damaged.is_empty()
    };
    let kept = match settled {
        Some(last) if all_torn(&last) && !readable.is_empty() => {
            let first = readable.remove(0);
            Some(first)
        }
        other => {
            problems.extend(readable.drain(..).flat_map(|(_, _, damaged)| damaged));
            other
        }
    };
    let Some((kept, directory, objects)) = kept else {
        let problem = problems
            .first()
            .map_or_else(|| "all superblocks are damaged".to_owned(), PoolProblem::to_string);
        return Err(PoolError::BeyondRepair {
            path: path.to_path_buf(),
            problem,
        });
    };
    let logs = damaged_logs(&medium, &directory, &boot_id);
    let number = kept.generation.get();
    let report = RepairReport {
        newest,
        kept: number,
        generation: if number == newest { number } else { newest + 1 },
        problems,
        objects,
        logs: logs
            .iter()
            .filter_map(|(name, examined)| log_problem(name, examined))
            .collect(),
    };
    Ok(RepairPlan {
        medium,
        path,
        access,
        boot_id,
        kept,
        directory,
        logs,
        after_power_loss,
        report,
        directories,
        _writer: writer,
    })
}

/// # Errors
/// [`PoolError::NewerFormat`], [`PoolError::NotAPool`], and those of features that are not known.
fn refuse(slots: &SuperblockCopies, path: &Path) -> Result<(), PoolError> {
    let newer = slots.iter().find_map(|slot| match slot {
        SuperblockCopy::Newer(found) => Some(*found),
        _ => None,
    });
    if let Some(found) = newer {
        return Err(PoolError::NewerFormat {
            path: path.to_owned(),
            found,
            supported: FORMAT_VERSION,
        });
    }
    slots.features().check_writable(path)?;
    if slots
        .iter()
        .all(|slot| matches!(slot, SuperblockCopy::Empty | SuperblockCopy::Foreign))
    {
        return Err(PoolError::NotAPool {
            path: path.to_owned(),
            reason: "it does not start like a pool",
        });
    }
    Ok(())
}

/// The logs of a generation that are damaged, with what is left of them.
fn damaged_logs(medium: &Medium, directory: &Directory, boot_id: &[u8; 16]) -> Vec<(String, LogExamination)> {
    let examined = directory.objects.iter().filter_map(|(name, record)| {
        let log = PinnedLog::of(medium, record, checksum(boot_id))?;
        Some((name.to_string(), log.examine()))
    });
    examined
        .filter(|(name, examined)| log_problem(name, examined).is_some())
        .collect()
}

/// Where the state before a repair of this file is saved by default: `NAME.before-repair`, with a number if there is one.
pub fn saved_state_path(path: &Path) -> PathBuf {
    let named = |number: u32| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".before-repair");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        path.with_file_name(name)
    };
    let mut free = (1..).map(named).filter(|path| !path.exists());
    free.next().unwrap_or_else(|| named(1))
}

/// Makes a generation the newest and durable, first in a synced copy, so that the copy it came from is not needed when
/// it is overwritten.
fn republish(medium: &Medium, from: Superblock, generation: u64, boot_id: [u8; 16]) -> Result<(), PoolError> {
    let superblock = Superblock {
        generation: U64::new(generation),
        synced_generation: U64::new(generation),
        boot_id,
        ..from
    };
    medium.sync()?;
    superblock.write(medium, SuperblockCopies::read(medium).sync_target());
    medium.fence()?;
    medium.sync()?;
    let slots = SuperblockCopies::read(medium);
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
