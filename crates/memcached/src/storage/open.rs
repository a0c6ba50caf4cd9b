//! Opening the storage that a pool has, or that a new one gets.

use std::sync::Arc;

use halocline_ordered::{TreeError, TreeKind, tree_kind};
use halocline_pool::{Pool, PoolError};
use halocline_store::{Clock, Stores, StoresOptions};

use super::ItemStorage;
use super::store::StoreStorage;
use super::tree::{NUMBERS, TreeStorage, TreeStorageOptions};
use crate::error::{MemcachedError, Result};

/// Opens the storage of a pool. A pool without items gets one: trees of the kind `tree`, or the key-value
/// store.
///
/// # Errors
/// [`MemcachedError::OtherStorage`] if the pool has items that are not in trees of this kind.
pub(crate) fn open(pool: &Pool, tree: Option<TreeKind>, clock: Clock) -> Result<Arc<dyn ItemStorage>> {
    let found = match tree_kind(pool, NUMBERS) {
        Ok(kind) => Some(kind),
        Err(TreeError::Pool(PoolError::NoSuchObject { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let other = |found: String, asked: TreeKind| MemcachedError::OtherStorage {
        path: pool.path().to_path_buf(),
        found,
        asked: asked.name(),
    };
    match (found, tree) {
        (Some(found), Some(asked)) if found != asked => {
            Err(other(format!("in trees of kind `{found}`"), asked))
        }
        (Some(kind), _) => Ok(Arc::new(TreeStorage::open(
            pool,
            kind,
            clock,
            TreeStorageOptions::default(),
        )?)),
        (None, Some(asked)) if has_store(pool)? => Err(other("in the key-value store".to_owned(), asked)),
        (None, Some(kind)) => Ok(Arc::new(TreeStorage::open(
            pool,
            kind,
            clock,
            TreeStorageOptions::default(),
        )?)),
        (None, None) => {
            let options = StoresOptions::default().with_clock(clock);
            Ok(Arc::new(StoreStorage::open(pool, options)?))
        }
    }
}

/// Returns true if the pool has a store of a server.
fn has_store(pool: &Pool) -> Result<bool> {
    Ok(Stores::exist_in(pool)? && {
        let names = Stores::open(pool)?.names();
        names.iter().any(|name| name == super::store::META)
    })
}
