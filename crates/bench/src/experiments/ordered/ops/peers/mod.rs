//! Other stores, in files beside ours: changes are committed 1000 at a time, each commit durable.
//!
//! Keys are their bytes with the highest first where a store knows bytes only, so that they sort as numbers
//! do.

mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::fmt::Display;

use super::super::medium::TreeMedium;
use super::store::{next, sum, value};
use super::{Contender, Store};
use crate::{Backing, BenchError, config};

/// Changes of a commit.
const COMMIT: usize = 1000;

/// Returns the new value of a key; `None` removes it.
type Change = fn(u64) -> Option<u64>;

/// A store of another project, with its own errors.
trait PeerStore: Sync + Sized {
    const NAME: &'static str;
    type Error: Display;

    /// Changes keys in one durable commit.
    fn commit(&self, keys: &[u64], change: Change) -> Result<(), Self::Error>;

    /// Looks up keys like [`Store::get`].
    fn get(&self, keys: &[u64]) -> Result<u64, Self::Error>;

    /// Scans like [`Store::scan`].
    fn scan(&self, from: &[u64], count: usize) -> Result<u64, Self::Error>;
}

/// A store of another project, with errors that name it.
struct Peer<P>(P);

impl<P: PeerStore> Peer<P> {
    fn change(&self, keys: &[u64], change: Change) -> Result<(), BenchError> {
        let commit = |keys: &[u64]| self.0.commit(keys, change);
        keys.chunks(COMMIT).try_for_each(commit).map_err(failed::<P>)
    }
}

impl<P: PeerStore> Store for Peer<P> {
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.change(keys, |key| Some(value(key)))
    }

    fn get(&self, keys: &[u64]) -> Result<u64, BenchError> {
        self.0.get(keys).map_err(failed::<P>)
    }

    fn update(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.change(keys, |key| Some(next(key)))
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError> {
        self.0.scan(from, count).map_err(failed::<P>)
    }

    fn remove(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.change(keys, |_| None)
    }
}

/// Opens all stores, empty, in the directory of `place`. The list is empty if the medium is emulated, as it
/// has no files.
///
/// # Errors
/// A store cannot be opened.
pub(super) fn open(place: &TreeMedium, rows: usize) -> Result<Vec<Contender>, BenchError> {
    if place.medium == Backing::Emulated {
        return Ok(vec![]);
    }
    #[allow(unused_mut, reason = "there is one more with RocksDB")]
    let mut contenders = vec![
        contender(redb::Redb::open(&place.path("redb")))?,
        contender(fjall::Fjall::open(&place.path("fjall")))?,
        contender(lmdb::Lmdb::open(&place.path("lmdb"), rows))?,
    ];
    #[cfg(feature = "rocksdb")]
    contenders.push(contender(rocksdb::Rocks::open(&place.path("rocksdb")))?);
    Ok(contenders)
}

fn contender<P: PeerStore + 'static>(opened: Result<P, P::Error>) -> Result<Contender, BenchError> {
    Ok(Contender {
        name: P::NAME.to_owned(),
        config: config! {"system": P::NAME, "durable": "commits", "changes_of_a_commit": COMMIT},
        store: Box::new(Peer(opened.map_err(failed::<P>)?)),
        device: None,
        twins: None,
    })
}

/// Wraps an error of a store with the store's name.
fn failed<P: PeerStore>(error: P::Error) -> BenchError {
    BenchError::Setup(format!("{}: {error}", P::NAME))
}

/// Returns the sum of `key ^ value` of entries.
fn sum_of_entries<E>(entries: impl Iterator<Item = Result<(u64, u64), E>>) -> Result<u64, E> {
    let mut sum = 0_u64;
    for entry in entries {
        let (key, value) = entry?;
        sum = sum.wrapping_add(key ^ value);
    }
    Ok(sum)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}
