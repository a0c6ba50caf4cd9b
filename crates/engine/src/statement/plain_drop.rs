//! `DROP TABLE` and `TRUNCATE` of tables without a primary key.

use halocline_catalog::transaction::Transaction;
use halocline_catalog::{Catalog, index_object, table_object};
use halocline_columns::truncate;
use halocline_sql::EngineError;

/// Drops tables with their indexes, and returns the names of the indexes.
///
/// # Errors
/// One is not there.
pub(super) fn drop_tables(
    transaction: &mut Transaction,
    names: &[String],
) -> Result<Vec<String>, EngineError> {
    let mut indexes = Vec::new();
    for name in names {
        indexes.extend(drop_table(transaction, name)?);
    }
    Ok(indexes)
}

/// Drops a table with its indexes, and returns their names.
///
/// # Errors
/// It is not there.
pub(crate) fn drop_table(transaction: &mut Transaction, name: &str) -> Result<Vec<String>, EngineError> {
    let catalog = transaction.catalog();
    if !catalog.has_table(name) {
        return Err(catalog.no_table(name));
    }
    let indexes = catalog.indexes_of(name);
    for index in &indexes {
        transaction.txn().remove(&index_object(index))?;
    }
    // A table that is damaged cannot be read, and can be dropped.
    let uid = catalog.objects().table_head(name).ok().map(|head| head.uid);
    transaction.txn().remove(&table_object(name))?;
    match uid {
        Some(uid) => transaction.forget(uid),
        None => transaction.changed([]),
    }
    Ok(indexes)
}

/// Deletes all rows of tables, and returns the names of those that are there.
///
/// # Errors
/// One is not there (unless `if_exists`).
pub(super) fn truncate_tables(
    transaction: &mut Transaction,
    names: &[String],
    if_exists: bool,
) -> Result<Vec<String>, EngineError> {
    let mut emptied = Vec::new();
    for name in names {
        let catalog: std::sync::Arc<Catalog> = transaction.catalog();
        if if_exists && !catalog.has_table(name) {
            continue;
        }
        let uid = catalog.table(name)?.table.uid();
        truncate(transaction.txn(), name)?;
        transaction.forget(uid);
        transaction.changed([uid]);
        emptied.push(name.clone());
    }
    Ok(emptied)
}
