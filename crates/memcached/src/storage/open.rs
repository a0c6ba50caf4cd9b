//! Opening a pool with the storage that it has, or that a new one gets.

use std::sync::Arc;

use halocline_media::MediumKind;
use halocline_ordered::{TreeError, TreeKind, tree_kind};
use halocline_pool::{Pool, PoolError, PoolOptions};
use halocline_store::{Clock, Stores, StoresOptions};

use super::ItemStorage;
use super::store::StoreStorage;
use super::tree::{NUMBERS, TreeStorage, TreeStorageOptions};
use crate::error::{MemcachedError, Result};
use crate::settings::{Durability, ServerSettings};

/// Opens the pool of a server, which is created if it is not there, and its storage.
///
/// # Errors
/// [`MemcachedError::OtherStorage`] if the pool has items that are not in trees of the kind that is asked
/// for.
pub(crate) fn open(settings: &ServerSettings, clock: Clock) -> Result<Arc<dyn ItemStorage>> {
    // Also where commits do not wait for fences, these order what the stores write, so that power loss leaves
    // a state that was there.
    let pool = open_pool(settings, true)?;
    let found = match tree_kind(&pool, NUMBERS) {
        Ok(kind) => Some(kind),
        Err(TreeError::Pool(PoolError::NoSuchObject { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let other = |found: String, asked: TreeKind| MemcachedError::OtherStorage {
        path: settings.pool.clone(),
        found,
        asked: asked.name(),
    };
    let kind = match (found, settings.tree) {
        (Some(found), Some(asked)) if found != asked => {
            return Err(other(format!("in trees of kind `{found}`"), asked));
        }
        (None, Some(asked)) if has_store(&pool)? => {
            return Err(other("in the key-value store".to_owned(), asked));
        }
        (None, None) => {
            let options = StoresOptions::default().with_clock(clock);
            let storage = StoreStorage::open(&pool, settings.durability, options)?;
            return Ok(Arc::new(storage));
        }
        (Some(kind), _) | (None, Some(kind)) => kind,
    };
    let pool = match (settings.durability, pool.kind()) {
        // Every change of a tree waits for its fences: these must not be syncs of the file.
        (Durability::Group | Durability::Process, MediumKind::PageCache { strict: true }) => {
            drop(pool);
            open_pool(settings, false)?
        }
        _ => pool,
    };
    let storage = TreeStorage::open(&pool, kind, clock, TreeStorageOptions::default())?;
    Ok(Arc::new(storage))
}

/// Opens or creates the pool. In strict mode, the fences of a page-cache file are syncs.
fn open_pool(settings: &ServerSettings, is_strict: bool) -> Result<Pool> {
    let options = PoolOptions::default()
        .with_strict(is_strict && !settings.assume_dax)
        .with_assume_dax(settings.assume_dax);
    Ok(if settings.pool.exists() {
        Pool::open(&settings.pool, &options)?
    } else {
        Pool::create(&settings.pool, &options)?
    })
}

/// Returns true if the pool has a store of a server.
fn has_store(pool: &Pool) -> Result<bool> {
    Ok(Stores::exist_in(pool)? && {
        let names = Stores::open(pool)?.names();
        names.iter().any(|name| name == super::store::META)
    })
}
