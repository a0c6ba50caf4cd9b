//! Log following: a reader beside a writer applies newer commits to its memtables without rereading the
//! trees.
//!
//! Invariant: the reader's trees belong to the current checkpoint, so that all versions after it are in the
//! log that was read. Copies of older records change nothing: the originals stay until the epoch changes.

use crate::error::Result;
use crate::log::{LogFrame, LogPosition, LogReader, LogStep};
use crate::memtable::MemEntry;
use crate::page_source::is_segment;
use crate::record::RecordRef;
use crate::recover;
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// The log records that a reader has not yet applied.
pub(crate) struct UnreadLog {
    /// Frames of whole batches.
    frames: Vec<LogFrame>,
    /// The newest commit.
    pub(crate) commit: u64,
    end: LogPosition,
}

impl StoresState {
    /// Reads the log records that this reader has not yet applied. `None` if there is a newer checkpoint, or
    /// a record that only a full reopening handles, such as a deleted range, whose keys must be subtracted
    /// from the counters.
    ///
    /// # Errors
    /// Those of [`recover::newest_number`].
    pub(crate) fn unread_log(&self) -> Result<Option<UnreadLog>> {
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
        let (mut unread, mut batch) = (
            UnreadLog {
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
                        unread.frames.append(&mut batch);
                        unread.end = reader.position();
                    }
                }
                LogStep::Link(segment) if is_segment(&self.slab, segment) => {}
                LogStep::Link(_) | LogStep::End | LogStep::Damaged(_) => return Ok(None),
            }
        }
        let newest = unread.frames.iter().filter(|frame| !frame.is_moved());
        unread.commit = newest.map(|frame| frame.commit).max().unwrap_or(0).max(commit);
        let is_same = recover::newest_number(&self.slab)? == Some(checkpoint);
        Ok(is_same.then_some(unread))
    }

    /// Applies the unread records of the log to the memtables. They stay invisible until their commit is
    /// published.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn follow_log(&self, unread: UnreadLog) -> Result<(), Damage> {
        for frame in unread.frames.iter().filter(|frame| !frame.is_moved()) {
            for record in frame.records.iter().filter(|record| !record.is_chunk()) {
                if let Some(store) = self.store_of(record.head.store.get()) {
                    self.follow_record(&store, record)?;
                }
            }
        }
        let mut committer = self.committer();
        committer.log.move_to(unread.end);
        committer.commit = unread.commit;
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
            // The writer may already have pointed the entry of the tree at the new record.
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
