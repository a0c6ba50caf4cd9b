//! Which commits are read as of a moment, and which versions are kept for them.

use std::collections::BTreeMap;

/// The snapshots that exist, and the superseded versions that they see.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Number of snapshots of each commit.
    of_commit: BTreeMap<u64, u32>,
    /// Versions that were superseded while a snapshot saw them.
    kept: Vec<KeptVersion>,
}

/// A version that is not the newest of its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptVersion {
    pub(crate) record: u64,
    pub(crate) commit: u64,
    /// The commit that superseded it.
    pub(crate) until: u64,
}

impl Snapshots {
    /// Adds a snapshot of a commit.
    pub(crate) fn add(&mut self, commit: u64) {
        *self.of_commit.entry(commit).or_default() += 1;
    }

    /// Removes a snapshot. Returns the versions that no other one sees.
    pub(crate) fn remove(&mut self, commit: u64) -> Vec<KeptVersion> {
        let Some(count) = self.of_commit.get_mut(&commit) else {
            return Vec::new();
        };
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        self.of_commit.remove(&commit);
        let of_commit = &self.of_commit;
        let is_seen = |version: &KeptVersion| of_commit.range(version.commit..version.until).next().is_some();
        let (kept, dropped) = std::mem::take(&mut self.kept).into_iter().partition(is_seen);
        self.kept = kept;
        dropped
    }

    /// Returns true if a snapshot sees a version of commit `commit` that commit `until` superseded.
    pub(crate) fn sees(&self, commit: u64, until: u64) -> bool {
        self.of_commit.range(commit..until.max(commit)).next().is_some()
    }

    /// Returns the oldest commit that is read.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.of_commit.keys().next().copied()
    }

    /// Keeps a version until no snapshot sees it.
    pub(crate) fn keep(&mut self, version: KeptVersion) {
        self.kept.push(version);
    }

    /// Returns the records that are kept.
    pub(crate) fn kept(&self) -> impl Iterator<Item = u64> + '_ {
        self.kept.iter().map(|version| version.record)
    }

    /// Replaces the record of a version that was moved.
    pub(crate) fn moved(&mut self, from: u64, to: u64) {
        for version in self.kept.iter_mut().filter(|version| version.record == from) {
            version.record = to;
        }
    }

    /// Returns the number of snapshots, and of versions that are kept for them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let snapshots = self.of_commit.values().map(|count| u64::from(*count)).sum();
        (snapshots, self.kept.len() as u64)
    }
}
