//! Moving of records that are needed, to the end of the log.
//!
//! Invariants: first the copies of many records are appended, then one fence makes all of them durable, and
//! only then do pointers lead to them. So a crash in between leaves the originals, whose segments are not
//! used again before the next checkpoint.
//!
//! The committer is locked for few records at a time. Where a fence is a sync, which takes several ms and
//! covers what all threads have flushed, it is not locked meanwhile, so that commits can append. Then a
//! commit may supersede a version between its copy and the change of its pointer: what points to it is looked
//! up again, and the copy is garbage if nothing does. Where a fence covers its own thread only, the committer
//! stays locked until the copies are durable, because the fence of a commit after them would not cover them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_media::MediumKind;

use crate::committer::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::layout::{RECORD_CHUNK, RECORD_CHUNKED, RECORD_DELETED};
use crate::log::{LogPosition, records_of};
use crate::pointers::Pointer;
use crate::record::{NewRecord, RecordRef, chunk_list};
use crate::snapshots::{KeptVersion, Snapshots};
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// Bytes of copies that one fence makes durable, about. Where a fence is a sync of several ms, this many
/// bytes cost little more than one record.
pub(crate) const FENCED_BYTES: u64 = 4 << 20;

/// Records that are copied at once on a full disk, at least.
const MIN_MOVED: usize = 16;

/// Time in ms after which a segment is emptied again that has expired records which a snapshot needed.
const EXPIRED_AGAIN: u64 = 60_000;

/// Versions that were copied, and whose pointers lead to the originals.
#[derive(Default)]
pub(crate) struct CopiedRecords {
    copies: Vec<CopiedRecord>,
    /// The offsets of the originals: a version may be found again by each of its chunks.
    originals: HashSet<u64>,
    /// Segments of which everything needed was copied.
    segments: Vec<u64>,
    /// Number of keys that were purged instead.
    purged: usize,
    /// Bytes of the copies.
    pub(crate) bytes: u64,
    /// The end of the log after the newest copy.
    end: Option<LogPosition>,
}

struct CopiedRecord {
    store: Arc<StoreState>,
    key: Vec<u8>,
    original: RecordRef,
    /// Offset of the copy.
    copy: u64,
}

impl CopiedRecords {
    /// Returns the number of records that were copied, and of keys that were purged: each has an entry for
    /// the next checkpoint.
    fn records(&self) -> usize {
        self.copies.len() + self.purged
    }
}

impl StoresState {
    /// Returns true if a fence makes durable what any thread has flushed.
    fn shares_fences(&self) -> bool {
        self.medium().kind() == MediumKind::PageCache { strict: true }
    }

    /// Returns the number of records that are copied, or whose pointers are changed, while the committer is
    /// locked once. More of them where a commit holds it during a sync: then each turn takes that long.
    fn moved_at_once(&self) -> usize {
        if self.shares_fences() { 1024 } else { 64 }
    }

    /// Copies what is needed of segments: of all of them, unless that is more than one fence should cover.
    pub(crate) fn copy_needed(&self, segments: &[u64], copied: &mut CopiedRecords) -> Result<()> {
        let (mut records, mut ends) = (Vec::new(), Vec::new());
        let found = segments.iter().try_for_each(|segment| {
            records.extend(self.records_to_move(*segment)?);
            self.end_turn();
            ends.push((*segment, records.len()));
            Ok(())
        });
        let mut ends = ends.into_iter().peekable();
        let (mut done, mut at_once) = (0, self.moved_at_once());
        loop {
            while let Some((segment, _)) = ends.next_if(|(_, end)| *end <= done) {
                copied.segments.push(segment);
            }
            // At least one segment is gained, so that whoever asks goes on.
            let are_enough = copied.records() >= self.options.pending_records && !copied.segments.is_empty();
            let is_enough = copied.bytes >= FENCED_BYTES || are_enough;
            if is_enough || ends.peek().is_none() {
                return found;
            }
            let next = (done + at_once).min(records.len());
            let mut committer = self.committer();
            self.writable()?;
            let kept = self.kept_by_copies(&committer);
            committer.log.keep_free(kept);
            let result = self.copy_records(&mut committer, &records[done..next], copied);
            committer.log.keep_free(0);
            drop(committer);
            self.end_turn();
            match result {
                Ok(()) => done = next,
                // There may be room for some of them.
                Err(error) if error.is_full() && at_once > MIN_MOVED => at_once /= 4,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the records of a segment, needed or not.
    fn records_to_move(&self, segment: u64) -> Result<Vec<RecordRef>> {
        let damaged = |offset: u64| self.damaged(Damage::record(offset));
        let used = self.segments().get(segment).map_or(0, |segment| segment.used);
        match records_of(self.medium(), segment) {
            // Nothing of it counts: a commit that failed may have left anything.
            Err(_) if used == 0 => Ok(Vec::new()),
            found => match found.map_err(damaged)? {
                (_, false) if used != 0 => Err(damaged(segment)),
                (records, _) => Ok(records),
            },
        }
    }

    /// Copies those records that are needed.
    fn copy_records(
        &self,
        committer: &mut Committer,
        records: &[RecordRef],
        copied: &mut CopiedRecords,
    ) -> Result<()> {
        let mut snapshots = self.snapshots();
        self.look_for_readers(committer, &mut snapshots);
        let (mark, written) = (committer.log.mark(), committer.log.written());
        let (commit, before) = (committer.commit, copied.copies.len());
        // All copies share a frame, as far as they fit.
        committer.log.begin(commit, true);
        let appended = self.append_copies(committer, &snapshots, records, copied);
        drop(snapshots);
        if let Err(error) = appended {
            // They are not in the log, and no pointer may lead to them.
            for copy in copied.copies.drain(before..) {
                copied.originals.remove(&copy.original.offset);
            }
            self.take_back(committer, mark)?;
            return Err(error);
        }
        if copied.copies.len() == before {
            return Ok(());
        }
        committer.log.end(self.medium());
        let bytes = committer.log.written() - written;
        committer.pending_bytes += bytes;
        copied.bytes += bytes;
        copied.end = Some(committer.log.position());
        if self.shares_fences() {
            Ok(())
        } else {
            self.fence_copies(Some(committer), copied)
        }
    }

    /// Adds copies of those records that are needed to the batch that was begun.
    fn append_copies(
        &self,
        committer: &mut Committer,
        snapshots: &Snapshots,
        records: &[RecordRef],
        copied: &mut CopiedRecords,
    ) -> Result<()> {
        let damaged = |damage: Damage| self.damaged(damage);
        let mut of_before: Option<Arc<StoreState>> = None;
        for record in records.iter().filter(|record| !record.is_range()) {
            let id = record.head.store.get();
            of_before = of_before
                .filter(|store| store.id == id)
                .or_else(|| self.store_of(id));
            let Some(store) = of_before.clone() else {
                continue;
            };
            let key = record.key(self.medium());
            let pointer = self
                .pointer_of(snapshots, &store, &key, record)
                .map_err(damaged)?;
            let Some((pointer, original)) = pointer else {
                continue;
            };
            if matches!(&pointer, Pointer::Entry(_)) && self.is_over(snapshots, &original) {
                self.purge_key(committer, &store, &key, &original)
                    .map_err(damaged)?;
                copied.purged += 1;
            } else if !copied.originals.contains(&original.offset) {
                let copy = self.copy(committer, &store, &key, &original)?;
                copied.originals.insert(original.offset);
                copied.copies.push(CopiedRecord {
                    store,
                    key,
                    original,
                    copy,
                });
            }
        }
        Ok(())
    }

    /// Makes the copies durable.
    fn fence_copies(&self, committer: Option<&mut Committer>, copied: &CopiedRecords) -> Result<()> {
        if injected(StoreFault::MoveUnfenced) {
            return Ok(());
        }
        if let Err(error) = self.medium().fence() {
            self.poison(&error);
            return Err(error.into());
        }
        let end = copied.end;
        let set_fenced = |committer: &mut Committer| {
            // A commit may have appended frames after the copies since, which its own fence makes durable.
            if Some(committer.log.position()) == end {
                committer.log.set_fenced();
            }
        };
        match committer {
            Some(committer) => set_fenced(committer),
            None => set_fenced(&mut self.committer()),
        }
        Ok(())
    }

    /// Makes the copies durable, and lets the pointers lead to them. Returns the number of records that were
    /// moved or purged.
    pub(crate) fn move_copied(&self, copied: CopiedRecords) -> Result<usize> {
        if self.shares_fences() && !copied.copies.is_empty() {
            self.fence_copies(None, &copied)?;
        }
        for copies in copied.copies.chunks(self.moved_at_once()) {
            let mut committer = self.committer();
            self.writable()?;
            let mut snapshots = self.snapshots();
            self.look_for_readers(&mut committer, &mut snapshots);
            for copy in copies {
                self.change_pointer(&mut committer, &mut snapshots, copy)
                    .map_err(|damage| self.damaged(damage))?;
            }
            drop(snapshots);
            drop(committer);
            self.end_turn();
        }
        let mut committer = self.committer();
        for segment in copied.segments {
            committer.freed.segments.push(segment);
            self.segments().set_emptied(segment);
        }
        Ok(copied.copies.len() + copied.purged)
    }

    /// Lets the pointer to a version lead to its copy, if something still points to it.
    fn change_pointer(
        &self,
        committer: &mut Committer,
        snapshots: &mut Snapshots,
        copied: &CopiedRecord,
    ) -> Result<(), Damage> {
        let CopiedRecord {
            store,
            key,
            original,
            copy,
        } = copied;
        let new = RecordRef::load(self.medium(), *copy).ok_or(Damage::record(*copy))?;
        let pointer = match self.pointer_of(snapshots, store, key, original)? {
            Some((pointer, _)) => pointer,
            None if injected(StoreFault::MoveSuperseded) => match store.read().locate(&self.pages(), key)? {
                Some(newer) => Pointer::Entry(newer),
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        // Otherwise the segment of the copy would be emptied at once, for as long as the snapshot is there.
        let expires = match new.expires(self.medium()) {
            Some(expires) if expires <= self.now() && !injected(StoreFault::ExpireCopies) => {
                self.now() + EXPIRED_AGAIN
            }
            expires => expires.unwrap_or(0),
        };
        self.remember_until(&new, expires)?;
        if snapshots.oldest().is_some() {
            // Another version of the key may have been moved since the copy.
            let offset = original.offset;
            let original = RecordRef::load(self.medium(), offset).ok_or(Damage::record(offset))?;
            new.set_prev(self.medium(), original.head.prev.get());
        }
        let is_kept = snapshots.moved(original.offset, *copy);
        if is_kept {
            self.count_kept(original, false)?;
            self.count_kept(&new, true)?;
        }
        match pointer {
            Pointer::Entry(located) => {
                let mut trees = store.write();
                committer.point(&mut trees, self.medium(), key, located.slot, *copy);
            }
            Pointer::Version(newer) => {
                if !is_kept {
                    // The reader that sees it had not been noticed when it was superseded.
                    snapshots.keep(KeptVersion {
                        record: *copy,
                        commit: original.commit(),
                        until: newer.commit(),
                    });
                    self.count_kept(&new, true)?;
                }
                let _no_readers = store.write();
                newer.set_prev(self.medium(), *copy);
            }
        }
        self.forget(original)
    }

    /// Removes a key whose newest version is a deletion or has expired. The log does not say so.
    fn purge_key(
        &self,
        committer: &mut Committer,
        store: &StoreState,
        key: &[u8],
        version: &RecordRef,
    ) -> Result<(), Damage> {
        store.write().active.remove(key);
        committer.pending_records += 1;
        if !version.is_deleted() {
            self.uncount(store, version)?;
        }
        self.forget(version)
    }

    /// Returns true if the newest version of a key is a deletion or has expired, and no snapshot needs it.
    fn is_over(&self, snapshots: &Snapshots, newest: &RecordRef) -> bool {
        let is_old = snapshots.oldest().is_none_or(|oldest| oldest >= newest.commit());
        // Whoever reads as of a moment before the key expired still sees it, as the clock may go back.
        let is_seen = |expires: u64| {
            let was_read = snapshots.read_since().is_some_and(|since| since < expires);
            was_read && !injected(StoreFault::PurgeSeen)
        };
        let has_expired = newest
            .expires(self.medium())
            .is_some_and(|expires| expires <= self.now() && !is_seen(expires));
        is_old && (newest.is_deleted() || has_expired)
    }

    /// Removes a key from the number of keys of its store.
    pub(crate) fn uncount(&self, store: &StoreState, version: &RecordRef) -> Result<(), Damage> {
        let size = version.key_len() as u64 + self.extent_of(version)?.0;
        store.keys.fetch_sub(1, Ordering::Relaxed);
        store.bytes.fetch_sub(size, Ordering::Relaxed);
        Ok(())
    }

    /// Adds a copy of a version, with its chunks, to the batch that was begun. Returns its offset.
    fn copy(
        &self,
        committer: &mut Committer,
        store: &Arc<StoreState>,
        key: &[u8],
        version: &RecordRef,
    ) -> Result<u64> {
        let medium = self.medium();
        let damaged = |offset: u64| -> StoreError { self.damaged(Damage::record(offset)) };
        let contents = version.contents(medium).ok_or_else(|| damaged(version.offset))?;
        let mut segments = self.segments();
        let base = NewRecord {
            store: store.id,
            commit: version.commit(),
            flags: 0,
            expires: None,
            prev: 0,
            key,
            value: &[],
        };
        let mut push = |record: &NewRecord<'_>| committer.log.push(&self.slab, &mut segments, record);
        let (flags, value) = if version.is_chunked() {
            let (len, offsets) = contents.chunks().ok_or_else(|| damaged(version.offset))?;
            let mut copies = Vec::with_capacity(offsets.len());
            for offset in offsets {
                let chunk = RecordRef::load(medium, offset).ok_or_else(|| damaged(offset))?;
                let chunk = chunk.contents(medium).ok_or_else(|| damaged(offset))?;
                copies.push(push(&NewRecord {
                    flags: RECORD_CHUNK | version.first_flag(),
                    value: &copied(chunk.value()),
                    ..base
                })?);
            }
            (RECORD_CHUNKED, chunk_list(len, &copies))
        } else {
            let deleted = RECORD_DELETED * u16::from(version.is_deleted());
            (deleted, copied(contents.value()).into_owned())
        };
        Ok(push(&NewRecord {
            flags: flags | version.first_flag(),
            expires: contents.expires(),
            prev: version.head.prev.get(),
            value: &value,
            ..base
        })?)
    }
}

/// Returns the value of a copy.
fn copied(value: &[u8]) -> Cow<'_, [u8]> {
    match value {
        [values @ .., last] if injected(StoreFault::ChangeCopied) => [values, &[last ^ 1]].concat().into(),
        value => value.into(),
    }
}
