//! `ALTER TABLE` of tables without a primary key.
//!
//! Names, defaults and added columns are changed in the metadata alone. Where values change or go, the rows
//! are written anew, as a query streams them, and the indexes are built again. Both are part of the
//! transaction, like every change of such a table.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use halocline_catalog::OpenTable;
use halocline_catalog::transaction::Transaction;
use halocline_catalog::write::{BatchFitter, TableWriteTask};
use halocline_columns::{
    ColumnRedefinition, TableProperties, add_column, create_table, redefine_columns, rename_table,
    set_cluster, set_default, set_rules,
};
use halocline_elf::rename_index_table;
use halocline_scan::plan::PoolTable;
use halocline_sql::EngineError;

use super::draft_rows::plan_rows;
use super::kept_indexes::KeptIndexes;
use super::plain_drop::drop_table;
use super::run::StatementRun;
use super::table_changes::{Alteration, taken};
use super::table_draft::{ColumnSource, DraftColumn, TableDraft};

/// Gives a table another name, and returns a message.
///
/// # Errors
/// No such table (unless `if_exists`); the name is taken.
pub(super) fn rename(
    transaction: &mut Transaction,
    (name, if_exists): (&str, bool),
    to: &str,
) -> Result<String, EngineError> {
    let catalog = transaction.catalog();
    if if_exists && !catalog.has_table(name) {
        return Ok(format!("there is no table {name}"));
    }
    let open = catalog.objects().table(name)?;
    let uid = open.table.uid();
    if catalog.has_table(to) {
        return Err(taken("table", to));
    }
    // The rows of the log have the name from before.
    transaction.fold(&open)?;
    let txn = Arc::clone(transaction.txn());
    rename_table(&txn, name, to)?;
    for index in catalog.indexes_of(name) {
        rename_index_table(&txn, &index, to)?;
    }
    transaction.changed([uid]);
    Ok(format!("table {name} is {to} now"))
}

impl StatementRun<'_> {
    /// Changes the definition of a table, and returns a message.
    ///
    /// # Errors
    /// No such table (unless `if_exists`), column or constraint; a name is taken; a default does not fit; a
    /// row does not fit the new definition.
    pub(super) async fn alter_plain(
        &self,
        (table, if_exists): (String, bool),
        alterations: Vec<Alteration>,
    ) -> Result<String, EngineError> {
        let mut held = self.take("ALTER TABLE").await?;
        let altered = self
            .alter_in(&mut held.transaction, (&table, if_exists), &alterations)
            .await;
        let cancel = self.cancel_flag();
        self.blocking(move |_, _| {
            let transaction = &mut held.transaction;
            let said = altered.and_then(|(message, kept)| {
                let indexes = kept.rebuild(transaction, &cancel)?;
                Ok(message + &indexes)
            });
            held.finish(said, &cancel)
        })
        .await
    }

    /// Changes the definition in a transaction. Returns a message, and indexes to build again.
    async fn alter_in(
        &self,
        transaction: &mut Transaction,
        (table, if_exists): (&str, bool),
        alterations: &[Alteration],
    ) -> Result<(String, KeptIndexes), EngineError> {
        let catalog = transaction.catalog();
        if if_exists && !catalog.has_table(table) {
            return Ok((format!("there is no table {table}"), KeptIndexes::default()));
        }
        let open = catalog.objects().table(table)?;
        let zone = self.session.time_zone();
        let mut draft = TableDraft::new(&open.table, Vec::new(), open.table.cluster(), zone);
        draft.change(alterations)?;
        if !draft.is_changed() {
            return Ok((draft.message(), KeptIndexes::default()));
        }
        // The rows of the log have the columns from before.
        transaction.fold(&open)?;
        transaction.changed([open.table.uid()]);
        drop((open, catalog));
        let open = transaction.catalog().table(table)?;
        let kept = if draft.rewrites() || has_stored_nulls(&open, &draft) {
            self.write_anew(transaction, &open, &draft).await?
        } else {
            if draft.looks_at_rows() && open.live_rows() > 0 {
                let mut rows = self.rows_of(transaction, &open, &draft).await?;
                let mut fitter = draft.fitter();
                while let Some(batch) = rows.next().await {
                    fitter.batch(&batch?)?;
                }
            }
            redefine(transaction, &open, &draft)?;
            KeptIndexes::default()
        };
        Ok((draft.message(), kept))
    }

    /// Starts the query for the rows with the columns of a draft.
    async fn rows_of(
        &self,
        transaction: &mut Transaction,
        open: &Arc<OpenTable>,
        draft: &TableDraft,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        let planner = self.session.planner(&transaction.catalog());
        let rows = Arc::new(PoolTable::new(Arc::clone(open)));
        let plan = plan_rows(&planner, rows, draft).await?;
        planner.start(&plan).await
    }

    /// Writes the rows to a new table in place of the old one. Returns the indexes of the old one.
    async fn write_anew(
        &self,
        transaction: &mut Transaction,
        open: &Arc<OpenTable>,
        draft: &TableDraft,
    ) -> Result<KeptIndexes, EngineError> {
        let (name, schema) = (draft.table(), draft.schema());
        let mut kept = KeptIndexes::read(transaction, name);
        kept.rename_columns(|column| draft.name_of(column));
        // Reserved before the query starts, which might otherwise take all of the memory.
        let share = transaction.engine().writer_share();
        // The copy gets checksums of its own: what was intact once need not be so any more.
        self.engine.pool.forget_verified();
        let rows = self.rows_of(transaction, open, draft).await?;
        let properties = TableProperties {
            cluster: draft.cluster().map(<[String]>::to_vec),
            encoding: open.table.encoding(),
        };
        drop_table(transaction, name)?;
        create_table(transaction.txn(), name, &schema, &properties)?;
        for DraftColumn { field, default, .. } in draft.columns() {
            if default.is_some() {
                set_default(transaction.txn(), name, field.name(), default.as_ref())?;
            }
        }
        set_rules(transaction.txn(), name, draft.rules())?;
        let writing = TableWriteTask::start(transaction.txn(), name, share);
        let fed = feed(rows, draft.fitter(), &writing).await;
        writing.finish(fed).await?;
        transaction.changed([]);
        Ok(kept)
    }
}

/// Sends all rows to the writer, or until the writer has failed; its error is returned when it is finished.
async fn feed(
    mut rows: SendableRecordBatchStream,
    mut fitter: BatchFitter,
    writing: &TableWriteTask,
) -> Result<(), EngineError> {
    while let Some(batch) = rows.next().await {
        if !writing.send(fitter.batch(&batch?)?).await {
            break;
        }
    }
    Ok(())
}

/// Returns true if a column that is to be NOT NULL is NULL in a segment: in a deleted row, or else the
/// statement fails when it reads the row.
fn has_stored_nulls(open: &OpenTable, draft: &TableDraft) -> bool {
    draft.columns().iter().any(|column| match column.source {
        ColumnSource::Stored(at) if !column.field.is_nullable() => {
            let mut segments = open.table.segments().iter();
            segments.any(|segment| segment.column(at).null_count() > 0)
        }
        _ => false,
    })
}

/// Changes the metadata of a table.
fn redefine(transaction: &mut Transaction, open: &OpenTable, draft: &TableDraft) -> Result<(), EngineError> {
    let (txn, name) = (Arc::clone(transaction.txn()), draft.table());
    let is_added = |column: &&DraftColumn| matches!(column.source, ColumnSource::Added(_));
    let stored = draft.columns().iter().filter(|column| !is_added(column));
    let stored = stored.map(|column| ColumnRedefinition {
        name: column.field.name().clone(),
        nullable: column.field.is_nullable(),
        default: column.default.clone(),
    });
    redefine_columns(&txn, name, &stored.collect::<Vec<_>>())?;
    for column in draft.columns() {
        let ColumnSource::Added(value) = &column.source else {
            continue;
        };
        add_column(&txn, name, &column.field, value.as_ref())?;
        if column.default.is_some() {
            set_default(&txn, name, column.field.name(), column.default.as_ref())?;
        }
    }
    set_cluster(&txn, name, draft.cluster())?;
    set_rules(&txn, name, draft.rules())?;
    transaction.changed([open.table.uid()]);
    Ok(())
}
