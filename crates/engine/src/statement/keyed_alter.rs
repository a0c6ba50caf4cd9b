//! `ALTER TABLE` of tables with a primary key.
//!
//! Outside of a transaction, names, defaults, added columns and dropped constraints are changed in the
//! definition alone. Otherwise the rows make a new table, which takes the place of the old one together with
//! the transaction: statements that write to the old one meanwhile are run again, with the new definition.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use halocline_catalog::Catalog;
use halocline_catalog::memory::WriterShare;
use halocline_import::TemporaryFiles;
use halocline_keyed::{
    KeyedError, KeyedRedefinition, KeyedTable, KeyedTables, KeyedView, TableDefinition, UnpublishedTable,
};
use halocline_scan::keyed::KeyedProvider;
use halocline_sql::EngineError;
use halocline_store::{LoadOptions, Stores};

use super::draft_rows::plan_rows;
use super::keyed_rows::ATTEMPTS;
use super::keyed_table::{FoundTable, KeyedTableKind};
use super::row_errors::{KeyedRowErrors, RowNames};
use super::run::StatementRun;
use super::table_changes::{Alter, Alteration, Alterations, taken};
use super::table_draft::{ColumnSource, TableDraft};
use super::table_kind::is_taken;

/// Most bytes of DRAM of the sort: more makes no merge faster.
const MAX_MEMORY: usize = 256 << 20;

/// A hint for rows that get the same key.
const KEEP_KEYS_APART: &str = "convert the key such that no two rows have the same one, by USING";

/// The rows of a table with new columns.
struct RedefinedRows {
    rows: KeyedRedefinition,
    statement: String,
    /// The memory of the sort.
    _share: WriterShare,
}

impl StatementRun<'_> {
    /// Changes the definition of a table, and returns a message.
    ///
    /// # Errors
    /// No such column or constraint; a name is taken; a default does not fit; a row does not fit the new
    /// definition; a table is renamed in a transaction.
    pub(super) async fn alter_keyed(
        &self,
        (tables, table): FoundTable,
        alter: Alter,
    ) -> Result<String, EngineError> {
        match alter.what {
            Alterations::Rename(to) => {
                let slot = self.session.slot();
                slot.must_be_idle("ALTER TABLE … RENAME TO of a table with a primary key")?;
                if is_taken(self, &to, &KeyedTableKind)? {
                    return Err(taken("table", &to));
                }
                let name = alter.table;
                self.blocking(move |_, _| {
                    tables.rename(&name, &to)?;
                    Ok(format!("table {name} is {to} now"))
                })
                .await
            }
            Alterations::Definition(alterations) => self.redefine_keyed(tables, table, &alterations).await,
        }
    }

    async fn redefine_keyed(
        &self,
        tables: Arc<KeyedTables>,
        mut table: Arc<KeyedTable>,
        alterations: &[Alteration],
    ) -> Result<String, EngineError> {
        // The open transaction sees tables of both kinds as of one moment, which may be this one.
        let catalog = self.session.catalog(self.engine)?;
        let slot = Arc::clone(self.session.slot());
        if let Some(transaction) = slot.keyed_transaction(tables.stores(), &self.engine.pool)? {
            let view = KeyedView::Transaction(Arc::clone(&transaction));
            if let Some(seen) = tables.table_in(table.name(), &view)? {
                table = seen;
            }
            let draft = self.keyed_draft(&table, alterations)?;
            if draft.is_changed() {
                let rows = self.redefined_rows(&catalog, &table, &view, &draft).await?;
                slot.check_writes_keyed(&transaction)?;
                let cancel = self.cancel_flag();
                self.blocking(move |_, _| {
                    let new = rows.finish(&tables, &view, &cancel)?;
                    slot.replace_keyed(&transaction, &tables, new, &table)
                })
                .await?;
            }
            return Ok(draft.message());
        }
        for _ in 0..ATTEMPTS {
            let draft = self.keyed_draft(&table, alterations)?;
            if !draft.is_changed() {
                return Ok(draft.message());
            }
            let (name, of) = (table.name().to_owned(), Arc::clone(&tables));
            let changed = if draft.rewrites() || draft.looks_at_rows() {
                self.replace_keyed_once(&tables, table, &draft).await
            } else {
                change_definition(&tables, &table, &draft)
            };
            match changed {
                Ok(()) => {
                    self.blocking(move |_, _| {
                        of.drop_replaced();
                        Ok(())
                    })
                    .await?;
                    return Ok(draft.message());
                }
                Err(EngineError::Keyed(error)) if matches!(*error, KeyedError::Changed { .. }) => {}
                Err(error) => return Err(error),
            }
            table = tables.existing(&name)?;
        }
        Err(EngineError::TooManyConflicts {
            statement: format!("ALTER TABLE {}", table.name()),
            attempts: ATTEMPTS,
        })
    }

    /// Returns the draft of the new definition.
    fn keyed_draft(&self, table: &KeyedTable, alterations: &[Alteration]) -> Result<TableDraft, EngineError> {
        let definition = table.definition();
        let key = definition.key().iter();
        let key = key.map(|at| definition.schema().field(*at).name().clone());
        let mut draft = TableDraft::new(table, key.collect(), None, self.session.time_zone());
        draft.change(alterations)?;
        if let Some(column) = draft.without_value()
            && !table.store().is_empty()
        {
            return Err(EngineError::Default {
                table: table.name().to_owned(),
                column: column.to_owned(),
                reason: "is missing, but the column is NOT NULL and there are rows; add DEFAULT".into(),
            });
        }
        Ok(draft)
    }

    /// Makes a new table of the rows, which takes the place of the old one, in a transaction of its own.
    ///
    /// # Errors
    /// [`KeyedError::Changed`] if others have changed the table meanwhile; a row does not fit.
    async fn replace_keyed_once(
        &self,
        tables: &Arc<KeyedTables>,
        table: Arc<KeyedTable>,
        draft: &TableDraft,
    ) -> Result<(), EngineError> {
        let (catalog, transaction) = self.engine.moment(Stores::begin)?;
        let transaction = transaction.unwrap_or_else(|| tables.stores().begin());
        let transaction = Arc::new(Mutex::new(transaction));
        let view = KeyedView::Transaction(Arc::clone(&transaction));
        let rows = self.redefined_rows(&catalog, &table, &view, draft).await?;
        drop(catalog);
        let (tables, cancel) = (Arc::clone(tables), self.cancel_flag());
        self.blocking(move |_, _| {
            let new = rows.finish(&tables, &view, &cancel)?;
            drop(view);
            let mut held = transaction.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = std::mem::replace(&mut *held, tables.stores().begin());
            tables.publish_rewritten(new, &table, transaction)?;
            Ok(())
        })
        .await
    }

    /// Reads all rows of a table with the columns of a draft.
    async fn redefined_rows(
        &self,
        catalog: &Arc<Catalog>,
        table: &Arc<KeyedTable>,
        view: &KeyedView,
        draft: &TableDraft,
    ) -> Result<RedefinedRows, EngineError> {
        // Reserved before the query starts, which might otherwise take all of the memory.
        let (share, files) = (self.engine.writer_share(), Arc::clone(&self.engine.spill_files));
        let memory = share.options.memory.min(MAX_MEMORY);
        let options = LoadOptions::new(memory, Arc::new(move || files.file()));
        let mut rows = KeyedRedefinition::new(table, definition_of(draft)?, &options);
        let new = Arc::clone(rows.table());
        let errors = KeyedRowErrors::new(&new, draft.statement());
        view.depend_on_all(table.store());
        let planner = self.session.planner_with(catalog, Some(view.clone()));
        let provider = KeyedProvider::new(Arc::clone(table), view.clone());
        let plan = plan_rows(&planner, Arc::new(provider), draft).await?;
        let (mut batches, mut fitter) = (planner.start(&plan).await?, draft.fitter());
        while let Some(batch) = batches.next().await {
            let names = RowNames::From(fitter.rows() + 1);
            let batch = errors.fit(&mut fitter, &batch?, names)?;
            let added = rows.add(&batch);
            added.map_err(|error| errors.of_encoding(&batch, names, error))?;
        }
        Ok(RedefinedRows {
            rows,
            statement: draft.statement(),
            _share: share,
        })
    }
}

impl RedefinedRows {
    /// Makes the new table.
    fn finish(
        self,
        tables: &KeyedTables,
        view: &KeyedView,
        cancel: &AtomicBool,
    ) -> Result<UnpublishedTable, EngineError> {
        let new = Arc::clone(self.rows.table());
        let errors = KeyedRowErrors::new(&new, self.statement);
        let finished = self.rows.finish(tables, view, cancel);
        finished.map_err(|error| match error {
            KeyedError::DuplicateRow { key, .. } => errors.duplicate_key(&key, None, KEEP_KEYS_APART),
            KeyedError::Cancelled { .. } => EngineError::Cancelled,
            error => errors.of_load(error),
        })
    }
}

/// Returns the definition of the new table.
fn definition_of(draft: &TableDraft) -> Result<TableDefinition, EngineError> {
    let mut definition = TableDefinition::new(draft.table(), &draft.schema(), &draft.key())?;
    for (at, column) in draft.columns().iter().enumerate() {
        definition.set_default(at, column.default.clone());
    }
    definition.set_rules(draft.rules().to_vec());
    Ok(definition)
}

/// Changes the definition of a table, and no row.
///
/// # Errors
/// [`KeyedError::Changed`] if it is not the one any more that the draft was made of.
fn change_definition(
    tables: &KeyedTables,
    table: &KeyedTable,
    draft: &TableDraft,
) -> Result<(), EngineError> {
    let changed = tables.alter(table.name(), |definition| {
        if *definition != *table.definition() {
            return Err(KeyedError::Changed {
                table: table.name().to_owned(),
            });
        }
        for (at, column) in draft.columns().iter().enumerate() {
            if let ColumnSource::Added(value) = &column.source {
                definition.add_column(&column.field, value.clone())?;
            } else {
                definition.rename_column(at, column.field.name());
                if column.field.is_nullable() {
                    definition.set_nullable(at);
                }
            }
            definition.set_default(at, column.default.clone());
        }
        definition.set_rules(draft.rules().to_vec());
        Ok(())
    });
    Ok(changed?)
}
