//! Log following: a reader beside the writer puts the records of newer commits into its memtables, without
//! reading anything else again.
//!
//! Invariant: the checkpoint is the one that the reader's trees are of, so that all versions after it are in
//! the log that was read. Copies of older records change nothing: what they were copied from stays until the
//! epoch changes.

use crate::error::Result;
use crate::log::{FoundFrame, LogPosition, LogReader, LogStep};
use crate::memtable::MemEntry;
use crate::page_source::is_segment;
use crate::record::RecordRef;
use crate::recover;
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// The log after what a reader has seen.
pub(crate) struct LogNews {
    /// Frames of whole batches.
    frames: Vec<FoundFrame>,
    /// The newest commit.
    pub(crate) commit: u64,
    end: LogPosition,
}

impl StoresState {
    /// Reads the log after what this reader has seen. `None` if there is another checkpoint, or something
    /// that opening the stores has to look at, such as a deleted range, whose keys it takes out of the
    /// counters.
    ///
    /// # Errors
    /// Those of [`recover::newest_number`].
    pub(crate) fn log_news(&self) -> Result<Option<LogNews>> {
        if self.has_deleted_ranges() {
            return Ok(None);
        }
        let (checkpoint, secret, position, commit) = {
            let committer = self.committer();
            let log = &committer.log;
            (
                committer.checkpoint,
                log.secret(),
                log.position(),
                committer.commit,
            )
        };
        let mut reader = LogReader::new(self.medium(), secret, position);
        let (mut news, mut batch) = (
            LogNews {
                frames: Vec::new(),
                commit,
                end: position,
            },
            Vec::new(),
        );
        while !reader.is_at_end() {
            match reader.step() {
                LogStep::OpenFrame(frame) if frame.records.iter().any(RecordRef::is_range) => {
                    return Ok(None);
                }
                LogStep::OpenFrame(frame) => {
                    let goes_on = frame.goes_on();
                    batch.push(frame);
                    if !goes_on {
                        news.frames.append(&mut batch);
                        news.end = reader.position();
                    }
                }
                LogStep::Link(segment) if is_segment(&self.slab, segment) => {}
                LogStep::Link(_) | LogStep::End | LogStep::Damaged(_) => return Ok(None),
            }
        }
        let newest = news.frames.iter().filter(|frame| !frame.is_moved());
        news.commit = newest.map(|frame| frame.commit).max().unwrap_or(0).max(commit);
        let is_same = recover::newest_number(&self.slab)? == Some(checkpoint);
        Ok(is_same.then_some(news))
    }

    /// Puts the records of the log after what this reader has seen into the memtables. Nobody sees them
    /// before their commit is visible.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn follow_log(&self, news: LogNews) -> Result<(), Damage> {
        for frame in news.frames.iter().filter(|frame| !frame.is_moved()) {
            for record in frame.records.iter().filter(|record| !record.is_chunk()) {
                if let Some(store) = self.store_of(record.head.store.get()) {
                    self.follow_record(&store, record)?;
                }
            }
        }
        let mut committer = self.committer();
        committer.log.move_to(news.end);
        committer.commit = news.commit;
        Ok(())
    }

    fn follow_record(&self, store: &StoreState, record: &RecordRef) -> Result<(), Damage> {
        let key = record.key(self.medium());
        let known = store.read().active.get(&key);
        let old = match known {
            Some(MemEntry::Record(old)) => {
                Some(RecordRef::load(self.medium(), old).ok_or(Damage::record(old))?)
            }
            Some(MemEntry::Purged) => None,
            // The writer may have let the entry of the tree lead to the new record already.
            None => {
                let entry = store.read().tree.find(&self.pages(), &key)?;
                self.at_checkpoint(entry.map(|(_, record)| record), record, &key)
            }
        };
        self.count(store, old.as_ref(), record)?;
        store.write().active.set(&key, MemEntry::Record(record.offset));
        Ok(())
    }
}
