//! The state that all handles of the stores of a pool share.
//!
//! Locks are taken in this order: deleting, maintenance, unsettled keys, flushing, committer, snapshots,
//! trees of a store, segments. A reader holds the trees of its store while it reads records, so that no
//! segment is used again before it is done: a checkpoint takes all trees for writing before it frees
//! anything.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use halocline_media::Medium;
use halocline_pool::Slab;

use crate::commit::PendingCommit;
use crate::committer::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::give_back::Surplus;
use crate::hiding_range::HidingRange;
use crate::layout::CHUNK;
use crate::leaf::EntrySlot;
use crate::memtable::{MemEntry, MemTable};
use crate::observer::Observer;
use crate::options::{MergeOperator, StoresOptions};
use crate::pace::CommitPace;
use crate::page_source::PageSource;
use crate::pointers::Unlink;
use crate::recent::RecentWrites;
use crate::record::{RecordContents, RecordRef, parse_chunk_list, record_len};
use crate::record_arena::RecordArena;
use crate::segments::Segments;
use crate::settle::UnsettledKey;
use crate::snapshots::Snapshots;
use crate::tree::{Damage, Tree};
use crate::turns::KeeperTurns;

/// Number of versions after which a walk to older ones looks for a change of the epoch.
const STEPS: u32 = 1 << 10;

/// Distinguishes the openings of stores within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opening(u64);

impl Opening {
    /// Returns one that differs from all before.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The shared state of all stores of a pool.
pub(crate) struct StoresState {
    pub(crate) opening: Opening,
    pub(crate) slab: Slab,
    pub(crate) options: StoresOptions,
    committer: Mutex<Committer>,
    /// Commits that wait for the committer.
    pub(crate) queue: Mutex<Vec<Arc<PendingCommit>>>,
    segments: Mutex<Segments>,
    snapshots: Mutex<Snapshots>,
    /// Writes that are committed while transactions are validated.
    pub(crate) recent: Arc<RecentWrites>,
    /// The newest commit that is durable and in the trees; of a reader beside the writer, the one it sees.
    pub(crate) visible: AtomicU64,
    /// The newest commit at the opening.
    pub(crate) first_commit: u64,
    /// The newest commit of the newest checkpoint, finished or not.
    pub(crate) frozen: AtomicU64,
    /// Versions to unlink when the next checkpoint is there.
    unlinks: Mutex<Vec<Unlink>>,
    /// Set if the stores are open for reading, beside a writer or without one.
    pub(crate) observer: Option<Observer>,
    stores: RwLock<BTreeMap<String, Arc<StoreState>>>,
    /// Keys that the opening has left to be settled.
    pub(crate) unsettled: Mutex<Vec<UnsettledKey>>,
    /// True if there are none.
    pub(crate) is_settled: AtomicBool,
    /// Wakes the keeper.
    pub(crate) work: Condvar,
    /// Wakes those that wait for the keeper.
    pub(crate) progress: Condvar,
    pub(crate) turns: KeeperTurns,
    pub(crate) stopping: AtomicBool,
    /// True as soon as a thread maintains the stores: not yet while an opening ends a commit.
    pub(crate) has_keeper: AtomicBool,
    /// True while the keeper empties segments, so that there will be more space.
    pub(crate) reclaiming: AtomicBool,
    /// The bytes that commits may append while there should be more space.
    pub(crate) pace: CommitPace,
    /// True if the keeper's last attempt has failed, so that nobody may wait for it.
    pub(crate) failing: AtomicBool,
    /// True if the slab could not grow because the disk is full.
    pub(crate) pressed: AtomicBool,
    /// True while another writer of the pool does not let the slab grow.
    pub(crate) beside_writer: AtomicBool,
    /// The newest commit when segments were last emptied for values without room.
    pub(crate) gained: AtomicU64,
    /// State of the return of unused space.
    pub(crate) surplus: Surplus,
    /// Number of finished checkpoints.
    pub(crate) checkpoints: AtomicU64,
    /// Held while frames of the log become durable without the committer.
    pub(crate) flushing: Mutex<()>,
    /// Held while the keys of deleted ranges are deleted.
    pub(crate) deleting: Mutex<()>,
    /// Held during a checkpoint or while segments are emptied.
    pub(crate) maintenance: Mutex<()>,
    /// The reason why nothing can be written any more.
    poisoned: Mutex<Option<String>>,
}

/// A store.
pub(crate) struct StoreState {
    /// The opening of the stores that this is one of.
    opening: Opening,
    pub(crate) id: u32,
    pub(crate) name: String,
    trees: RwLock<StoreTrees>,
    /// Number of keys with a value, expired or not.
    pub(crate) keys: AtomicU64,
    /// Bytes of their keys and values.
    pub(crate) bytes: AtomicU64,
    pub(crate) dropped: AtomicBool,
    /// True if another store has taken its place: nothing can be committed to it any more.
    pub(crate) retired: AtomicBool,
    /// The first commit that sees its pairs, of one that was loaded and took the place of another one.
    pub(crate) since: AtomicU64,
    /// True once a checkpoint names the store: before, its records would not be found after a crash.
    pub(crate) durable: AtomicBool,
    pub(crate) merge: Mutex<Option<MergeOperator>>,
}

/// The entries of a store: those of `active` are newer than those of `frozen`, and these than the tree's.
#[derive(Debug, Default)]
pub(crate) struct StoreTrees {
    pub(crate) active: MemTable,
    /// Entries that a checkpoint in progress merges into the tree.
    pub(crate) frozen: Option<Arc<MemTable>>,
    pub(crate) tree: Tree,
    /// Deleted ranges that still hide keys.
    pub(crate) deleted: Vec<HidingRange>,
}

/// The newest record of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Located {
    pub(crate) record: RecordRef,
    /// The place of its offset in a leaf, unless a memtable has the key.
    pub(crate) slot: Option<EntrySlot>,
}

impl StoreState {
    pub(crate) fn new(opening: Opening, id: u32, name: &str, tree: Tree, keys: u64, bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            opening,
            id,
            name: name.to_owned(),
            trees: RwLock::new(StoreTrees {
                tree,
                ..StoreTrees::default()
            }),
            keys: AtomicU64::new(keys),
            bytes: AtomicU64::new(bytes),
            dropped: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            since: AtomicU64::new(0),
            durable: AtomicBool::new(false),
            merge: Mutex::new(None),
        })
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, StoreTrees> {
        self.trees.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, StoreTrees> {
        self.trees.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a snapshot of a commit sees pairs of the store.
    #[inline]
    pub(crate) fn is_seen_at(&self, commit: u64) -> bool {
        self.since.load(Ordering::Acquire) <= commit || injected(StoreFault::SeeReplacements)
    }

    /// Fails if nothing can be committed to the store.
    pub(crate) fn takes_commits(&self, stores: &StoresState) -> Result<()> {
        self.is_one_of(stores)?;
        if self.retired.load(Ordering::Acquire) {
            Err(StoreError::Dropped {
                name: self.name.clone(),
            })
        } else {
            Ok(())
        }
    }

    /// Fails if the store was dropped, or is one of another pool.
    pub(crate) fn is_one_of(&self, stores: &StoresState) -> Result<()> {
        if self.opening != stores.opening {
            return Err(StoreError::Foreign {
                store: self.name.clone(),
            });
        }
        if self.dropped.load(Ordering::Acquire) {
            Err(StoreError::Dropped {
                name: self.name.clone(),
            })
        } else {
            Ok(())
        }
    }
}

impl StoreTrees {
    /// Finds the newest record of a key.
    #[inline]
    pub(crate) fn locate(&self, pages: &PageSource<'_>, key: &[u8]) -> Result<Option<Located>, Damage> {
        let in_memory = self.active.get(key).or_else(|| self.frozen.as_ref()?.get(key));
        match in_memory {
            Some(MemEntry::Purged) => Ok(None),
            Some(MemEntry::Record(offset)) => {
                let record = RecordRef::load(pages.medium(), offset).ok_or(Damage::record(offset))?;
                Ok(Some(Located { record, slot: None }))
            }
            None => {
                let found = self.tree.find(pages, key)?;
                Ok(found.map(|(slot, record)| Located {
                    record,
                    slot: Some(slot),
                }))
            }
        }
    }
}

impl StoreTrees {
    /// Returns a record with the place of its entry if it is the newest of a key. Reads no other record.
    pub(crate) fn locate_newest(
        &self,
        pages: &PageSource<'_>,
        key: &[u8],
        record: &RecordRef,
    ) -> Result<Option<Located>, Damage> {
        let record = *record;
        let in_memory = self.active.get(key).or_else(|| self.frozen.as_ref()?.get(key));
        Ok(match in_memory {
            Some(MemEntry::Record(offset)) if offset == record.offset => Some(Located { record, slot: None }),
            Some(_) => None,
            None => {
                let slot = self.tree.entry_of(pages, key, record.offset)?;
                slot.map(|slot| Located {
                    record,
                    slot: Some(slot),
                })
            }
        })
    }
}

impl StoresState {
    pub(crate) fn new(
        opening: Opening,
        slab: Slab,
        options: StoresOptions,
        committer: Committer,
        segments: Segments,
        stores: BTreeMap<String, Arc<StoreState>>,
        visible: u64,
    ) -> Self {
        let mut snapshots = Snapshots::default();
        snapshots.note_time(visible, (options.clock)());
        Self {
            opening,
            slab,
            options,
            committer: Mutex::new(committer),
            queue: Mutex::default(),
            flushing: Mutex::default(),
            segments: Mutex::new(segments),
            snapshots: Mutex::new(snapshots),
            recent: Arc::default(),
            visible: AtomicU64::new(visible),
            first_commit: visible,
            frozen: AtomicU64::new(visible),
            unlinks: Mutex::default(),
            observer: None,
            stores: RwLock::new(stores),
            unsettled: Mutex::default(),
            is_settled: AtomicBool::new(true),
            work: Condvar::new(),
            progress: Condvar::new(),
            turns: KeeperTurns::default(),
            stopping: AtomicBool::new(false),
            has_keeper: AtomicBool::new(false),
            reclaiming: AtomicBool::new(false),
            pace: CommitPace::default(),
            failing: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            beside_writer: AtomicBool::new(false),
            gained: AtomicU64::new(u64::MAX),
            surplus: Surplus::default(),
            checkpoints: AtomicU64::new(0),
            deleting: Mutex::new(()),
            maintenance: Mutex::new(()),
            poisoned: Mutex::new(None),
        }
    }

    #[inline]
    pub(crate) fn medium(&self) -> &Medium {
        self.slab.medium()
    }

    /// Returns what the trees are read from.
    #[inline]
    pub(crate) fn pages(&self) -> PageSource<'_> {
        if self.slab.is_read_only() {
            let checkpoint = self.frozen.load(Ordering::Acquire);
            PageSource::of_reader(&self.slab, &self.segments, checkpoint)
        } else {
            PageSource::of_writer(&self.slab, &self.segments)
        }
    }

    pub(crate) fn committer(&self) -> MutexGuard<'_, Committer> {
        self.committer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unlinks(&self) -> MutexGuard<'_, Vec<Unlink>> {
        self.unlinks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn segments_lock(&self) -> &Mutex<Segments> {
        &self.segments
    }

    pub(crate) fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stores(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<StoreState>>> {
        self.stores.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stores_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<StoreState>>> {
        self.stores.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the store of a number.
    pub(crate) fn store_of(&self, id: u32) -> Option<Arc<StoreState>> {
        self.stores().values().find(|store| store.id == id).cloned()
    }

    /// Returns the error for damage.
    pub(crate) fn damaged(&self, damage: Damage) -> StoreError {
        StoreError::Damaged {
            path: self.slab.pool().path().to_path_buf(),
            offset: damage.offset,
            what: damage.what,
        }
    }

    /// Fails if the stores are open for reading only, or if an earlier write failed.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.observer.is_some() {
            return Err(StoreError::ReadOnly {
                path: self.slab.pool().path().to_path_buf(),
            });
        }
        let poisoned = self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        match &*poisoned {
            Some(reason) => Err(StoreError::Poisoned {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Lets all later writes fail.
    pub(crate) fn poison(&self, reason: &impl ToString) {
        let mut poisoned = self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        poisoned.get_or_insert_with(|| reason.to_string());
    }

    /// Returns the time in ms since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.options.clock)()
    }

    /// Returns the newest version of a record's key that a snapshot of a commit sees, walking back from the
    /// newest record.
    pub(crate) fn version_at(&self, newest: RecordRef, commit: u64) -> Result<Option<RecordRef>, Damage> {
        let mut record = newest;
        let mut steps = 0_u32;
        while record.commit() > commit {
            steps = steps.wrapping_add(1);
            let prev = record.head.prev.get();
            if prev == 0 {
                return Ok(None);
            }
            let older = RecordRef::load(self.medium(), prev).ok_or(Damage::record(prev))?;
            // What is read beside the writer may not be there any more, and lead anywhere: in a circle, too,
            // as versions of one batch have the same commit.
            let is_lost = steps.is_multiple_of(STEPS) && self.has_moved_on();
            if older.commit() > record.commit() || is_lost {
                return Err(Damage::record(prev));
            }
            record = older;
        }
        Ok(Some(record))
    }

    /// Returns the verified contents of a version, or `None` if it is a deletion or has expired.
    pub(crate) fn contents(&self, record: &RecordRef) -> Result<Option<RecordContents>, Damage> {
        let contents = record.contents(self.medium());
        let contents = contents.ok_or_else(|| Damage::record(record.offset))?;
        Ok(self.unless_over(record, contents))
    }

    /// Returns the contents of a version unless it is a deletion or has expired.
    pub(crate) fn unless_over(&self, record: &RecordRef, contents: RecordContents) -> Option<RecordContents> {
        (!self.has_no_value(record, contents.expires())).then_some(contents)
    }

    /// Returns true if a version with this time of expiry is a deletion or has expired.
    #[inline]
    pub(crate) fn has_no_value(&self, record: &RecordRef, expires: Option<u64>) -> bool {
        let has_expired = |expires: u64| expires <= self.now() && !injected(StoreFault::IgnoreExpiry);
        record.is_deleted() || expires.is_some_and(has_expired)
    }

    /// Returns the value of a version.
    pub(crate) fn value(&self, record: &RecordRef, contents: RecordContents) -> Result<Vec<u8>, Damage> {
        if !record.is_chunked() {
            return Ok(contents.into_value());
        }
        let mut value = RecordArena::default();
        self.load_chunks(record, contents.key(), contents.value(), &mut value)?;
        Ok(value.into_bytes())
    }

    /// Loads the value of a chunked version with this key and list of chunks to the end of an arena. Returns
    /// its place.
    pub(crate) fn load_chunks(
        &self,
        record: &RecordRef,
        key: &[u8],
        list: &[u8],
        arena: &mut RecordArena,
    ) -> Result<Range<usize>, Damage> {
        let (len, offsets) = parse_chunk_list(list).ok_or(Damage::record(record.offset))?;
        let start = arena.used();
        // The last chunk is loaded with what is before its value.
        arena.reserve(start + len + record_len(true, key.len(), 0) as usize);
        for offset in offsets {
            let chunk = RecordRef::load(self.medium(), offset).filter(RecordRef::is_chunk);
            let chunk = chunk.ok_or(Damage::record(offset))?;
            let end = arena.used();
            let span = arena.load(self.medium(), &chunk).ok_or(Damage::record(offset))?;
            let is_of_version =
                chunk.commit() == record.commit() && chunk.head.store.get() == record.head.store.get();
            if !is_of_version || arena.get(&span.key) != key {
                return Err(Damage::record(offset));
            }
            arena.keep_last(end, &span.value);
        }
        let value = start..arena.used();
        if value.len() == len {
            Ok(value)
        } else {
            Err(Damage::record(record.offset))
        }
    }

    /// Returns the length of the value of a record, and the offsets of its chunks with their lengths.
    pub(crate) fn extent_of(&self, record: &RecordRef) -> Result<(u64, Vec<u64>), Damage> {
        if !record.is_chunked() {
            return Ok((record.value_len() as u64, Vec::new()));
        }
        let contents = record
            .contents(self.medium())
            .ok_or(Damage::record(record.offset))?;
        let (len, offsets) = contents.chunks().ok_or(Damage::record(record.offset))?;
        Ok((len as u64, offsets))
    }

    /// Counts a version and its chunks as not needed any more.
    pub(crate) fn forget(&self, record: &RecordRef) -> Result<(), Damage> {
        let expires = record.expires(self.medium()).unwrap_or(0);
        if !record.is_chunked() {
            self.segments().remove_live(record.offset, record.len(), expires);
            return Ok(());
        }
        let (_, chunks) = self.extent_of(record)?;
        let mut segments = self.segments();
        segments.remove_live(record.offset, record.len(), expires);
        for offset in chunks {
            let chunk = RecordRef::load(self.medium(), offset).ok_or(Damage::record(offset))?;
            segments.remove_live(offset, chunk.len(), expires);
        }
        Ok(())
    }

    /// Counts a version and its chunks as needed by snapshots only, or no longer.
    pub(crate) fn count_kept(&self, record: &RecordRef, is_kept: bool) -> Result<(), Damage> {
        let (_, chunks) = self.extent_of(record)?;
        let mut segments = self.segments();
        segments.count_kept(record.offset, record.len(), is_kept);
        for offset in chunks {
            let chunk = RecordRef::load(self.medium(), offset).ok_or(Damage::record(offset))?;
            segments.count_kept(offset, chunk.len(), is_kept);
        }
        Ok(())
    }

    /// Counts a version that snapshots needed, and its chunks, as not needed any more.
    pub(crate) fn forget_kept(&self, offset: u64) {
        // A damaged record is found by whoever reads it; here it only stays counted.
        if let Some(record) = RecordRef::load(self.medium(), offset) {
            let _ = self
                .count_kept(&record, false)
                .and_then(|()| self.forget(&record));
        }
    }

    /// Counts a version and its chunks as needed.
    pub(crate) fn remember(&self, record: &RecordRef) -> Result<(), Damage> {
        self.remember_until(record, record.expires(self.medium()).unwrap_or(0))
    }

    /// Counts a version and its chunks as needed until a time in ms since 1970, or 0.
    pub(crate) fn remember_until(&self, record: &RecordRef, expires: u64) -> Result<(), Damage> {
        let (_, chunks) = self.extent_of(record)?;
        let store = record.head.store.get();
        let mut segments = self.segments();
        segments.add_live(store, record.offset, record.len(), expires);
        for offset in chunks {
            let chunk = RecordRef::load(self.medium(), offset).ok_or(Damage::record(offset))?;
            segments.add_live(store, offset, chunk.len(), expires);
        }
        Ok(())
    }
}

/// Returns the chunks of a value that is stored in chunks.
pub(crate) fn chunks_of(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.chunks(CHUNK)
}
