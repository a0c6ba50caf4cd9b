//! Other stores, in files beside ours: changes are committed 1000 at a time, each commit durable.
//!
//! Keys are their bytes with the highest first where a store knows bytes only, so that they sort as numbers
//! do.

mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use super::super::medium::TreeMedium;
use super::{Contender, Store};
use crate::{Backing, BenchError, config};

/// Changes of a commit.
const COMMIT: usize = 1000;

/// Opens all stores, empty, in the directory of `place`. Returns none if the medium is emulated, as it has no
/// files.
///
/// # Errors
/// A store cannot be opened.
pub(super) fn open(place: &TreeMedium, rows: usize) -> Result<Vec<Contender>, BenchError> {
    if place.medium == Backing::Emulated {
        return Ok(vec![]);
    }
    let mut stores: Vec<(&str, Box<dyn Store>)> = vec![
        ("redb", Box::new(redb::Redb::open(&place.path("redb"))?)),
        ("fjall", Box::new(fjall::Fjall::open(&place.path("fjall"))?)),
        ("LMDB", Box::new(lmdb::Lmdb::open(&place.path("lmdb"), rows)?)),
    ];
    #[cfg(feature = "rocksdb")]
    stores.push(("RocksDB", Box::new(rocksdb::Rocks::open(&place.path("rocksdb"))?)));
    let contender = |(name, store): (&str, Box<dyn Store>)| Contender {
        name: name.to_owned(),
        config: config! {"system": name, "durable": "commits", "changes_of_a_commit": COMMIT},
        store,
        device: None,
        twins: None,
    };
    Ok(stores.drain(..).map(contender).collect())
}

/// Wraps an error of a store with the store's name.
fn failed(name: &'static str) -> impl Fn(&dyn std::fmt::Display) -> BenchError {
    move |error| BenchError::Setup(format!("{name}: {error}"))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}
