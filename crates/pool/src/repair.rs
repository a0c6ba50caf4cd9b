//! Diagnosis and repair of a damaged pool: [`RepairPlan`].
//!
//! Every superblock copy leads to a generation. The newest one whose directory can be read is kept, even if
//! some of its objects are damaged: they are listed, to be rebuilt or dropped by higher layers. A generation
//! that power loss may have torn is an exception: unless it is entirely intact, an older intact one takes its
//! place. A kept generation that is not the newest is published again under a higher number, so that the
//! damaged ones can never become the newest. Of a damaged log, all records before the damage are kept.
//!
//! Invariants: making a plan changes nothing. The plan holds the writer's lock, so it stays valid until it is
//! applied.

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
use crate::superblock::{SuperblockCopies, SuperblockCopy, check_reach};

/// The findings and the effect of [`Pool::repair`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The newest generation that existed.
    pub newest: u64,
    /// The generation that was kept; equal to `newest` if no published change is lost.
    pub kept: u64,
    /// The number under which it is published now.
    pub generation: u64,
    /// Defects of the generations that were discarded.
    pub problems: Vec<PoolProblem>,
    /// Defects in objects of the kept generation. They are unchanged and must be dropped or rebuilt.
    pub objects: Vec<PoolProblem>,
    /// Defects of its logs, whose records before the damage are kept.
    pub logs: Vec<PoolProblem>,
}

impl RepairReport {
    /// Returns true if published changes were discarded.
    pub fn lost_changes(&self) -> bool {
        self.kept < self.newest
    }
}

/// The planned repair of a pool, for inspection before it is [applied](RepairPlan::apply). Nobody else can
/// write to the pool while it lives.
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
    /// Superblocks of all readable generations, whose directories can be saved.
    directories: Vec<Superblock>,
    _writer: WriterLock,
}

impl Pool {
    /// Plans the repair of the pool in a file, and determines what it would lose. Changes nothing. No other
    /// handle may be writing.
    ///
    /// # Errors
    /// [`PoolError::BeyondRepair`] if no generation can be read, [`PoolError::Locked`], and all of
    /// [`open`](Pool::open).
    pub fn plan_repair(
        path: impl AsRef<Path>,
        progress: impl Fn(PoolCheckProgress) + Sync,
    ) -> Result<RepairPlan, PoolError> {
        let path = path.as_ref();
        let (medium, locks) = open_file(path, &PoolOptions::default())?;
        let access = Access::of_file(locks, path.into());
        plan(medium, path.into(), access, halocline_media::boot_id(), &progress)
    }

    /// Plans and applies a repair, regardless of its losses; see [`plan_repair`](Pool::plan_repair) and
    /// [`RepairPlan::apply`].
    ///
    /// # Errors
    /// Fails like both.
    pub fn repair(
        path: impl AsRef<Path>,
        progress: impl Fn(PoolCheckProgress) + Sync,
    ) -> Result<RepairReport, PoolError> {
        Pool::plan_repair(path, progress)?.apply()
    }
}

impl Pool {
    /// Repairs the pool on any medium; see [`repair`](Pool::repair).
    ///
    /// # Errors
    /// Fails like [`repair`](Pool::repair).
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
    /// Returns the findings and the effect of applying the plan.
    pub fn report(&self) -> &RepairReport {
        &self.report
    }

    /// Returns true if the machine went down before the newest generation was synced, so that any part of it
    /// may be missing.
    pub fn is_after_power_loss(&self) -> bool {
        self.after_power_loss
    }

    /// Returns true if applying the plan discards changes that were acknowledged and presumably durable:
    /// published generations, or records of a log.
    pub fn loses_changes(&self) -> bool {
        let records = self
            .report
            .logs
            .iter()
            .any(|problem| matches!(problem, PoolProblem::Log { .. }));
        self.report.lost_changes() || records && !self.after_power_loss
    }

    /// Saves to a new file all bytes that the repair changes, and those that lead to discarded generations:
    /// superblocks, directories and logs, each at its offset in the pool, with holes between. Copying its
    /// data ranges back over the pool undoes the repair, as long as nothing was written since.
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

    /// Makes the kept generation the newest, and truncates its damaged logs before the damage. The result
    /// survives power loss when this returns. Damaged objects are unchanged. Readers keep their
    /// snapshots.
    ///
    /// # Errors
    /// [`PoolError::Media`].
    pub fn apply(self) -> Result<RepairReport, PoolError> {
        let _sync = self.access.lock_sync()?;
        let medium = &self.medium;
        let mut cut = false;
        for (name, examined) in &self.logs {
            let record = self.directory.objects.get(name.as_str());
            if let Some(log) =
                record.and_then(|record| PinnedLog::from_record(medium, record, checksum(&self.boot_id)))
            {
                log.cut(examined.found);
                cut = true;
            }
        }
        if cut {
            // The cut logs must be durable before the generation that relies on them is the newest.
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
    // The last candidate is intact or need not be. Without one, fall back to the newest readable generation.
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
        let problem = problems.first().map_or_else(
            || "all superblocks are damaged".to_owned(),
            PoolProblem::to_string,
        );
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

/// Returns an error if the file is not a pool that this version can repair.
///
/// # Errors
/// [`PoolError::NewerFormat`], [`PoolError::NotAPool`], and the errors of unknown features.
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

/// Returns the damaged logs of a generation, with the state of each.
fn damaged_logs(medium: &Medium, directory: &Directory, boot_id: &[u8; 16]) -> Vec<(String, LogExamination)> {
    let examined = directory.objects.iter().filter_map(|(name, record)| {
        let log = PinnedLog::from_record(medium, record, checksum(boot_id))?;
        Some((name.to_string(), log.examine()))
    });
    examined
        .filter(|(name, examined)| log_problem(name, examined).is_some())
        .collect()
}

/// Returns the default path for the state before a repair: `NAME.before-repair`, with a number if that
/// exists.
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

/// Makes a generation the newest and durable, in a synced copy first, so that the copy it came from is not
/// needed when it is overwritten.
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
