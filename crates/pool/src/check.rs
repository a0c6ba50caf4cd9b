//! Verifying every byte that a generation names: [`Pool::check`], and the part of it that repair uses.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use halocline_media::Medium;
use xxhash_rust::xxh3::Xxh3;

use crate::PoolError;
use crate::bytes::unpinned;
use crate::directory::{Directory, ExtentRef};
use crate::error::lost;
use crate::log::{Examined, Log, LogDamage};
use crate::pool::{Pool, read_directory};
use crate::sums::BlockSums;
use crate::superblock::{Slot, Slots};

/// Bytes summed between two reports of progress.
const CHUNK: u64 = 4 << 20;

/// How far a check has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// Bytes summed.
    pub done: u64,
    /// Bytes to sum.
    pub total: u64,
}

/// One thing that is wrong with a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A generation cannot be read at all.
    Generation {
        /// Which.
        generation: u64,
        /// Why not, as text.
        reason: String,
    },
    /// An extent does not match its checksum.
    Extent {
        /// The object that names it (the first, if several share it).
        object: String,
        /// Which of the object's extents.
        extent: usize,
        /// Its first byte in the pool.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// Records of a log are lost: one does not match its checksum, though the count of the log, or another record behind
    /// it, says that there is one. A log without a count, or a record behind the count, may have lost it with power.
    Log {
        /// The log.
        object: String,
        /// Where, and how many records are lost.
        damage: LogDamage,
    },
    /// The count of a log is damaged, and its records are not: nothing is lost.
    LogCount {
        /// The log.
        object: String,
        /// Its records.
        records: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Generation { generation, reason } => {
                write!(f, "generation {generation} cannot be read: {reason}")
            }
            Problem::Extent {
                object,
                extent,
                offset,
                len,
            } => {
                write!(
                    f,
                    "extent {extent} of '{object}' ({len} bytes at {offset}) does not match its checksum"
                )
            }
            Problem::Log { object, damage } => {
                write!(
                    f,
                    "record {} of the log '{object}' (position {}) is damaged, {}; {} records before it are intact",
                    damage.intact + 1,
                    damage.position,
                    lost(damage.lost),
                    damage.intact
                )
            }
            Problem::LogCount { object, records } => {
                write!(
                    f,
                    "the count of the log '{object}' is damaged; its {records} records are intact, and nothing is lost"
                )
            }
        }
    }
}

/// What [`Pool::check`] has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The generation that was checked: the newest.
    pub generation: u64,
    /// Its objects.
    pub objects: usize,
    /// Its extents; those that several objects share count once.
    pub extents: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// Complete records in its logs, whose extents are not counted above.
    pub records: u64,
    /// Those of them whose number is durable, so that damage to one of them is told from the end of the log.
    pub counted_records: u64,
    /// All that is wrong, not only the first.
    pub problems: Vec<Problem>,
    /// Objects and their extents whose checksums of blocks are damaged. The data may be intact: a problem says so if it is not.
    /// Until the object is written anew, reading it verifies such an extent as a whole.
    pub damaged_sums: Vec<(String, usize)>,
    /// Superblock copies that are torn or damaged and not needed, by number. A crash during a publish leaves one; the next
    /// publishes and syncs overwrite it.
    pub damaged_copies: Vec<usize>,
}

impl CheckReport {
    /// Whether everything that is published is intact.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Pool {
    /// Reads the newest generation whole, on all cores, and verifies its directory, that no extents overlap, and every
    /// checksum, those of the records in logs included; nodes of slabs are their owners' to check. Writers and readers go on meanwhile. `progress` is called from several threads, every few MiB.
    ///
    /// # Errors
    /// As [`snapshot`](Pool::snapshot), if it cannot be read at all; what is merely damaged is in the report.
    pub fn check(&self, progress: impl Fn(CheckProgress) + Sync) -> Result<CheckReport, PoolError> {
        let inner = &*self.inner;
        let medium = &inner.medium;
        let (superblock, pinned) = inner.pin_newest()?;
        let slots = Slots::read(medium);
        let damaged = slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| matches!(slot, Slot::Damaged | Slot::Foreign));
        let mut report = CheckReport {
            generation: superblock.generation.get(),
            objects: 0,
            extents: 0,
            bytes: 0,
            records: 0,
            counted_records: 0,
            problems: Vec::new(),
            damaged_sums: Vec::new(),
            damaged_copies: damaged.map(|(index, _)| index).collect(),
        };
        // The directory in memory may be older than the damage.
        match read_directory(medium, &inner.path, &superblock) {
            Ok(directory) => {
                let extents = distinct(&directory);
                report.objects = directory.objects.len();
                report.extents = extents.len();
                report.bytes = extents.iter().map(|named| named.extent.len).sum();
                report.problems = verify(medium, &extents, &progress);
                report.damaged_sums = damaged_sums(medium, &extents);
                for (name, record) in directory.objects.iter() {
                    if let Some(log) = Log::of(medium, record, inner.boot_tag()) {
                        let examined = log.examine();
                        report.records += examined.found.records;
                        report.counted_records += examined.counted;
                        report.problems.extend(log_problem(name, &examined));
                    }
                }
            }
            Err(error) => {
                let reason = error.to_string();
                report.problems.push(Problem::Generation {
                    generation: report.generation,
                    reason,
                });
            }
        }
        drop(pinned);
        Ok(report)
    }
}

/// What is wrong with a log, if anything is.
pub(crate) fn log_problem(name: &str, examined: &Examined) -> Option<Problem> {
    let object = name.to_owned();
    match examined.damage {
        Some(damage) => Some(Problem::Log { object, damage }),
        None if examined.count_damaged => Some(Problem::LogCount {
            object,
            records: examined.found.records,
        }),
        None => None,
    }
}

/// An extent with its first name.
pub(crate) struct Named<'a> {
    object: &'a str,
    index: usize,
    extent: ExtentRef,
}

/// All extents of the objects that have checksums, shared ones once.
pub(crate) fn distinct(directory: &Directory) -> Vec<Named<'_>> {
    let mut seen = HashMap::new();
    let immutable = directory
        .objects
        .iter()
        .filter(|(_, record)| !record.kind.is_mutable());
    for (name, record) in immutable {
        for (index, extent) in record.extents.iter().enumerate() {
            seen.entry((extent.offset, extent.len)).or_insert(Named {
                object: name,
                index,
                extent: *extent,
            });
        }
    }
    let mut extents: Vec<_> = seen.into_values().collect();
    // The longest first, so that no thread is left alone with one at the end.
    extents.sort_by_key(|named| (std::cmp::Reverse(named.extent.len), named.extent.offset));
    extents
}

/// Sums extents that are pinned, or that the writer's lock protects, on all cores; returns those that are damaged in the
/// order of their objects.
pub(crate) fn verify(
    medium: &Medium,
    extents: &[Named<'_>],
    progress: &(dyn Fn(CheckProgress) + Sync),
) -> Vec<Problem> {
    let total: u64 = extents.iter().map(|named| named.extent.len).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let damaged = Mutex::new(Vec::new());
    let work = || {
        while let Some(named) = extents.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = |bytes| {
                let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress(CheckProgress { done, total });
            };
            if sum(medium, &named.extent, report) != named.extent.checksum {
                damaged.lock().unwrap_or_else(PoisonError::into_inner).push(named);
            }
        }
    };
    let useful = usize::try_from(total / CHUNK)
        .unwrap_or(usize::MAX)
        .min(extents.len());
    let threads = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(useful);
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut damaged = damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
    damaged.sort_by_key(|named| (named.object, named.index));
    let problem = |named: &Named<'_>| Problem::Extent {
        object: named.object.to_owned(),
        extent: named.index,
        offset: named.extent.offset,
        len: named.extent.len,
    };
    damaged.into_iter().map(problem).collect()
}

/// Which of the extents have checksums of their blocks that do not match their own, in the order of their objects.
#[allow(unsafe_code, reason = "reads extents where they lie")]
fn damaged_sums(medium: &Medium, extents: &[Named<'_>]) -> Vec<(String, usize)> {
    let is_damaged = |named: &&Named<'_>| {
        let (extent, space) = (&named.extent, named.extent.space());
        // SAFETY: the caller has pinned the extent.
        let space = unsafe { unpinned(medium, space.start, space.end - space.start) };
        let sums = BlockSums::of(space, extent.len, extent.checksum);
        !(0..sums.pages()).all(|page| sums.is_sound(page))
    };
    let summed = extents.iter().filter(|named| named.extent.sums);
    let damaged = summed.filter(is_damaged);
    let mut damaged: Vec<_> = damaged
        .map(|named| (named.object.to_owned(), named.index))
        .collect();
    damaged.sort();
    damaged
}

#[allow(unsafe_code, reason = "reads extents where they lie")]
fn sum(medium: &Medium, extent: &ExtentRef, mut report: impl FnMut(u64)) -> u64 {
    let mut hasher = Xxh3::new();
    let mut at = 0;
    while at < extent.len {
        let len = CHUNK.min(extent.len - at);
        // SAFETY: the caller of `verify` has pinned the extent or keeps writers away.
        hasher.update(unsafe { unpinned(medium, extent.offset + at, len) });
        report(len);
        at += len;
    }
    hasher.digest()
}
