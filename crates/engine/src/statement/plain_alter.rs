//! `ALTER TABLE` of tables without a primary key.

use arrow_array::timezone::Tz;
use halocline_catalog::transaction::Transaction;
use halocline_columns::{add_column, rename_column, rename_table, set_cluster, set_default};
use halocline_elf::rename_index_table;
use halocline_sql::EngineError;

use super::defaults::default_of;
use super::table_changes::{Alter, Alteration, column_is_there, taken};

/// Changes the definition of a table, and returns a message. A default is read in the time zone `zone`.
///
/// # Errors
/// No such table or column, a name is taken, or a default does not fit.
pub(crate) fn alter_table(
    transaction: &mut Transaction,
    alter: &Alter,
    zone: Option<Tz>,
) -> Result<String, EngineError> {
    let (catalog, name) = (transaction.catalog(), alter.table.as_str());
    if alter.if_exists && !catalog.has_table(name) {
        return Ok(format!("there is no table {name}"));
    }
    let open = catalog.objects().table(name)?;
    let (uid, schema) = (open.table.uid(), open.table.schema().clone());
    let has = |column: &str| match schema.index_of(column) {
        Ok(_) => Ok(()),
        Err(_) => Err(EngineError::no_column(name, &schema, column)),
    };
    // The rows of the log have the columns from before.
    transaction.fold(&open)?;
    let txn = transaction.txn().clone();
    let message = match &alter.what {
        Alteration::AddColumn {
            field,
            default,
            if_not_exists,
        } => {
            if let Some(message) = column_is_there(name, &schema, field, *if_not_exists)? {
                return Ok(message);
            }
            let default = match default {
                Some(expr) => Some(default_of(name, field, expr, zone)?),
                None => None,
            };
            add_column(&txn, name, field, default.as_ref())?;
            if default.is_some() {
                set_default(&txn, name, field.name(), default.as_ref())?;
            }
            format!("table {name}: column {} added", field.name())
        }
        Alteration::Rename(to) => {
            if catalog.has_table(to) {
                return Err(taken("table", to));
            }
            rename_table(&txn, name, to)?;
            for index in catalog.indexes_of(name) {
                rename_index_table(&txn, &index, to)?;
            }
            format!("table {name} is {to} now")
        }
        Alteration::RenameColumn { from, to } => {
            has(from)?;
            if schema.index_of(to).is_ok() {
                return Err(taken("column", to));
            }
            rename_column(&txn, name, from, to)?;
            format!("table {name}: column {from} is {to} now")
        }
        Alteration::Cluster(columns) => {
            columns.iter().try_for_each(|column| has(column))?;
            set_cluster(&txn, name, (!columns.is_empty()).then_some(columns.as_slice()))?;
            if columns.is_empty() {
                format!("table {name}: rows are kept as they come from now on")
            } else {
                format!(
                    "table {name}: rows are kept in the order of {} from now on; VACUUM FULL {name} sorts those there are",
                    columns.join(", ")
                )
            }
        }
    };
    transaction.changed([uid]);
    Ok(message)
}
