//! The build of an index, for `CREATE INDEX` and for an index that is damaged.

use std::sync::atomic::AtomicBool;

use halocline_catalog::transaction::Transaction;
use halocline_elf::{IndexOptions, define_index, index_table, rebuild_index};
use halocline_sql::EngineError;

use super::table_kind::KINDS;
use crate::IndexSpec;

/// Builds an index or, if it is `volatile`, defines it. Returns false if it exists already and
/// `if_not_exists`.
///
/// # Errors
/// No such table or column, the name is taken, the pool cannot be written, or the caller wants the end.
pub(crate) fn build_index(
    transaction: &mut Transaction,
    spec: &IndexSpec,
    if_not_exists: bool,
    volatile: bool,
    cancel: &AtomicBool,
) -> Result<bool, EngineError> {
    let catalog = transaction.catalog();
    if catalog.has_index(&spec.name) {
        if if_not_exists {
            return Ok(false);
        }
        let instead = "drop it first, or choose another name";
        return Err(EngineError::Exists {
            kind: "index",
            name: spec.name.clone(),
            instead,
        });
    }
    if !catalog.has_table(&spec.table) {
        let engine = transaction.engine();
        KINDS
            .iter()
            .try_for_each(|kind| kind.check_index(engine, &spec.table))?;
    }
    // An index covers segments, so the delta of the table is folded into segments first.
    let open = catalog.objects().table(&spec.table)?;
    transaction.fold(&open)?;
    let open = transaction.catalog().objects().table(&spec.table)?;
    let schema = open.table.schema();
    let position = |name: &String| {
        schema
            .index_of(name)
            .map_err(|_| EngineError::no_column(&spec.table, schema, name))
    };
    let columns = spec.columns.iter().map(position).collect::<Result<Vec<_>, _>>()?;
    if let Some(twice) = (1..columns.len()).find(|at| columns[..*at].contains(&columns[*at])) {
        let text = format!(
            "column '{}' stands twice in the index; name it once",
            spec.columns[twice]
        );
        return Err(EngineError::Query(text));
    }
    let options = IndexOptions {
        layout: spec.layout,
        order: spec.order,
        ..transaction.engine().index_options()
    };
    let (txn, table) = (transaction.txn(), &open.table);
    if volatile {
        define_index(txn, table, &spec.name, &columns, spec.layout, spec.order)?;
    } else {
        index_table(txn, table, &spec.name, &columns, &options, cancel)?;
    }
    transaction.changed([]);
    Ok(true)
}

/// Builds an index anew by the definition that it has, whatever state it is in.
///
/// # Errors
/// There is none of this name, its definition cannot be read, or its table is damaged.
pub(crate) fn rebuild(
    transaction: &mut Transaction,
    name: &str,
    cancel: &AtomicBool,
) -> Result<(), EngineError> {
    let catalog = transaction.catalog();
    let known = catalog.indexes().iter().find(|index| index.name == name);
    let known = known.ok_or_else(|| catalog.no_index(name))?;
    let Some(table) = known.table.clone() else {
        return Err(EngineError::Query(format!(
            "the definition of index '{name}' cannot be read; drop it and create it again"
        )));
    };
    let open = catalog.objects().table(&table)?;
    transaction.fold(&open)?;
    let open = transaction.catalog().objects().table(&table)?;
    let options = transaction.engine().index_options();
    rebuild_index(transaction.txn(), &open.table, name, &options, cancel)?;
    transaction.changed([]);
    Ok(())
}
