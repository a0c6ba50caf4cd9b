//! Compactions: versions that hold the same rows as an older one because only their segments were rewritten.
//!
//! A transaction that has read may write only if nothing that it read has changed since. Compaction publishes
//! a generation with the same rows, so the transaction continues on it. Only compactions of this process are
//! known: one of another process counts as a change. The growth of a slab publishes a generation, too, and
//! changes no table.

use std::collections::VecDeque;

use super::Catalog;

/// Number of compactions that are remembered. A transaction whose first read lies further back cannot write.
const MAX_REMEMBERED_COMPACTIONS: usize = 1024;

/// A generation and the position up to which its log was read.
pub type CatalogVersion = (u64, u64);

/// The most recent compactions.
#[derive(Debug, Default)]
pub struct Rewrites(VecDeque<Rewrite>);

#[derive(Debug)]
enum Rewrite {
    /// The version became this generation, with an empty log.
    Folded(CatalogVersion, u64),
    /// The first generation became the second one, with the same log.
    Moved(u64, u64),
}

impl Rewrites {
    /// Records that a newly published generation, whose log is empty, holds the rows of the version before.
    pub fn add(&mut self, before: CatalogVersion, generation: u64) {
        self.push(Rewrite::Folded(before, generation));
    }

    /// Records that a newly published generation holds the rows and the log of another one, relocated in the
    /// file.
    pub fn add_moved(&mut self, before: u64, generation: u64) {
        self.push(Rewrite::Moved(before, generation));
    }

    fn push(&mut self, rewrite: Rewrite) {
        if self.0.len() == MAX_REMEMBERED_COMPACTIONS {
            self.0.pop_front();
        }
        self.0.push_back(rewrite);
    }

    /// Returns true if both versions are known to hold the same rows.
    pub fn are_equal(&self, older: &Catalog, newer: &Catalog) -> bool {
        let mut version = older.version();
        // In the order in which they were published, so that one pass follows a chain of them.
        for rewrite in &self.0 {
            match *rewrite {
                Rewrite::Folded(before, after) if before == version => version = (after, 0),
                Rewrite::Moved(before, after) if before == version.0 => version.0 = after,
                Rewrite::Folded(..) | Rewrite::Moved(..) => {}
            }
        }
        version == newer.version()
            || older.position() == newer.position()
                && newer
                    .objects()
                    .snapshot()
                    .is_some_and(|newer| older.objects().are_those_of(newer))
    }
}
