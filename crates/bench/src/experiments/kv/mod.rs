//! The experiments on key-value stores, and what they share.
//!
//! `bench/peers/kv` measures the same beside other stores, and writes its values in the same form.

pub(super) mod kill;
pub(super) mod space;
pub(super) mod ycsb;

use halocline_media::{FileMedium, FileOptions, Medium};
use halocline_pool::Pool;
use halocline_store::Stores;
use halocline_workloads::YcsbRun;

use super::ordered::medium::TreeMedium;
use crate::kv::StoreTarget;
use crate::{Backing, BenchError, Settings};

/// Sizes of values in bytes.
const VALUES: [usize; 2] = [100, 1000];

/// Name of the store.
const STORE: &str = "t";

/// Returns the number of records to load: as requested, or `full`, or 2000 for a smoke test; at least 100.
fn records(settings: &Settings, full: u64) -> u64 {
    let rows = settings.rows.map(|rows| rows as u64);
    rows.unwrap_or(if settings.quick { 2000 } else { full }).max(100)
}

/// Creates a pool with an empty store.
fn create(place: &TreeMedium, name: &str) -> Result<StoreTarget, BenchError> {
    open(&Pool::create_on(medium_of(place, name)?)?)
}

/// Returns an empty medium on which a write that has returned is durable: a file on the page cache is synced
/// by each commit.
fn medium_of(place: &TreeMedium, name: &str) -> Result<Medium, BenchError> {
    Ok(match place.medium {
        Backing::PageCache => {
            let options = FileOptions {
                create: true,
                strict: true,
                ..FileOptions::default()
            };
            Medium::from(FileMedium::open(place.path(name), &options)?)
        }
        _ => place.make(name)?.0,
    })
}

fn open(pool: &Pool) -> Result<StoreTarget, BenchError> {
    let stores = Stores::open(pool)?;
    let store = stores.store(STORE)?;
    Ok(StoreTarget::new(stores, store))
}

/// Returns the total size in bytes of the keys and values of all records.
fn live_bytes(run: &YcsbRun) -> u64 {
    let keys = (0..run.records).map(|record| halocline_workloads::ycsb_key(record).len() as u64);
    keys.sum::<u64>() + run.records * run.value_bytes as u64
}
