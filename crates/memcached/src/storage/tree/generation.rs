//! The items of a generation: a tree that leads from the hash of a key to the record of its item.
//!
//! Keys with the same hash are linked, newest first.
//!
//! Invariants: the lock of its stripe is held for following the link of a hash, and alone for
//! [changing](super::change) it and for freeing a record that it links. Nodes are allocated without it,
//! because the walk over the nodes in use takes it.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use halocline_ordered::OrderedIndex;

use super::record::{ItemRecordHead, RecordSize};
use super::shared::{LinkSteps, SharedRecords};
use super::{ItemChange, ItemGeneration, ScannedItem, StoredItem};
use crate::error::Result;

/// Entries of the tree that are read at a time.
pub(super) const SCAN_ENTRIES: usize = 256;

/// Time for which a single change trusts that the path still led to the file. Changes that arrive together
/// always look.
const PLACE_TRUSTED: Duration = Duration::from_millis(50);

// docs/operations.md promises 100 ms, and the clock may be a tick late.
const _: () = assert!(PLACE_TRUSTED.as_millis() <= 90);

/// A generation of items.
pub(crate) struct TreeGeneration {
    pub(super) shared: Arc<SharedRecords>,
    /// Name of the tree.
    pub(super) name: String,
    pub(super) tree: Box<dyn OrderedIndex>,
    /// Items and bytes of keys and values: those that were stored or found since the start.
    items: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of their nodes.
    footprint: AtomicU64,
    /// A flush has replaced it, and its records are being freed.
    retired: AtomicBool,
    /// An item with a time of expiry may be there.
    pub(super) may_expire: AtomicBool,
}

/// The offset of a damaged record, and its damage.
pub(super) type DamagedRecord = (u64, &'static str);

/// The place of a key in the list of its hash.
pub(super) struct RecordPlace {
    /// The first record with this hash.
    pub(super) head: Option<u64>,
    /// The record before that of the key.
    pub(super) before: Option<u64>,
    pub(super) found: Option<ItemRecordHead>,
}

impl TreeGeneration {
    pub(super) fn new(
        shared: &Arc<SharedRecords>,
        name: String,
        tree: Box<dyn OrderedIndex>,
    ) -> TreeGeneration {
        TreeGeneration {
            shared: Arc::clone(shared),
            name,
            tree,
            items: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            footprint: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            may_expire: AtomicBool::new(false),
        }
    }

    /// Declares that nobody but scans uses the generation any more.
    pub(super) fn retire(&self) {
        self.retired.store(true, Release);
    }

    /// Counts an item that is there, with the bytes of its key and value.
    pub(super) fn count(&self, bytes: u64, size: RecordSize, expires: Option<u64>) {
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.footprint.fetch_add(size.bytes(), Relaxed);
        if expires.is_some() {
            self.may_expire.store(true, Relaxed);
        }
    }

    /// Takes back the count of an item.
    pub(super) fn discount(&self, record: &ItemRecordHead) {
        self.items.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(record.bytes(), Relaxed);
        self.footprint.fetch_sub(record.size().bytes(), Relaxed);
    }

    /// Finds the place of a key. The caller holds the lock of its stripe.
    ///
    /// # Errors
    /// An error of the tree. The inner error is a damaged record on the way, by its offset and its damage.
    pub(super) fn find(
        &self,
        hash: u64,
        key: &[u8],
    ) -> Result<std::result::Result<RecordPlace, DamagedRecord>> {
        let head = self.tree.get(hash)?;
        let mut place = RecordPlace {
            head,
            before: None,
            found: None,
        };
        let (mut steps, mut next) = (LinkSteps::default(), head);
        while let Some(offset) = next {
            let record = match self.shared.head(&mut steps, hash, offset) {
                Ok(record) => record,
                Err(reason) => return Ok(Err((offset, reason))),
            };
            if record.key == key {
                place.found = Some(record);
                break;
            }
            place.before = Some(offset);
            next = record.next;
        }
        Ok(Ok(place))
    }
}

impl ItemGeneration for TreeGeneration {
    fn get(&self, key: &[u8]) -> Result<Option<StoredItem>> {
        let hash = (self.shared.hash)(key);
        let _lock = self.shared.read(hash);
        let damaged = |(offset, reason)| self.shared.damaged(offset, reason);
        let Some(record) = self.find(hash, key)?.map_err(damaged)?.found else {
            return Ok(None);
        };
        let item = record.load(self.shared.slabs.medium());
        item.map(Some)
            .map_err(|reason| self.shared.damaged(record.offset, reason))
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        let hash = (self.shared.hash)(key);
        let _lock = self.shared.read(hash);
        let damaged = |(offset, reason)| self.shared.damaged(offset, reason);
        Ok(self.find(hash, key)?.map_err(damaged)?.found.is_some())
    }

    fn write(&self, changes: &[ItemChange<'_>]) -> Result<()> {
        self.write_in_order(changes).1
    }

    fn write_in_order(&self, changes: &[ItemChange<'_>]) -> (usize, Result<()>) {
        let trusted = match changes.len() {
            0 | 1 => PLACE_TRUSTED,
            _ => Duration::ZERO,
        };
        if let Err(gone) = self.shared.pool.check_place(trusted) {
            return (0, Err(gone.into()));
        }
        let mut made = 0;
        while made < changes.len() {
            let (more, result) = self.write_group(&changes[made..]);
            made += more;
            if result.is_err() {
                return (made, result);
            }
        }
        (made, Ok(()))
    }

    fn scan(&self, visit: &mut dyn FnMut(ScannedItem<'_>) -> Result<bool>) -> Result<()> {
        let mut from = Some(0);
        while let Some(first) = from {
            let mut entries = Vec::new();
            self.tree.scan(first, SCAN_ENTRIES, &mut entries)?;
            from = entries.last().and_then(|(hash, _)| hash.checked_add(1));
            for (hash, _) in entries {
                for record in self.records(hash)? {
                    let item = ScannedItem {
                        key: &record.key,
                        value_bytes: record.value_len,
                        expires: record.expires,
                    };
                    if !visit(item)? {
                        return Ok(());
                    }
                }
                if self.retired.load(Acquire) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.items.load(Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn footprint(&self) -> u64 {
        self.footprint.load(Relaxed)
    }
}

impl TreeGeneration {
    /// Returns the records of a hash; empty if the generation is retired or one of them is damaged.
    fn records(&self, hash: u64) -> Result<Vec<ItemRecordHead>> {
        let _lock = self.shared.read(hash);
        let mut records = Vec::new();
        if self.retired.load(Acquire) {
            return Ok(records);
        }
        let (mut steps, mut next) = (LinkSteps::default(), self.tree.get(hash)?);
        while let Some(record) = next.and_then(|offset| self.shared.head(&mut steps, hash, offset).ok()) {
            next = record.next;
            records.push(record);
        }
        Ok(records)
    }
}
