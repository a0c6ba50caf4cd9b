//! Placements of indexes: the options `placement` and `dram` of `CREATE INDEX` and `ALTER INDEX … SET`, and
//! their effect.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use halocline_cache::Placement;
use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::Transaction;
use halocline_columns::Table;
use halocline_elf::{PlaceOptions, TableIndex, place_index, refresh_index};
use halocline_sql::EngineError;
use halocline_sql::placement_spec::PlacementSpec;
use halocline_sql::size::read_limit;

use crate::IndexInfo;
use crate::info::index_info;

/// Stores the placement of an index. Returns false if there is no such index and `if_exists`. An index that
/// was volatile and gets another placement is built and stored, which may take long.
///
/// # Errors
/// There is no such index, it cannot have this placement, or its build was cancelled.
pub(crate) fn set_placement(
    transaction: &mut Transaction,
    name: &str,
    if_exists: bool,
    placed: PlacementSpec,
    cancel: &AtomicBool,
) -> Result<bool, EngineError> {
    let catalog = transaction.catalog();
    if !catalog.has_index(name) {
        return if if_exists {
            Ok(false)
        } else {
            Err(catalog.no_index(name))
        };
    }
    drop(catalog);
    let index = TableIndex::open_in(transaction.txn(), name)?;
    let wrong = |error: &dyn std::fmt::Display| EngineError::Query(format!("index {name}: {error}"));
    let before = match (index.wanted(), placed.placement) {
        (Ok(before), _) => before,
        (Err(_), Some(placement)) => PlaceOptions::default().with_placement(placement),
        (Err(error), None) => return Err(wrong(&error)),
    };
    let options = PlaceOptions::default()
        .with_placement(placed.placement.unwrap_or(before.placement))
        .with_dram(placed.dram.unwrap_or(before.dram));
    let was_volatile = index.is_volatile();
    let table = index.table().to_owned();
    drop(index);
    place_index(transaction.txn(), name, &options).map_err(|error| match error {
        halocline_elf::ElfError::Placement { .. } => wrong(&error),
        error => error.into(),
    })?;
    transaction.changed([]);
    if was_volatile && options.placement != Placement::Volatile {
        // As for a new index, the delta of the table is folded into segments first.
        let open = transaction.catalog().objects().table(&table)?;
        transaction.fold(&open)?;
        drop(open);
        let build = transaction.engine().index_options();
        let table = Table::open_in(transaction.txn(), &table)?;
        refresh_index(transaction.txn(), &table, name, &build, cancel)?;
        transaction.changed([]);
    }
    // The placement that was chosen before was chosen for another workload.
    transaction.engine().placements.advisor().forget(Some(name));
    Ok(true)
}

/// Makes the copies in DRAM that an index is to have, and returns the resulting state of the index. Setting
/// `cancel` ends the build of a volatile index.
///
/// # Errors
/// The pool or its log cannot be read; there is no such index.
pub(crate) fn place_now(
    engine: &EngineContext,
    name: &str,
    cancel: &Arc<AtomicBool>,
) -> Result<IndexInfo, EngineError> {
    let catalog = engine.catalog()?;
    let index = catalog.indexes().iter().find(|index| index.name == name);
    let index = index.ok_or_else(|| catalog.no_index(name))?;
    if let Some(table) = &index.table {
        index.place(&catalog.table(table)?.table, true, cancel);
    }
    index_info(&catalog, name)
}

/// Reads an option of a placement into `placed`. Returns false if it is another option.
///
/// # Errors
/// No such placement or size.
pub(super) fn read_placed(
    index: &str,
    key: &str,
    value: &str,
    placed: &mut PlacementSpec,
) -> Result<bool, EngineError> {
    let wrong = |error: &dyn std::fmt::Display| EngineError::Query(format!("index {index}: {error}"));
    match key {
        "placement" => placed.placement = Some(value.parse().map_err(|error| wrong(&error))?),
        "dram" => match read_limit(value) {
            Ok(Some(0)) => {
                return Err(wrong(
                    &"dram = 0 leaves nothing in DRAM; say placement = 'slow-only'",
                ));
            }
            Ok(limit) => placed.dram = Some(limit),
            Err(error) => return Err(wrong(&format!("dram: {error}"))),
        },
        _ => return Ok(false),
    }
    Ok(true)
}
