//! The version of the stores that a statement reads: [`KeyedView`].

use std::sync::{Arc, Mutex, PoisonError};

use halocline_store::{
    Result, Scan, Store, StoreLoader, StoreSnapshot, StoreTransaction, Stores, TransactionScan,
};

use crate::ranges::KeyBounds;

/// The version of the stores that is read.
#[derive(Debug, Clone)]
pub enum KeyedView {
    /// A snapshot.
    Snapshot(StoreSnapshot),
    /// A transaction with what it has written so far. It depends on all that is read.
    Transaction(Arc<Mutex<StoreTransaction>>),
}

/// The pairs of a range.
pub(crate) enum ViewScan {
    Snapshot(Scan),
    Transaction(TransactionScan),
}

impl KeyedView {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// Those of [`StoreSnapshot::get`].
    pub fn get(&self, store: &Store, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Snapshot(snapshot) => snapshot.get(store, key),
            Self::Transaction(transaction) => {
                let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
                transaction.get(store, key)
            }
        }
    }

    /// Makes a transaction depend on all keys of a store, so that its reads of it take no memory.
    pub fn depend_on_all(&self, store: &Store) {
        if let Self::Transaction(transaction) = self {
            let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
            transaction.depend_on_all(store);
        }
    }

    /// Begins to load a store whose pairs the view sees.
    pub(crate) fn load(&self, stores: &Stores, name: &str) -> Result<StoreLoader> {
        match self {
            Self::Snapshot(_) => stores.load_sorted(name),
            Self::Transaction(transaction) => {
                let transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
                transaction.load_sorted(name)
            }
        }
    }

    pub(crate) fn scan(&self, store: &Store, range: &KeyBounds) -> ViewScan {
        match self {
            Self::Snapshot(snapshot) => ViewScan::Snapshot(snapshot.scan::<Vec<u8>>(store, range.clone())),
            Self::Transaction(transaction) => {
                let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
                ViewScan::Transaction(transaction.scan::<Vec<u8>>(store, range.clone()))
            }
        }
    }
}

impl Iterator for ViewScan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Snapshot(scan) => scan.next(),
            Self::Transaction(scan) => scan.next(),
        }
    }
}
