//! Several writes in one commit: what a client has sent together becomes visible and durable together, with
//! one fence. Where the storage is not [atomic](crate::storage::ItemStorage::is_atomic), each write has a
//! commit of its own.
//!
//! Such a commit holds the locks of all its keys. Locks are taken in ascending order, and whoever holds the
//! lock of a single key waits for no other one, so nobody waits in a circle.

use std::collections::HashSet;

use super::staged::StagedChanges;
use super::{Items, Write, WriteOutcome, shard};
use crate::error::Result;
use crate::fault::{MemcachedFault, injected};

impl Items {
    /// Stores values as [`write`](Self::write) would one after the other. `most` returns the most bytes of
    /// data for a key.
    pub(crate) fn write_together(
        &self,
        writes: &[Write<'_>],
        most: &dyn Fn(&[u8]) -> u64,
    ) -> Vec<Result<WriteOutcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut rest = writes;
        while !rest.is_empty() {
            let (run, after) = rest.split_at(independent(rest));
            let together = match run.len() {
                1 => None,
                // A group that fails may be there in part, and must not be executed again.
                _ if !self.storage.is_atomic() => None,
                _ if injected(MemcachedFault::CommitApart) => None,
                _ => self.commit_together(run, most).ok(),
            };
            match together {
                Some(together) => outcomes.extend(together),
                // Where there is no room for all, there may be for some.
                None => outcomes.extend(run.iter().map(|write| self.write(write, most(write.key)))),
            }
            rest = after;
        }
        outcomes
    }

    /// Stores values in one commit.
    ///
    /// # Errors
    /// That of the commit: nothing is stored.
    fn commit_together(
        &self,
        writes: &[Write<'_>],
        most: &dyn Fn(&[u8]) -> u64,
    ) -> Result<Vec<Result<WriteOutcome>>> {
        let generation = self.generation()?;
        let mut shards: Vec<usize> = writes.iter().map(|write| shard(write.key)).collect();
        shards.sort_unstable();
        shards.dedup();
        let _locks: Vec<_> = shards.into_iter().map(|shard| self.lock_shard(shard)).collect();
        let mut decided = Vec::with_capacity(writes.len());
        let mut waiting = 0;
        for write in writes {
            let item = self.decide(&**generation, write, most(write.key), waiting);
            if let Ok(Ok(item)) = &item {
                waiting += self.storage.footprint(write.key.len(), item.bytes());
            }
            decided.push(item);
        }
        let mut staged = StagedChanges::default();
        for (write, item) in writes.iter().zip(&mut decided) {
            if let Ok(Ok(item)) = item {
                self.stage(write.key, item, &mut staged);
            }
        }
        self.commit(&**generation, &staged)?;
        let outcomes = writes.iter().zip(decided).map(|(write, item)| {
            Ok(match item? {
                Ok(item) => self.stored(write, &item),
                Err(refused) => refused,
            })
        });
        Ok(outcomes.collect())
    }
}

/// Returns the number of writes at the beginning of which none depends on one before it.
fn independent(writes: &[Write<'_>]) -> usize {
    let mut written = HashSet::new();
    let dependent = writes
        .iter()
        .position(|write| !written.insert(write.key) && write.reads_old());
    dependent.unwrap_or(writes.len())
}
