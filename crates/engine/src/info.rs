//! The contents of a pool, for people (`info`) and, serialised, for programs.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_cast::display::array_value_to_string;
use halocline_cache::Placement;
use halocline_catalog::context::EngineContext;
use halocline_catalog::{Catalog, LOG_OBJECT, OpenIndex};
use halocline_columns::{Column, TableEncoding, TableRule};
use halocline_elf::TableIndex;
use halocline_pool::PoolError;
use halocline_scan::keyed::{KeyedTableInfo, keyed_infos, type_of};
use halocline_sql::EngineError;
use halocline_sql::size;
use serde::Serialize;

use crate::macros::MacroDefinition;
use crate::views::{ViewOrder, ViewScope};

/// The contents of a database.
#[derive(Debug, Clone, Serialize)]
pub struct DatabaseInfo {
    /// The file.
    pub pool: PoolFileInfo,
    /// Tables without a primary key, by name.
    pub tables: Vec<TableInfo>,
    /// Tables with a primary key, by name.
    pub keyed_tables: Vec<KeyedTableInfo>,
    /// Macros by name.
    pub macros: Vec<MacroInfo>,
    /// Views, those that others read first.
    pub views: Vec<ViewInfo>,
    /// Indexes by name.
    pub indexes: Vec<IndexInfo>,
    /// Tables, indexes and the log of small changes, if they cannot be read; the others are above.
    pub damaged: Vec<DamagedObject>,
    /// DRAM this process holds for the open tables and indexes (dictionaries, headers), in bytes; mapped
    /// bytes of the pool are not DRAM of the engine.
    pub dram_bytes: u64,
    /// Bytes of DRAM that the copies of all placed indexes take now, those that running queries still read
    /// among them.
    pub placed_bytes: u64,
    /// Budget for these copies in bytes; `None` if there is no limit.
    pub dram_budget: Option<u64>,
    /// Damage that this process has found in the background, by merges or a scrub (`SET halocline.scrub`),
    /// and why tables with a primary key cannot be read, as sentences.
    pub damage: Vec<String>,
}

/// A macro.
#[derive(Debug, Clone, Serialize)]
pub struct MacroInfo {
    /// Its name.
    pub name: String,
    /// The statement that creates it, without a semicolon.
    pub statement: String,
}

/// A view.
#[derive(Debug, Clone, Serialize)]
pub struct ViewInfo {
    /// Its name.
    pub name: String,
    /// Names of its columns; empty if they are those of the query.
    pub columns: Vec<String>,
    /// The text of its query.
    pub query: String,
    /// The statement that creates it, without a semicolon.
    pub statement: String,
}

/// The pool file and the medium under it.
#[derive(Debug, Clone, Serialize)]
pub struct PoolFileInfo {
    /// Path of the file; `None` for a pool in DRAM.
    pub path: Option<PathBuf>,
    /// Description of the medium; an emulated one comes first.
    pub medium: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes free for new objects without growing.
    pub free_bytes: u64,
    /// Bytes that the file takes of its file system: fewer than `bytes` where it has holes.
    pub allocated_bytes: u64,
    /// Bytes of small changes in the log that are in no segment yet.
    pub log_bytes: u64,
    /// Number of the published state.
    pub generation: u64,
    /// The newest state known to survive power loss.
    pub synced_generation: u64,
    /// Identity of the pool.
    pub uuid: String,
    /// Version of the file format.
    pub format_version: u32,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedObject {
    /// Its kind.
    pub kind: DamagedKind,
    /// Its name.
    pub name: String,
    /// Of an index, the table it is on, if that is known.
    pub table: Option<String>,
    /// Rows that are stored in it, if that is known.
    pub rows: Option<u64>,
    /// The reason why it cannot be read, and what to do about it.
    pub reason: String,
}

/// The kind of a [`DamagedObject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DamagedKind {
    /// A table: of no use until it is dropped and imported again; its intact segments may still be read.
    Table,
    /// An index, which can be built anew from its table.
    Index,
    /// The log of small changes: a repair keeps what comes before the damage.
    Log,
}

impl std::fmt::Display for DamagedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Table => "table",
            Self::Index => "index",
            Self::Log => "log",
        })
    }
}

/// One table.
#[derive(Debug, Clone, Serialize)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Segments that its rows are in; compaction makes them fewer.
    pub segments: usize,
    /// Deleted rows that still take space in the segments.
    pub deleted_rows: u64,
    /// Rows that are in the log and in no segment yet.
    pub log_rows: u64,
    /// Names of the columns whose order rows are kept in; empty if they are kept as they come.
    pub cluster: Vec<String>,
    /// Bytes in the pool.
    pub bytes: u64,
    /// Columns in their order.
    pub columns: Vec<ColumnInfo>,
    /// Rules that its rows obey besides those of single columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<TableRule>,
}

/// One column of a table.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type as a SQL user writes it.
    pub r#type: String,
    /// True if it may be NULL.
    pub nullable: bool,
    /// The value it takes where a statement gives none, as text; `None` for NULL.
    pub default: Option<String>,
    /// Description of its encoding.
    pub encoding: String,
    /// Bytes in the pool.
    pub bytes: u64,
}

/// One index.
#[derive(Debug, Clone, Serialize)]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// The table it is on.
    pub table: String,
    /// `packed` or `published`.
    pub layout: String,
    /// The indexed columns in the order of the tree.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: u64,
    /// Bytes in the pool: none of a volatile one.
    pub bytes: u64,
    /// Its placement, as in `CREATE INDEX … WITH (placement = …)`; `auto` is followed by the placement that
    /// was chosen.
    pub placement: String,
    /// Most bytes of DRAM for its copies; `None` if there is no limit.
    pub dram: Option<u64>,
    /// Bytes of DRAM that its copies occupy; `None` if no query of this process has used it.
    pub dram_bytes: Option<u64>,
    /// Estimated upper bound of the DRAM of its copies in bytes: its size, its limit, or the budget of all
    /// indexes.
    pub dram_most: u64,
    /// The reason why less is in DRAM than the placement demands.
    pub fallback: Option<String>,
}

impl IndexInfo {
    /// Describes its placement: `static, at most 64MiB of DRAM: 63.9 MiB in DRAM`.
    #[must_use]
    pub fn placement_text(&self) -> String {
        let mut text = self.placement.clone();
        if let Some(dram) = self.dram {
            text += &format!(", at most {} of DRAM", size::exact(dram));
        }
        match (self.dram_bytes, self.placement.as_str()) {
            (_, "slow-only") => {}
            (Some(bytes), _) => text += &format!(": {} in DRAM", size::rounded(bytes)),
            (None, "volatile") => {
                let most = size::rounded(self.dram_most);
                text += &format!(": not built, up to about {most} when a query first has a use for it");
            }
            (None, _) => {
                let most = size::rounded(self.dram_most);
                text += &format!(": not loaded, up to about {most} when a query first uses it");
            }
        }
        if let Some(reason) = &self.fallback {
            text += &format!(" ({reason})");
        }
        text
    }
}

/// Progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseCheckProgress<'a> {
    /// The part being checked: `pool`, `table t`, `index i`.
    pub part: &'a str,
    /// Steps done in all, of `total`.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
}

/// Result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct DatabaseCheckReport {
    /// Bytes whose checksums were verified.
    pub bytes: u64,
    /// Tables checked.
    pub tables: usize,
    /// Indexes checked.
    pub indexes: usize,
    /// All problems, one sentence each; empty if the pool is intact.
    pub problems: Vec<String>,
    /// The objects that are damaged.
    pub damaged: Vec<DamagedObject>,
}

/// Collects what is in the pool.
///
/// # Errors
/// The pool cannot be read.
pub(crate) fn info(engine: &EngineContext) -> Result<DatabaseInfo, EngineError> {
    let (catalog, log) = readable(engine)?;
    let pool = engine.pool.info()?;
    let mut damaged: Vec<DamagedObject> = log.into_iter().collect();
    let mut tables = Vec::new();
    for name in catalog.table_names() {
        match table_info(&catalog, &name) {
            Ok(info) => tables.push(info),
            Err(error) => damaged.push(damaged_table(&catalog, &name, error.to_string())),
        }
    }
    let mut damage = engine.damage.all();
    let keyed_tables = keyed_infos(engine).unwrap_or_else(|error| {
        damage.push(format!("tables with a primary key: {error}"));
        Vec::new()
    });
    let mut macros = Vec::new();
    for (name, definition) in macro_infos(&catalog) {
        match definition {
            Ok(definition) => macros.push(definition),
            Err(reason) => damage.push(format!("macro {name}: {reason}")),
        }
    }
    let mut views = Vec::new();
    for (name, view) in view_infos(&catalog) {
        match view {
            Ok(view) => views.push(view),
            Err(reason) => damage.push(format!("view {name}: {reason}")),
        }
    }
    let mut indexes = Vec::new();
    for index in catalog.indexes() {
        match index_info(&catalog, &index.name) {
            Ok(info) => indexes.push(info),
            Err(error) => damaged.push(damaged_index(index, error.to_string())),
        }
    }
    Ok(DatabaseInfo {
        pool: PoolFileInfo {
            path: (pool.kind != halocline_media::MediumKind::Dram).then_some(pool.path),
            medium: match &engine.options.medium {
                None => pool.kind.to_string(),
                Some(spec) => format!("{spec} over {}", pool.kind),
            },
            bytes: pool.len,
            used_bytes: pool.used,
            free_bytes: pool.free,
            allocated_bytes: pool.allocated,
            log_bytes: catalog.position(),
            generation: pool.generation,
            synced_generation: pool.synced_generation,
            uuid: pool.uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
            format_version: pool.version,
        },
        tables,
        keyed_tables,
        macros,
        views,
        indexes,
        damaged,
        dram_bytes: dram_bytes(&catalog),
        placed_bytes: engine.placements.budget().used(),
        dram_budget: engine.dram_budget(),
        damage,
    })
}

/// Describes the macros, by name; of one that cannot be read, there is the reason.
pub(crate) fn macro_infos(catalog: &Catalog) -> Vec<(String, Result<MacroInfo, String>)> {
    let names = catalog.objects().macro_names().into_iter();
    let macros = names.map(|name| {
        let record = catalog.objects().macro_record(&name).unwrap_or_default();
        let info = MacroDefinition::decode(record).map(|definition| MacroInfo {
            statement: definition.statement(&name),
            name: name.clone(),
        });
        (name, info)
    });
    macros.collect()
}

/// Describes the views, those that others read first; of one without a query, there is the reason.
pub(crate) fn view_infos(catalog: &Catalog) -> Vec<(String, Result<ViewInfo, String>)> {
    let scope = ViewScope {
        catalog,
        temporary: None,
    };
    scope.stack().call(|| {
        let mut order = ViewOrder::new(scope);
        order.list();
        let views = order.into_views().into_iter().map(|view| {
            let name = view.key.name;
            let info = view.query.map(|(view, _)| ViewInfo {
                statement: view.statement(&name, false),
                name: name.clone(),
                columns: view.columns,
                query: view.query,
            });
            (name, info)
        });
        views.collect()
    })
}

/// Returns the newest version. If the log is damaged, returns the version without it, and the damage.
///
/// # Errors
/// The pool cannot be read.
pub(crate) fn readable(engine: &EngineContext) -> Result<(Arc<Catalog>, Option<DamagedObject>), EngineError> {
    match engine.catalog() {
        Ok(catalog) => Ok((catalog, None)),
        Err(error @ (EngineError::Pool(PoolError::DamagedLog { .. }) | EngineError::Log { .. })) => {
            let catalog = Catalog::without_log(engine.pool.snapshot()?, &engine.placements);
            let log = DamagedObject {
                kind: DamagedKind::Log,
                name: LOG_OBJECT.to_string(),
                table: None,
                rows: None,
                reason: error.to_string(),
            };
            Ok((Arc::new(catalog), Some(log)))
        }
        Err(error) => Err(error),
    }
}

/// Describes a table that cannot be read.
pub(crate) fn damaged_table(catalog: &Catalog, name: &str, reason: String) -> DamagedObject {
    DamagedObject {
        kind: DamagedKind::Table,
        name: name.to_string(),
        table: None,
        rows: catalog.objects().table_head(name).ok().map(|head| head.rows),
        reason,
    }
}

/// Describes an index that cannot be read.
pub(crate) fn damaged_index(index: &OpenIndex, reason: String) -> DamagedObject {
    DamagedObject {
        kind: DamagedKind::Index,
        name: index.name.clone(),
        table: index.table.clone(),
        rows: None,
        reason,
    }
}

/// Returns the description of a table without a primary key.
///
/// # Errors
/// There is none of this name, or it cannot be read.
pub(crate) fn table_info(catalog: &Catalog, name: &str) -> Result<TableInfo, EngineError> {
    let open = catalog.table(name)?;
    let table = &open.table;
    let columns = table.schema().fields().iter().enumerate().map(|(index, field)| {
        let parts: Vec<&Column> = table
            .segments()
            .iter()
            .map(|segment| segment.column(index))
            .collect();
        ColumnInfo {
            name: field.name().clone(),
            r#type: type_of(field, table.rules()),
            nullable: field.is_nullable(),
            default: (table.default_value(index)).and_then(|value| array_value_to_string(value, 0).ok()),
            encoding: parts
                .first()
                .map_or("none", |column| encoding(column, table.encoding()))
                .to_string(),
            bytes: parts.iter().map(|column| column.stored_bytes()).sum(),
        }
    });
    let columns = columns.collect();
    Ok(TableInfo {
        name: name.to_string(),
        rows: open.live_rows(),
        segments: table.segments().len(),
        deleted_rows: table.rows() - table.live_rows(),
        log_rows: open.delta.as_ref().map_or(0, |delta| delta.live_rows() as u64),
        cluster: table.cluster().map(<[String]>::to_vec).unwrap_or_default(),
        bytes: table.stored_bytes(),
        columns,
        rules: table.rules().rules().to_vec(),
    })
}

/// Describes the encoding of a column.
fn encoding(column: &Column, table: TableEncoding) -> &'static str {
    match column.code_space() {
        Some(space) if table == TableEncoding::Plain => match space.dictionary() {
            Some(_) => "dictionary, plain",
            None => "plain",
        },
        Some(space) if space.dictionary().is_some() => "dictionary, packed",
        Some(_) => "packed",
        None if column.data_type().is_numeric() && !column.is_wide() => "packed",
        None => "compressed bytes",
    }
}

/// Returns the description of an index.
///
/// # Errors
/// There is none of this name, or it cannot be read.
pub(crate) fn index_info(catalog: &Catalog, name: &str) -> Result<IndexInfo, EngineError> {
    let open = catalog
        .indexes()
        .iter()
        .find(|index| index.name == name)
        .ok_or_else(|| catalog.no_index(name))?;
    let (index, not_used): (&TableIndex, Option<String>) = match (&open.index, &open.incomplete) {
        (Ok(index), _) => (index, None),
        (Err(reason), Some(index)) => (index, Some(reason.clone())),
        (Err(reason), None) => {
            return Err(EngineError::Query(format!(
                "index '{name}' cannot be read: {reason}"
            )));
        }
    };
    let table = catalog.table(index.table())?;
    let schema = table.table.schema();
    let placed = open.placement.placed().map(|index| index.placed());
    let (placement, dram, unknown) = match index.wanted() {
        Ok(wanted) => (wanted.placement, wanted.dram, None),
        Err(error) => (Placement::SlowOnly, None, Some(error.to_string())),
    };
    let picked = match placement {
        Placement::Auto => open.placement.choice(name).map(|picked| picked.placement),
        _ => None,
    };
    let all = if index.is_volatile() {
        index.bytes_about(&table.table)
    } else {
        index.stored_bytes()
    };
    let most = if picked.unwrap_or(placement) == Placement::SlowOnly {
        0
    } else {
        all.min(dram.unwrap_or(u64::MAX)).min(open.placement.limit())
    };
    Ok(IndexInfo {
        name: name.to_string(),
        table: index.table().to_string(),
        layout: index.layout().to_string(),
        columns: index
            .columns()
            .iter()
            .map(|column| schema.field(*column).name().clone())
            .collect(),
        rows: index.rows(),
        bytes: index.stored_bytes(),
        placement: picked.map_or(placement.to_string(), |picked| format!("{placement} ({picked})")),
        dram,
        dram_bytes: placed.as_ref().map(|placed| placed.dram_bytes),
        dram_most: most,
        fallback: not_used
            .or(unknown)
            .or_else(|| open.placement.failed())
            .or_else(|| placed.and_then(|placed| placed.fallback)),
    })
}

/// Returns the DRAM of the handles of all tables and their indexes in bytes.
fn dram_bytes(catalog: &Catalog) -> u64 {
    let names = catalog.table_names();
    let tables = names.iter().filter_map(|name| catalog.table(name).ok());
    tables.map(|open| open.handle_bytes() as u64).sum()
}
