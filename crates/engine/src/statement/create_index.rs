//! `CREATE INDEX`.

use halocline_elf::{IndexOptions, IndexStats};

use super::write::begin;
use crate::database::Shared;
use crate::{EngineError, IndexSpec};

/// Builds an index and publishes it; `None` if it is there already and may be.
///
/// # Errors
/// No such table or column, the name is taken, or the pool cannot be written.
pub(crate) fn build_index(
    shared: &Shared,
    spec: &IndexSpec,
    if_not_exists: bool,
) -> Result<Option<IndexStats>, EngineError> {
    let txn = begin(shared, "CREATE INDEX")?;
    let catalog = shared.catalog()?;
    if catalog.has_index(&spec.name) {
        if if_not_exists {
            return Ok(None);
        }
        let instead = "drop it first, or choose another name";
        return Err(EngineError::Exists {
            kind: "index",
            name: spec.name.clone(),
            instead,
        });
    }
    let open = catalog.table(&spec.table)?;
    let schema = open.table.schema();
    let position = |name: &String| {
        schema.index_of(name).map_err(|_| EngineError::NoColumn {
            table: spec.table.clone(),
            name: name.clone(),
            known: schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    };
    let columns = spec.columns.iter().map(position).collect::<Result<Vec<_>, _>>()?;
    if let Some(twice) = (1..columns.len()).find(|at| columns[..*at].contains(&columns[*at])) {
        let text = format!(
            "column '{}' stands twice in the index; name it once",
            spec.columns[twice]
        );
        return Err(EngineError::Query(text));
    }
    let mut options = IndexOptions {
        layout: spec.layout,
        order: spec.order,
        ..IndexOptions::default()
    };
    options.threads = shared.options.threads.unwrap_or(options.threads);
    options.memory = shared.options.memory.unwrap_or(options.memory);
    let stats = halocline_elf::index_table(&txn, &open.table, &spec.name, &columns, &options)?;
    drop((open, catalog));
    shared.cache.forget();
    txn.commit()?;
    Ok(Some(stats))
}
