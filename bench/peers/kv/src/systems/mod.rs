//! The systems behind one interface.
//!
//! Equal conditions: a write that has returned is durable, each read sees the newest commit, and systems with
//! a cache of their own get [`CACHE`] bytes for it. Everything else is at its default.

mod fjall;
mod halocline;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

/// Bytes of the cache of RocksDB, redb and fjall. The mapped files of Halocline and LMDB need none.
const CACHE: usize = 256 << 20;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// An open store.
pub(crate) trait KvStore: Send + Sync {
    /// Copies the value of a key to `value`, and returns true if there is one.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Sets the values of keys in one durable commit.
    fn write(&self, pairs: &[Pair]) -> Result<()>;

    /// Reads up to `length` pairs from a key on, and returns their number.
    fn scan(&self, from: &[u8], length: usize) -> Result<u64>;

    /// Begins a view of the present state, which later commits do not change.
    fn reader(&self) -> Result<Reader<'_>>;
}

/// A view of a store as of one commit, whose call is that of [`KvStore::get`].
pub(crate) type Reader<'a> = Box<dyn Fn(&[u8], &mut Vec<u8>) -> Result<bool> + 'a>;

/// A system that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum System {
    Halocline,
    #[cfg(feature = "rocksdb")]
    RocksDb,
    Redb,
    Fjall,
    Lmdb,
}

impl System {
    /// Returns name and version.
    pub(crate) fn labels(self) -> (&'static str, &'static str) {
        (self.name(), self.version())
    }

    /// Returns the name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Halocline => "halocline",
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => "rocksdb",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::Lmdb => "lmdb",
        }
    }

    /// Returns the version of the crate that was compiled in.
    pub(crate) fn version(self) -> &'static str {
        let package = match self {
            Self::Halocline => "halocline-store",
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => "librocksdb-sys",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::Lmdb => "lmdb-rkv-sys",
        };
        locked_version(package).unwrap_or("unknown")
    }

    /// Opens the store in `directory`, which exists; the store is created if the directory is empty.
    pub(crate) fn open(self, directory: &Path) -> Result<Box<dyn KvStore>> {
        Ok(match self {
            Self::Halocline => Box::new(halocline::Halocline::open(directory)?),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => Box::new(rocksdb::RocksDb::open(directory)?),
            Self::Redb => Box::new(redb::Redb::open(directory)?),
            Self::Fjall => Box::new(fjall::Fjall::open(directory)?),
            Self::Lmdb => Box::new(lmdb::Lmdb::open(directory)?),
        })
    }
}

impl std::fmt::Display for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Returns the version of a package in Cargo.lock.
fn locked_version(package: &str) -> Option<&'static str> {
    let lock = include_str!("../../Cargo.lock");
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    Some(rest.split_once('"')?.0)
}

fn copy(found: Option<impl AsRef<[u8]>>, value: &mut Vec<u8>) -> bool {
    let Some(found) = found else { return false };
    value.clear();
    value.extend_from_slice(found.as_ref());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_a_version() {
        for &system in System::value_variants() {
            assert_ne!(system.version(), "unknown", "{system}");
        }
    }

    #[test]
    fn each_system_keeps_a_reader_and_commits() {
        for &system in System::value_variants() {
            let directory = std::env::temp_dir().join(format!("kv-peers-{}-{system}", std::process::id()));
            std::fs::create_dir_all(&directory).unwrap();
            let pair = |value: &str| (b"key".to_vec(), value.as_bytes().to_vec());
            let mut value = Vec::new();
            {
                let store = system.open(&directory).unwrap();
                store.write(&[pair("old")]).unwrap();
                let reader = store.reader().unwrap();
                store.write(&[pair("new")]).unwrap();
                assert!(reader(&b"key"[..], &mut value).unwrap(), "{system}");
                assert_eq!(value, b"old", "{system}");
            }
            let store = system.open(&directory).unwrap();
            assert!(store.get(b"key", &mut value).unwrap(), "{system}");
            assert_eq!(value, b"new", "{system}");
            assert!(!store.get(b"other", &mut value).unwrap(), "{system}");
            assert_eq!(store.scan(b"", 10).unwrap(), 1, "{system}");
            drop(store);
            std::fs::remove_dir_all(&directory).unwrap();
        }
    }
}
