//! RocksDB: a log-structured merge tree.

use std::path::Path;

use anyhow::Result;
use rocksdb::{BlockBasedOptions, Cache, DB, Direction, IteratorMode, Options, WriteBatch, WriteOptions};

use super::{CACHE, KvStore, Pair, Reader, copy};

/// A database with its default column family.
pub(super) struct RocksDb(DB);

impl RocksDb {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE));
        // Not the default, but what RocksDB's tuning guide recommends for point reads; fjall has it anyway.
        blocks.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        Ok(Self(DB::open(&options, directory.join("rocksdb"))?))
    }
}

impl KvStore for RocksDb {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(self.0.get_pinned(key)?, value))
    }

    fn write(&self, pairs: &[Pair]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in pairs {
            batch.put(key, value);
        }
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        Ok(self.0.write_opt(batch, &durable)?)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64> {
        let pairs = self.0.iterator(IteratorMode::From(from, Direction::Forward));
        let mut count = 0;
        for pair in pairs.take(length) {
            std::hint::black_box(pair?);
            count += 1;
        }
        Ok(count)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let snapshot = self.0.snapshot();
        Ok(Box::new(move |key: &[u8], value: &mut Vec<u8>| {
            Ok(copy(snapshot.get_pinned(key)?, value))
        }))
    }
}
