//! Verification of every byte that a generation names: [`Pool::check`], and the parts of it that repair uses.

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
use crate::directory::Directory;
use crate::error::lost;
use crate::log::{LogExamination, PinnedLog};
use crate::log_count::LogDamage;
use crate::object::ExtentRef;
use crate::pool::{Pool, read_directory};
use crate::sums::BlockSums;
use crate::superblock::{SuperblockCopies, SuperblockCopy};

/// Bytes summed between two progress reports.
const CHUNK: u64 = 4 << 20;

/// The progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolCheckProgress {
    /// Bytes summed.
    pub done: u64,
    /// Bytes to sum.
    pub total: u64,
}

/// A defect of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolProblem {
    /// A generation cannot be read at all.
    Generation {
        /// The number of the generation.
        generation: u64,
        /// The reason, as text.
        reason: String,
    },
    /// An extent does not match its checksum.
    Extent {
        /// The object that names it (the first, if several share it).
        object: String,
        /// The index of the extent in the object.
        extent: usize,
        /// The offset of the extent in the pool.
        offset: u64,
        /// The length of the extent in bytes.
        len: u64,
    },
    /// Records of a log are lost: one does not match its checksum, although the log's count or a record
    /// after it proves that it existed. For a log without a count, or a record beyond the count, power
    /// loss may be the cause.
    Log {
        /// The name of the log.
        object: String,
        /// The position of the damage, and the number of lost records.
        damage: LogDamage,
    },
    /// The count of a log is damaged, but its records are intact, so nothing is lost.
    LogCount {
        /// The name of the log.
        object: String,
        /// The number of its records.
        records: u64,
    },
}

impl fmt::Display for PoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolProblem::Generation { generation, reason } => {
                write!(f, "generation {generation} cannot be read: {reason}")
            }
            PoolProblem::Extent {
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
            PoolProblem::Log { object, damage } => {
                write!(
                    f,
                    "record {} of the log '{object}' (position {}) is damaged, {}; {} records before it are intact",
                    damage.intact + 1,
                    damage.position,
                    lost(damage.lost),
                    damage.intact
                )
            }
            PoolProblem::LogCount { object, records } => {
                write!(
                    f,
                    "the count of the log '{object}' is damaged; its {records} records are intact, and nothing is lost"
                )
            }
        }
    }
}

/// The result of [`Pool::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolCheckReport {
    /// The generation that was checked: the newest.
    pub generation: u64,
    /// Number of objects.
    pub objects: usize,
    /// Number of extents; shared extents count once.
    pub extents: usize,
    /// Bytes in the extents.
    pub bytes: u64,
    /// Complete records in logs, whose extents are not counted above.
    pub records: u64,
    /// Records among these that the durable counts cover, so that damage to them can be distinguished from
    /// the end of the log.
    pub counted_records: u64,
    /// All defects, not only the first.
    pub problems: Vec<PoolProblem>,
    /// Objects and extent indexes whose block checksums are damaged. The data may be intact: if not,
    /// `problems` says so. Until the object is rewritten, such an extent is verified as a whole.
    pub damaged_sums: Vec<(String, usize)>,
    /// Numbers of the superblock copies that are torn or damaged and not needed. A crash during a publish
    /// leaves one; later publishes and syncs overwrite it.
    pub damaged_copies: Vec<usize>,
}

impl PoolCheckReport {
    /// Returns true if everything published is intact.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Pool {
    /// Reads the newest generation completely, on all cores, and verifies its directory, that no extents
    /// overlap, and every checksum, including those of log records. Nodes of slabs are left to their
    /// owners. Writers and readers continue meanwhile. `progress` is called from several threads, every
    /// few MiB.
    ///
    /// # Errors
    /// Fails like [`snapshot`](Pool::snapshot) if the generation cannot be read at all. Damage is part of the
    /// report.
    pub fn check(&self, progress: impl Fn(PoolCheckProgress) + Sync) -> Result<PoolCheckReport, PoolError> {
        let inner = &*self.inner;
        let medium = &inner.medium;
        let (superblock, pinned) = inner.pin_newest()?;
        let slots = SuperblockCopies::read(medium);
        let damaged = slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| matches!(slot, SuperblockCopy::Damaged | SuperblockCopy::Foreign));
        let mut report = PoolCheckReport {
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
        // Read it from the medium: the directory in memory may predate the damage.
        match read_directory(medium, &inner.path, &superblock) {
            Ok(directory) => {
                let extents = distinct(&directory);
                report.objects = directory.objects.len();
                report.extents = extents.len();
                report.bytes = extents.iter().map(|named| named.extent.len).sum();
                report.problems = verify(medium, &extents, &progress);
                report.damaged_sums = damaged_sums(medium, &extents);
                for (name, record) in directory.objects.iter() {
                    if let Some(log) = PinnedLog::from_record(medium, record, inner.boot_tag()) {
                        let examined = log.examine();
                        report.records += examined.found.records;
                        report.counted_records += examined.counted;
                        report.problems.extend(log_problem(name, &examined));
                    }
                }
            }
            Err(error) => {
                let reason = error.to_string();
                report.problems.push(PoolProblem::Generation {
                    generation: report.generation,
                    reason,
                });
            }
        }
        drop(pinned);
        Ok(report)
    }
}

/// Returns the defect of a log, if any.
pub(crate) fn log_problem(name: &str, examined: &LogExamination) -> Option<PoolProblem> {
    let object = name.to_owned();
    match examined.damage {
        Some(damage) => Some(PoolProblem::Log { object, damage }),
        None if examined.count_damaged => Some(PoolProblem::LogCount {
            object,
            records: examined.found.records,
        }),
        None => None,
    }
}

/// An extent with the first name that leads to it.
pub(crate) struct NamedExtent<'a> {
    object: &'a str,
    index: usize,
    extent: ExtentRef,
}

/// Returns all immutable extents of the objects, shared ones once.
pub(crate) fn distinct(directory: &Directory) -> Vec<NamedExtent<'_>> {
    let mut seen = HashMap::new();
    let immutable = directory
        .objects
        .iter()
        .filter(|(_, record)| !record.kind.is_mutable());
    for (name, record) in immutable {
        for (index, extent) in record.extents.iter().enumerate() {
            seen.entry((extent.offset, extent.len)).or_insert(NamedExtent {
                object: name,
                index,
                extent: *extent,
            });
        }
    }
    let mut extents: Vec<_> = seen.into_values().collect();
    // Sort the longest first, so that no thread is left alone with one at the end.
    extents.sort_by_key(|named| (std::cmp::Reverse(named.extent.len), named.extent.offset));
    extents
}

/// Verifies extents on all cores; returns the damaged ones in the order of their objects. The caller has
/// pinned them or holds the writer's lock.
pub(crate) fn verify(
    medium: &Medium,
    extents: &[NamedExtent<'_>],
    progress: &(dyn Fn(PoolCheckProgress) + Sync),
) -> Vec<PoolProblem> {
    let total: u64 = extents.iter().map(|named| named.extent.len).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let damaged = Mutex::new(Vec::new());
    let work = || {
        while let Some(named) = extents.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = |bytes| {
                let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress(PoolCheckProgress { done, total });
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
    let problem = |named: &NamedExtent<'_>| PoolProblem::Extent {
        object: named.object.to_owned(),
        extent: named.index,
        offset: named.extent.offset,
        len: named.extent.len,
    };
    damaged.into_iter().map(problem).collect()
}

/// Returns the extents with damaged block checksums, in the order of their objects.
#[allow(unsafe_code, reason = "reads extents where they lie")]
fn damaged_sums(medium: &Medium, extents: &[NamedExtent<'_>]) -> Vec<(String, usize)> {
    let is_damaged = |named: &&NamedExtent<'_>| {
        let (extent, space) = (&named.extent, named.extent.space());
        // SAFETY: the caller has pinned the extent.
        let space = unsafe { unpinned(medium, space.start, space.end - space.start) };
        let sums = BlockSums::new(space, extent.len, extent.checksum);
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
