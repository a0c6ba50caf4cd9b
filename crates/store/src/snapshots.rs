//! Which commits are read as of a moment, and which versions are kept for them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::commit_times::CommitTimes;

/// The snapshots that exist, and the superseded versions that they see.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Number of snapshots of each commit, and the time in ms since 1970 of the first of them, or an earlier
    /// one to which the clock has gone back since.
    of_commit: BTreeMap<u64, (u32, u64)>,
    /// The latest time since that was last noted.
    latest: u64,
    /// When commits were made.
    times: CommitTimes,
    /// The readers beside the writer, as of the last look.
    readers: ReaderPins,
    /// Versions that were superseded while a snapshot saw them, by the offsets of their records.
    kept: HashMap<u64, KeptVersion>,
}

/// A version that is not the newest of its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptVersion {
    pub(crate) record: u64,
    pub(crate) commit: u64,
    /// The commit that superseded it.
    pub(crate) until: u64,
}

/// The commits that readers beside the writer see, here or in other processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReaderPins {
    /// A commit that each reader will see which is just opening, or a later one.
    pub(crate) opening_since: Option<u64>,
    /// Commits that are pinned.
    pub(crate) commits: Vec<Range<u64>>,
}

impl ReaderPins {
    fn see(&self, commit: u64, until: u64) -> bool {
        let opening = self.opening_since.is_some_and(|since| since < until);
        let is_pinned = |pins: &Range<u64>| pins.start < until && commit < pins.end;
        commit < until && (opening || self.commits.iter().any(is_pinned))
    }

    fn oldest(&self) -> Option<u64> {
        let pinned = self.commits.iter().map(|pins| pins.start);
        pinned.chain(self.opening_since).min()
    }
}

impl Snapshots {
    /// Adds a snapshot of a commit, taken at a time.
    pub(crate) fn add(&mut self, commit: u64, now: u64) {
        let (count, since) = self.of_commit.entry(commit).or_insert((0, now));
        *count += 1;
        *since = now.min(*since);
        self.latest = now.max(self.latest);
    }

    /// Notes the time, when `newest` is the newest commit.
    pub(crate) fn note_time(&mut self, newest: u64, now: u64) {
        self.times.note(newest, now);
        if now < self.latest {
            // The clock has gone back.
            for (_, since) in self.of_commit.values_mut() {
                *since = now.min(*since);
            }
        }
        self.latest = now;
    }

    /// Returns a time before which nothing was read that may still be read; `None` if nobody reads. A key
    /// that had expired by then is one that nobody sees.
    pub(crate) fn read_since(&self) -> Option<u64> {
        let here = self.of_commit.values().map(|(_, since)| *since);
        let pinned = self.readers.commits.iter().map(|pins| pins.start);
        let elsewhere = pinned.chain(self.readers.opening_since);
        here.chain(elsewhere.map(|commit| self.times.read_since(commit)))
            .min()
    }

    /// Removes a snapshot. Returns the versions that no other one sees.
    pub(crate) fn remove(&mut self, commit: u64) -> Vec<KeptVersion> {
        let Some((count, _)) = self.of_commit.get_mut(&commit) else {
            return Vec::new();
        };
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        self.of_commit.remove(&commit);
        self.drop_unseen()
    }

    /// Sets the readers beside the writer. Returns the versions that nobody sees any more.
    pub(crate) fn set_readers(&mut self, readers: ReaderPins) -> Vec<KeptVersion> {
        if self.readers == readers {
            Vec::new()
        } else {
            self.readers = readers;
            self.drop_unseen()
        }
    }

    /// Returns the readers beside the writer, as of the last look.
    pub(crate) fn readers(&self) -> &ReaderPins {
        &self.readers
    }

    /// Returns true if there is a snapshot of a commit.
    pub(crate) fn has(&self, commit: u64) -> bool {
        self.of_commit.contains_key(&commit)
    }

    fn drop_unseen(&mut self) -> Vec<KeptVersion> {
        let mut kept = std::mem::take(&mut self.kept);
        let dropped = kept.extract_if(|_, version| !self.sees(version.commit, version.until));
        let dropped = dropped.map(|(_, version)| version).collect();
        self.kept = kept;
        dropped
    }

    /// Returns true if a snapshot sees a version of commit `commit` that commit `until` superseded.
    pub(crate) fn sees(&self, commit: u64, until: u64) -> bool {
        self.of_commit.range(commit..until.max(commit)).next().is_some() || self.readers.see(commit, until)
    }

    /// Returns the oldest commit that is read.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let here = self.of_commit.keys().next().copied();
        here.into_iter().chain(self.readers.oldest()).min()
    }

    /// Keeps a version until no snapshot sees it.
    pub(crate) fn keep(&mut self, version: KeptVersion) {
        self.kept.insert(version.record, version);
    }

    /// Keeps no version for which `drops` returns true any more. Returns their records.
    pub(crate) fn drop_kept(&mut self, drops: impl Fn(u64) -> bool) -> Vec<u64> {
        let dropped = self.kept.extract_if(|record, _| drops(*record));
        dropped.map(|(record, _)| record).collect()
    }

    /// Replaces the record of a version that was moved. Returns false if none is kept there.
    pub(crate) fn moved(&mut self, from: u64, to: u64) -> bool {
        let Some(version) = self.kept.remove(&from) else {
            return false;
        };
        self.keep(KeptVersion {
            record: to,
            ..version
        });
        true
    }

    /// Returns the number of snapshots, and of versions that are kept for them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let snapshots = self.of_commit.values().map(|(count, _)| u64::from(*count)).sum();
        (snapshots, self.kept.len() as u64)
    }
}
