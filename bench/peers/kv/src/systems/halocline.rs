//! Halocline: a log of records on the slow tier, and a tree that leads to them.

use std::path::Path;

use anyhow::Result;
use halocline_media::{FileMedium, FileOptions};
use halocline_pool::Pool;
use halocline_store::{Store, Stores, WriteBatch};

use super::{KvStore, Pair, Reader, copy};
use crate::disk;

/// A pool with one store.
pub(super) struct Halocline {
    // Declared before `stores`: the last handle that is dropped makes a checkpoint.
    store: Store,
    stores: Stores,
}

impl Halocline {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("store.pool");
        let create = !path.exists();
        // A page-cache file needs `strict`, or its fences would be cheaper than the other systems' syncs. On
        // tmpfs an msync does nothing, so the flush instructions of a DAX medium are executed there instead.
        let medium = FileMedium::open(
            &path,
            &FileOptions {
                create,
                strict: true,
                assume_dax: disk::is_tmpfs(directory)?,
                ..FileOptions::default()
            },
        )?;
        let pool = if create {
            Pool::create_on(medium)?
        } else {
            Pool::open_on(medium)?
        };
        let stores = Stores::open(&pool)?;
        let store = stores.store("t")?;
        Ok(Self { store, stores })
    }
}

impl KvStore for Halocline {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(self.store.get(key)?, value))
    }

    fn write(&self, pairs: &[Pair]) -> Result<()> {
        if let [(key, value)] = pairs {
            return Ok(self.store.put(key, value)?);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in pairs {
            batch.put(&self.store, key, value)?;
        }
        Ok(self.stores.write(batch)?)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64> {
        let mut scan = self.store.scan(from..).with_limit(length);
        let mut count = 0;
        while let Some((key, value)) = scan.next_ref().transpose()? {
            std::hint::black_box((key.to_vec(), value.to_vec()));
            count += 1;
        }
        Ok(count)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let snapshot = self.stores.snapshot();
        Ok(Box::new(move |key: &[u8], value: &mut Vec<u8>| {
            Ok(copy(snapshot.get(&self.store, key)?, value))
        }))
    }
}
