//! Emptying of log segments, whose space is used again.
//!
//! The records of a segment that are still needed are appended to the log, and their pointers changed once
//! they are durable there. The segment is free after the next checkpoint.
//!
//! Emptying comes to an end, whatever the lengths of records: a segment is emptied only if that gains a tenth
//! of it at least. The copies leave next to nothing unused except at the ends of their segments, where no
//! record fits, and what no record could fill does not count as gain.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::commit::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::layout::{RECORD_CHUNK, RECORD_CHUNKED, RECORD_DELETED, SEGMENT};
use crate::log::{records_of, tail_of};
use crate::memtable::MemEntry;
use crate::record::{NewRecord, RecordRef, chunk_list};
use crate::snapshots::{KeptVersion, Snapshots};
use crate::state::{Located, StoreState, StoresState};
use crate::tree::Damage;

/// Records that are moved with one fence.
const MOVED_AT_ONCE: usize = 64;

/// Segments whose ends are measured in a search for the one to empty, at most.
const MEASURED_AT_ONCE: usize = 256;

/// Time in ms after which a segment is emptied again that has expired records which a snapshot needed.
const EXPIRED_AGAIN: u64 = 60_000;

/// Where the pointer to a record is.
enum Pointer {
    /// In the entry of the key.
    Entry(Located),
    /// In a newer version.
    Version(RecordRef),
}

/// A version that leads nowhere needed, and that a newer one leads to until the next checkpoint.
pub(crate) struct Unlink {
    store: Arc<StoreState>,
    key: Vec<u8>,
    version: RecordRef,
}

/// A version that was copied.
struct Moved {
    store: Arc<StoreState>,
    key: Vec<u8>,
    version: RecordRef,
    pointer: Pointer,
    /// Offset of the copy.
    copy: u64,
}

impl StoresState {
    /// Empties segments until the garbage in the log is within its limit, or until a checkpoint should free
    /// those that were emptied. Returns true if there are such.
    ///
    /// # Errors
    /// Damage, a full disk, and errors of the medium.
    pub(crate) fn collect_garbage(&self) -> Result<bool> {
        let (mut any, mut moved) = (false, 0);
        let written = || self.committer().log.written();
        let most = written() + self.pending_bytes();
        while moved < self.options.pending_records
            && written() < most
            && let Some(segment) = self.candidate()
        {
            moved += self.empty_segment(segment)?;
            any = true;
        }
        Ok(any)
    }

    /// Returns the segment to empty next.
    fn candidate(&self) -> Option<u64> {
        for _ in 0..MEASURED_AT_ONCE {
            let segment = self.emptiest()?;
            if self.segments().is_measured(segment) {
                return Some(segment);
            }
            let tail = tail_of(self.medium(), segment);
            self.segments().set_tail(segment, tail);
        }
        None
    }

    /// Returns the segment with the least occupied bytes, as far as they are known, or one whose records have
    /// expired; `None` if none has to be emptied.
    fn emptiest(&self) -> Option<u64> {
        // Locked until the segment is chosen: nothing counts as needed in the segments that a commit in
        // progress fills, but they must not be emptied. Later commits do not change any but the
        // current one.
        let committer = self.committer();
        let current = committer.log.position().segment;
        let segments = self.segments();
        if let Some(expired) = segments.by_use().expired(self.now(), current) {
            return Some(expired);
        }
        let (all, live) = segments.log_bytes();
        let all = all.saturating_sub(segments.emptied_bytes() + segments.tail_bytes());
        let garbage = all.saturating_sub(live + SEGMENT);
        let is_full = garbage * 100 > all * u64::from(self.options.garbage_percent);
        let emptiest = segments.by_use().emptiest(current)?;
        let occupied = segments.occupied_bytes(emptiest);
        (occupied == 0 || is_full && occupied < SEGMENT * 9 / 10).then_some(emptiest)
    }

    /// Moves what is needed of a segment, which becomes free with the next checkpoint. Returns the number of
    /// records that were moved.
    fn empty_segment(&self, segment: u64) -> Result<usize> {
        let damaged = |offset: u64| self.damaged(Damage::record(offset));
        let used = self.segments().get(segment).map_or(0, |segment| segment.used);
        let (records, is_whole) = match records_of(self.medium(), segment) {
            // Nothing of it counts: a commit that failed may have left anything.
            Err(_) if used == 0 => (Vec::new(), true),
            found => found.map_err(damaged)?,
        };
        if !is_whole && used != 0 {
            return Err(damaged(segment));
        }
        let mut moved = 0;
        for records in records.chunks(MOVED_AT_ONCE) {
            let mut committer = self.committer();
            self.writable()?;
            moved += self.empty_records(&mut committer, records)?;
        }
        let mut committer = self.committer();
        committer.freed.segments.push(segment);
        self.segments().set_emptied(segment);
        Ok(moved)
    }

    /// Moves those records that are needed, with one fence. Returns their number.
    fn empty_records(&self, committer: &mut Committer, records: &[RecordRef]) -> Result<usize> {
        let mut snapshots = self.snapshots();
        self.look_for_readers(committer, &mut snapshots);
        let damaged = |damage: Damage| self.damaged(damage);
        let (mark, written) = (committer.log.mark(), committer.log.written());
        let commit = committer.commit;
        // All copies share a frame, as far as they fit.
        committer.log.begin(commit, true);
        let mut moved: Vec<Moved> = Vec::new();
        let mut of_before: Option<Arc<StoreState>> = None;
        for record in records {
            let id = record.head.store.get();
            of_before = of_before
                .filter(|store| store.id == id)
                .or_else(|| self.store_of(id));
            let Some(store) = of_before.clone() else {
                continue;
            };
            let key = record.key(self.medium());
            let pointer = self
                .pointer_of(&snapshots, &store, &key, record)
                .map_err(damaged)?;
            let Some((pointer, version)) = pointer else {
                continue;
            };
            if matches!(&pointer, Pointer::Entry(_)) && self.is_over(&snapshots, &version) {
                self.purge_key(committer, &store, &key, &version)
                    .map_err(damaged)?;
            } else if !moved.iter().any(|other| other.version.offset == version.offset) {
                match self.copy(committer, &store, &key, &version) {
                    Ok(copy) => moved.push(Moved {
                        store,
                        key,
                        version,
                        pointer,
                        copy,
                    }),
                    Err(error) => {
                        committer.log.take_back(mark);
                        return Err(error);
                    }
                }
            }
        }
        let count = moved.len();
        if count == 0 {
            return Ok(0);
        }
        committer.log.end(self.medium());
        committer.pending_bytes += committer.log.written() - written;
        if !injected(StoreFault::MoveUnfenced) {
            let fenced = self.medium().fence();
            if let Err(error) = &fenced {
                self.poison(error);
            }
            fenced?;
            committer.log.set_fenced();
        }
        let has_versions = snapshots.oldest().is_some();
        for record in moved {
            let Moved {
                store,
                key,
                version,
                mut pointer,
                copy,
            } = record;
            let new = RecordRef::load(self.medium(), copy);
            let new = new.ok_or_else(|| damaged(Damage::record(copy)))?;
            // Otherwise the segment of the copy would be emptied at once, for as long as the snapshot is
            // there.
            let expires = match new.expires(self.medium()) {
                Some(expires) if expires <= self.now() && !injected(StoreFault::ExpireCopies) => {
                    self.now() + EXPIRED_AGAIN
                }
                expires => expires.unwrap_or(0),
            };
            self.remember_until(&new, expires).map_err(damaged)?;
            if has_versions {
                // Another version of the key may have been moved right before.
                let old = RecordRef::load(self.medium(), version.offset);
                let old = old.ok_or_else(|| damaged(Damage::record(version.offset)))?;
                new.set_prev(self.medium(), old.head.prev.get());
                let found = self
                    .pointer_of(&snapshots, &store, &key, &version)
                    .map_err(damaged)?;
                let Some((found, _)) = found else {
                    return Err(damaged(Damage::record(version.offset)));
                };
                pointer = found;
            }
            let is_kept = snapshots.moved(version.offset, copy);
            match pointer {
                Pointer::Entry(located) => {
                    let mut trees = store.write();
                    committer.point(&mut trees, self.medium(), &key, located.slot, copy);
                }
                Pointer::Version(newer) => {
                    if !is_kept {
                        // The reader that sees it had not been noticed when it was superseded.
                        snapshots.keep(KeptVersion {
                            record: copy,
                            commit: version.commit(),
                            until: newer.commit(),
                        });
                    }
                    let _no_readers = store.write();
                    newer.set_prev(self.medium(), copy);
                }
            }
            self.forget(&version).map_err(damaged)?;
        }
        Ok(count)
    }

    /// Removes a key whose newest version is a deletion or has expired.
    fn purge_key(
        &self,
        committer: &mut Committer,
        store: &StoreState,
        key: &[u8],
        version: &RecordRef,
    ) -> Result<(), Damage> {
        let mut trees = store.write();
        trees.active.set(key, MemEntry::Purged);
        drop(trees);
        committer.pending_records += 1;
        if !version.is_deleted() {
            self.uncount(store, version)?;
        }
        self.forget(version)
    }

    /// Finds what points to a record, or to the record whose chunk it is. `None` if nothing does that is
    /// still needed.
    fn pointer_of(
        &self,
        snapshots: &Snapshots,
        store: &Arc<StoreState>,
        key: &[u8],
        record: &RecordRef,
    ) -> Result<Option<(Pointer, RecordRef)>, Damage> {
        let medium = self.medium();
        if !record.is_chunk() {
            let newest = store.read().locate_newest(medium, key, record)?;
            match newest {
                Some(located) => return Ok(Some((Pointer::Entry(located), *record))),
                None if snapshots.oldest().is_none() => return Ok(None),
                None => {}
            }
        }
        let Some(located) = store.read().locate(medium, key)? else {
            return Ok(None);
        };
        let is_it = |version: &RecordRef| -> Result<bool, Damage> {
            if !record.is_chunk() {
                return Ok(version.offset == record.offset);
            }
            Ok(version.commit() == record.commit()
                && !injected(StoreFault::DropChunks)
                && self.extent_of(version)?.1.contains(&record.offset))
        };
        let mut version = located.record;
        if is_it(&version)? {
            return Ok(Some((Pointer::Entry(located), version)));
        }
        // Versions before are needed only by snapshots, and by readers beside the writer.
        while snapshots.oldest().is_some_and(|oldest| oldest < version.commit())
            && version.head.prev.get() != 0
        {
            let prev = version.head.prev.get();
            let older = RecordRef::load(medium, prev).ok_or(Damage::record(prev))?;
            let is_seen = snapshots.sees(older.commit(), version.commit());
            if is_it(&older)? {
                if is_seen && !injected(StoreFault::IgnoreSnapshots) {
                    return Ok(Some((Pointer::Version(version), older)));
                }
                let frozen = self.frozen.load(Ordering::Acquire);
                if older.commit() <= frozen && frozen < version.commit() {
                    // Replay counts it. It is there until the next checkpoint.
                    self.unlinks().push(Unlink {
                        store: Arc::clone(store),
                        key: key.to_vec(),
                        version: older,
                    });
                } else {
                    let _readers = store.write();
                    version.set_prev(medium, older.head.prev.get());
                }
                return Ok(None);
            }
            version = older;
        }
        Ok(None)
    }

    /// Unlinks versions that no snapshot sees, before their space is used again.
    pub(crate) fn unlink(&self, unlinks: Vec<Unlink>) -> Result<(), Damage> {
        let medium = self.medium();
        for Unlink { store, key, version } in unlinks {
            let trees = store.write();
            let mut newer = trees.locate(medium, &key)?.map(|located| located.record);
            while let Some(record) = newer.filter(|record| record.commit() > version.commit()) {
                let prev = record.head.prev.get();
                if prev == version.offset {
                    let version = RecordRef::load(medium, prev).ok_or(Damage::record(prev))?;
                    record.set_prev(medium, version.head.prev.get());
                }
                newer = RecordRef::load(medium, prev).filter(|_| prev != 0 && prev != version.offset);
            }
        }
        Ok(())
    }

    /// Returns true if the newest version of a key is a deletion or has expired, and no snapshot needs it.
    fn is_over(&self, snapshots: &Snapshots, newest: &RecordRef) -> bool {
        let is_old = snapshots.oldest().is_none_or(|oldest| oldest >= newest.commit());
        let has_expired = newest
            .expires(self.medium())
            .is_some_and(|expires| expires <= self.now());
        is_old && (newest.is_deleted() || has_expired)
    }

    /// Removes a key from the number of keys of its store.
    fn uncount(&self, store: &StoreState, version: &RecordRef) -> Result<(), Damage> {
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
                    flags: RECORD_CHUNK,
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
            flags,
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
