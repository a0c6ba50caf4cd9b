//! `DROP TABLE` and `DROP INDEX`.

use halocline_pool::Txn;

use super::write::begin;
use crate::EngineError;
use crate::catalog::{Catalog, Externals, index_object, table_object};
use crate::database::Shared;

/// Drops tables with their indexes, all of them or none. External tables of the session are only forgotten.
///
/// # Errors
/// One is not there (unless `if_exists`), or the pool cannot be written.
pub(crate) fn drop_tables(
    shared: &Shared,
    externals: &Externals,
    names: &[String],
    if_exists: bool,
) -> Result<String, EngineError> {
    let catalog = shared.catalog()?;
    let mut stored: Vec<&String> = Vec::new();
    let mut forgotten: Vec<&String> = Vec::new();
    for name in names {
        if catalog.has_table(name) {
            stored.push(name);
        } else if externals.remove(name).is_some() {
            forgotten.push(name);
        } else if !if_exists {
            return Err(catalog.no_table(name));
        }
    }
    drop(catalog);
    let mut indexes = Vec::new();
    if !stored.is_empty() {
        let txn = begin(shared, "DROP TABLE")?;
        // The lock is held now: what this state holds is what will be dropped.
        let catalog = shared.catalog()?;
        for name in &stored {
            if !catalog.has_table(name) {
                return Err(catalog.no_table(name));
            }
            indexes.extend(drop_table(&txn, &catalog, name)?);
        }
        drop(catalog);
        shared.cache.forget();
        txn.commit()?;
    }
    let dropped: Vec<&str> = stored
        .iter()
        .chain(&forgotten)
        .map(|name| name.as_str())
        .collect();
    Ok(match (dropped.is_empty(), indexes.is_empty()) {
        (true, _) => "nothing to drop".into(),
        (false, true) => format!("dropped table {}", dropped.join(", ")),
        (false, false) => format!(
            "dropped table {} with index {}",
            dropped.join(", "),
            indexes.join(", ")
        ),
    })
}

/// Removes a table and its indexes in a transaction; gives the names of the indexes.
fn drop_table(txn: &Txn, catalog: &Catalog, name: &str) -> Result<Vec<String>, EngineError> {
    let indexes = catalog.indexes_of(name);
    for index in &indexes {
        txn.remove(&index_object(index))?;
    }
    txn.remove(&table_object(name))?;
    Ok(indexes)
}

/// Drops indexes, all of them or none.
///
/// # Errors
/// One is not there (unless `if_exists`), or the pool cannot be written.
pub(crate) fn drop_indexes(
    shared: &Shared,
    names: &[String],
    if_exists: bool,
) -> Result<String, EngineError> {
    let txn = begin(shared, "DROP INDEX")?;
    let catalog = shared.catalog()?;
    let mut dropped = Vec::new();
    for name in names {
        if catalog.has_index(name) {
            txn.remove(&index_object(name))?;
            dropped.push(name.as_str());
        } else if !if_exists {
            return Err(catalog.no_index(name));
        }
    }
    drop(catalog);
    shared.cache.forget();
    txn.commit()?;
    Ok(if dropped.is_empty() {
        "nothing to drop".into()
    } else {
        format!("dropped index {}", dropped.join(", "))
    })
}
