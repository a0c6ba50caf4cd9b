//! Storages of the items: [`ItemStorage`], with the items between two flushes as an [`ItemGeneration`].
//!
//! The commands are the same over every storage. This crate has two, the [key-value store](store) and
//! [trees](tree); programs can bring others with [`Server::with_storage`](crate::Server::with_storage).

mod open;
mod store;
mod tree;

use std::fmt;
use std::sync::Arc;

use crate::error::MemcachedError;
use crate::item;

pub(crate) use open::open;
#[cfg(any(test, fuzzing))]
pub(crate) use store::StoreStorage;
pub use tree::{ItemProblem, ItemsCheckReport, check_items};
#[cfg(test)]
pub(crate) use tree::{TreeStorage, TreeStorageOptions};

/// A durable storage of the items of a server, and of a few numbers.
///
/// Any number of threads may call all methods at the same time. What a method has stored is durable when it
/// returns, in the sense of the server's [`Durability`](crate::Durability).
pub trait ItemStorage: Send + Sync {
    /// Returns the current generation of items.
    ///
    /// # Errors
    /// The storage failed.
    fn current(&self) -> Result<Arc<dyn ItemGeneration>, MemcachedError>;

    /// Makes an empty generation the current one, and forgets [`StorageNumber::FlushAt`], both at once: a
    /// crash finds both done or none. Takes constant time. No thread uses the former generation afterwards,
    /// except in [`ItemGeneration::scan`], which ends early.
    ///
    /// # Errors
    /// The storage failed.
    fn flush(&self) -> Result<Arc<dyn ItemGeneration>, MemcachedError>;

    /// Does a small step of what is left to do in the background, such as freeing the items of former
    /// generations. Returns true if there is more. It is called again and again.
    ///
    /// # Errors
    /// The storage failed; the step will be tried again.
    fn reclaim(&self) -> Result<bool, MemcachedError>;

    /// Returns a number, or `None` if it was not set.
    ///
    /// # Errors
    /// The storage failed.
    fn number(&self, number: StorageNumber) -> Result<Option<u64>, MemcachedError>;

    /// Sets a number.
    ///
    /// # Errors
    /// The storage failed.
    fn set_number(&self, number: StorageNumber, value: u64) -> Result<(), MemcachedError>;

    /// Returns the bytes that count for an item with a key and a value of these lengths, where `-m` bounds
    /// the pool.
    fn footprint(&self, key: usize, value: usize) -> u64 {
        item::footprint(key, value)
    }

    /// Returns true if [`ItemGeneration::write`] makes all of its changes or none, also where it fails or a
    /// crash interrupts it. Commands that arrive together share a call of it then, and otherwise one of
    /// [`ItemGeneration::write_in_order`].
    fn is_atomic(&self) -> bool;

    /// Returns true if stores wait for a device, such as a disk, so that other commands need other threads.
    fn waits(&self) -> bool;

    /// Makes everything stored so far survive power loss.
    ///
    /// # Errors
    /// The storage failed.
    fn sync(&self) -> Result<(), MemcachedError>;

    /// Prepares the end of the server: the next start is fast.
    ///
    /// # Errors
    /// The storage failed.
    fn close(&self) -> Result<(), MemcachedError> {
        self.sync()
    }

    /// Returns the name that `stats settings` shows.
    fn name(&self) -> String;

    /// Returns statistics.
    fn stats(&self) -> ItemStorageStats;
}

/// The items of a server between two flushes.
///
/// Any number of threads may call all methods at the same time, also on the same key. Reads and changes of a
/// key are linearizable.
pub trait ItemGeneration: Send + Sync {
    /// Returns the value of a key. An item that has expired may be returned, as [`StoredItem::EXPIRED`] too,
    /// or not; it counts in `get_expired` if it is.
    ///
    /// # Errors
    /// The storage failed, or the item is damaged.
    fn get(&self, key: &[u8]) -> Result<Option<StoredItem>, MemcachedError>;

    /// Returns true if there is an item with this key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn contains(&self, key: &[u8]) -> Result<bool, MemcachedError> {
        Ok(self.get(key)?.is_some())
    }

    /// Makes changes in their order, of which several may be of one key. Each is durable wholly or not at all
    /// after a crash. If the storage is [atomic](ItemStorage::is_atomic), that holds for all of them
    /// together; otherwise some of them may be missing.
    ///
    /// # Errors
    /// The storage failed. Unless it is atomic, some of the changes may have been made.
    fn write(&self, changes: &[ItemChange<'_>]) -> Result<(), MemcachedError>;

    /// Makes changes one after the other until one fails, each wholly or not at all. Returns the number of
    /// changes that were made, and the error of the next one. Several of them may be of one key. What they
    /// share, such as a fence, costs less than with calls of their own.
    fn write_in_order(&self, changes: &[ItemChange<'_>]) -> (usize, Result<(), MemcachedError>) {
        for (made, change) in changes.iter().enumerate() {
            if let Err(error) = self.write(std::slice::from_ref(change)) {
                return (made, Err(error));
            }
        }
        (changes.len(), Ok(()))
    }

    /// Visits the items until `visit` returns false. Items that are changed meanwhile may be missed.
    ///
    /// # Errors
    /// The storage failed, an item is damaged, or an error of `visit`.
    fn scan(
        &self,
        visit: &mut dyn FnMut(ScannedItem<'_>) -> Result<bool, MemcachedError>,
    ) -> Result<(), MemcachedError>;

    /// Returns the number of items. Those that expired may count.
    fn len(&self) -> u64;

    /// Returns true if there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of keys and values.
    fn bytes(&self) -> u64;

    /// Returns the sum of the [footprints](ItemStorage::footprint) of the items.
    fn footprint(&self) -> u64 {
        self.bytes() + self.len() * item::OVERHEAD
    }
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredItem {
    /// The value.
    pub value: Vec<u8>,
    /// Time of expiry in milliseconds since 1970, if it expires.
    pub expires: Option<u64>,
}

impl StoredItem {
    /// An item that has expired, whose value nobody needs.
    pub const EXPIRED: StoredItem = StoredItem {
        value: Vec::new(),
        expires: Some(0),
    };
}

/// An item that a scan visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Length of the value.
    pub value_bytes: usize,
    /// Time of expiry in milliseconds since 1970, if it expires.
    pub expires: Option<u64>,
}

/// A change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemChange<'a> {
    /// Sets the value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Time of expiry in milliseconds since 1970, if it expires.
        expires: Option<u64>,
    },
    /// Removes the item, if there is one.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl ItemChange<'_> {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        match self {
            ItemChange::Put { key, .. } | ItemChange::Delete { key } => key,
        }
    }
}

/// A number that the server stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorageNumber {
    /// The end of the block of cas values that is reserved.
    CasEnd,
    /// The time of a flush that was asked for, in milliseconds since 1970. A flush forgets it.
    FlushAt,
}

/// Statistics of a storage, in bytes unless said otherwise. They are 0 where they have no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemStorageStats {
    /// Bytes that the storage occupies on the slow tier.
    pub pool_bytes: u64,
    /// Bytes of records that are needed.
    pub live_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes that were appended to the log since the start.
    pub appended_bytes: u64,
    /// Number of fences that made them durable.
    pub log_fences: u64,
    /// Number of checkpoints since the start.
    pub checkpoints: u64,
}

impl fmt::Debug for dyn ItemStorage + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemStorage")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
