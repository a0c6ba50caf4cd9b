//! `ON CONFLICT`: rows to insert whose primary key, or values of a unique constraint, are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::Schema;
use arrow_select::take::take_record_batch;
use datafusion::common::{DFSchema, TableReference};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast;
use halocline_catalog::write::BatchFitter;
use halocline_keyed::KeyRanges;
use halocline_sql::EngineError;
use halocline_sql::parse::is_default;

use super::conflict_target::ConflictTarget;
use super::keyed_changes::{KeyedChanges, ONE_ROW, USE_ON_CONFLICT};
use super::keyed_rows::KeyedTarget;
use super::row_errors::RowNames;
use super::table_changes::OnConflict;

/// The name by which expressions call the row to insert.
const EXCLUDED: &str = "excluded";

/// The planned action for rows whose primary key is there.
pub(super) enum KeyedUpsert {
    Fail,
    Nothing(ConflictTarget),
    Replace,
    Update(UpdateOnConflict),
}

/// The planned expressions of `DO UPDATE`, over the columns of the row that is there and then those of the
/// row to insert.
pub(super) struct UpdateOnConflict {
    /// Of each column of the table, its new value: the default if there is none.
    values: Vec<NewValue>,
    selection: Option<Arc<dyn PhysicalExpr>>,
    input: Arc<Schema>,
    target: ConflictTarget,
}

/// The new value of a column.
enum NewValue {
    Unchanged,
    Default,
    Assigned(Arc<dyn PhysicalExpr>),
}

impl KeyedUpsert {
    /// Plans the action of a statement.
    ///
    /// # Errors
    /// The columns named are those of no constraint; a key column is assigned; an expression cannot be
    /// planned.
    pub(super) async fn new(target: &KeyedTarget<'_>, action: &OnConflict) -> Result<Self, EngineError> {
        let named = |columns: &Option<Vec<String>>, otherwise: ConflictTarget| match columns {
            Some(columns) => ConflictTarget::of_columns(target.table, columns),
            None => Ok(otherwise),
        };
        Ok(match action {
            OnConflict::Fail => Self::Fail,
            OnConflict::Nothing(columns) => Self::Nothing(named(columns, ConflictTarget::Any)?),
            OnConflict::Replace => Self::Replace,
            OnConflict::Update {
                key,
                assignments,
                selection,
            } => {
                let conflict = named(key, ConflictTarget::Key)?;
                Self::Update(
                    UpdateOnConflict::plan(target, conflict, assignments, selection.as_deref()).await?,
                )
            }
        })
    }

    /// Returns true if conflicts of unique constraints are handled, which spilled changes do not notice.
    fn looks_at_unique(&self, target: &KeyedTarget<'_>) -> bool {
        let of = match self {
            Self::Nothing(of) => *of,
            Self::Update(update) => update.target,
            Self::Fail | Self::Replace => return false,
        };
        of != ConflictTarget::Key && !target.table.unique().is_empty()
    }

    /// Adds the rows of a batch to the changes. `first` is the number of
    /// the first row in the statement.
    ///
    /// # Errors
    /// A key is there that must not be; a value does not fit; the store cannot be read.
    pub(super) fn write(
        &self,
        target: &KeyedTarget<'_>,
        batch: &RecordBatch,
        first: u64,
        changes: &mut KeyedChanges<'_>,
    ) -> Result<(), EngineError> {
        let names = RowNames::From(first);
        match self {
            Self::Fail => changes.add(batch, names, USE_ON_CONFLICT)?,
            Self::Nothing(of) => {
                for (at, row) in changes.errors().encode(batch, names)?.into_iter().enumerate() {
                    if of.owner(&row, changes)?.is_some() {
                        continue;
                    }
                    if matches!(of, ConflictTarget::Unique(_)) && changes.has(&row.key)? {
                        return Err(changes.errors().duplicate(batch, at, names, USE_ON_CONFLICT));
                    }
                    changes.note_entries(&row)?;
                    changes.put(first + at as u64, row)?;
                }
            }
            Self::Replace => {
                for (number, row) in (first..).zip(changes.errors().encode(batch, names)?) {
                    changes.put(number, row)?;
                }
            }
            Self::Update(update) => update.write(target, batch, first, changes)?,
        }
        if changes.are_spilled() && self.looks_at_unique(target) {
            return Err(EngineError::Unsupported {
                what: format!(
                    "INSERT INTO {} with ON CONFLICT about UNIQUE columns and more rows than fit in DRAM",
                    target.table.name()
                ),
                instead: "insert fewer rows at a time".into(),
            });
        }
        Ok(())
    }
}

impl UpdateOnConflict {
    async fn plan(
        target: &KeyedTarget<'_>,
        conflict: ConflictTarget,
        assignments: &[(String, ast::Expr)],
        selection: Option<&ast::Expr>,
    ) -> Result<Self, EngineError> {
        let (table, schema) = (target.table, target.table.schema());
        for (column, _) in assignments {
            let Ok(at) = schema.index_of(column) else {
                return Err(EngineError::no_column(table.name(), schema, column));
            };
            if table.definition().key().contains(&at) {
                return Err(EngineError::Unsupported {
                    what: format!("DO UPDATE SET {column}, which belongs to the primary key"),
                    instead: "DELETE the row and INSERT it with another key".into(),
                });
            }
        }
        let of = |name: &str| DFSchema::try_from_qualified_schema(TableReference::bare(name), schema);
        let input = of(table.name())?.join(&of(EXCLUDED)?)?;
        let planned = assignments.iter().filter(|(_, expr)| !is_default(expr));
        let expressions = planned.map(|(_, expr)| expr).chain(selection).cloned().collect();
        let logical = target.planner.expressions(expressions, &input).await?;
        let state = target.planner.state();
        let physical = logical
            .into_iter()
            .map(|expr| state.create_physical_expr(expr, &input));
        let mut physical = physical.collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut values: Vec<NewValue> = schema.fields().iter().map(|_| NewValue::Unchanged).collect();
        for (column, expr) in assignments {
            values[schema.index_of(column)?] = if is_default(expr) {
                NewValue::Default
            } else {
                physical.next().map_or(NewValue::Default, NewValue::Assigned)
            };
        }
        Ok(Self {
            values,
            selection: physical.next(),
            input: Arc::clone(input.inner()),
            target: conflict,
        })
    }

    fn write(
        &self,
        target: &KeyedTarget<'_>,
        batch: &RecordBatch,
        first: u64,
        changes: &mut KeyedChanges<'_>,
    ) -> Result<(), EngineError> {
        let names = RowNames::From(first);
        let mut conflicts: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for (at, row) in changes.errors().encode(batch, names)?.into_iter().enumerate() {
            let there = match self.target {
                ConflictTarget::Unique(_) => self.target.owner(&row, changes)?,
                ConflictTarget::Any | ConflictTarget::Key => {
                    changes.was_there(&row.key)?.then(|| row.key.clone())
                }
            };
            let meant = there.as_ref().unwrap_or(&row.key);
            if changes.writes(meant) || conflicts.contains_key(meant) {
                return Err(changes.errors().duplicate(batch, at, names, ONE_ROW));
            }
            if let Some(owner) = there {
                conflicts.insert(owner, at as u32);
                continue;
            }
            if matches!(self.target, ConflictTarget::Unique(_)) {
                if changes.was_there(&row.key)? {
                    return Err(changes.errors().duplicate(batch, at, names, USE_ON_CONFLICT));
                }
                changes.note_entries(&row)?;
            }
            changes.put(first + at as u64, row)?;
        }
        if conflicts.is_empty() {
            return Ok(());
        }
        let new = take_record_batch(batch, &UInt32Array::from_iter_values(conflicts.values().copied()))?;
        let numbers: Vec<u64> = conflicts.values().map(|at| first + u64::from(*at)).collect();
        let all: Vec<usize> = (0..target.table.schema().fields().len()).collect();
        let ranges = KeyRanges::keys(conflicts.into_keys());
        let there = target
            .table
            .scan(&target.view, ranges, &all)
            .next_batch(usize::MAX)?;
        match there {
            Some(there) => self.update(target, &there, &new, &numbers, changes),
            None => Ok(()),
        }
    }

    /// Updates rows that are there by those to insert, which have the same keys, and these numbers in the
    /// statement.
    fn update(
        &self,
        target: &KeyedTarget<'_>,
        there: &RecordBatch,
        new: &RecordBatch,
        numbers: &[u64],
        changes: &mut KeyedChanges<'_>,
    ) -> Result<(), EngineError> {
        let columns: Vec<ArrayRef> = there.columns().iter().chain(new.columns()).cloned().collect();
        let input = RecordBatch::try_new(Arc::clone(&self.input), columns)?;
        let rows = input.num_rows();
        let selected: Vec<u32> = match &self.selection {
            None => (0..rows as u32).collect(),
            Some(selection) => {
                let truth = selection.evaluate(&input)?.into_array(rows)?;
                let truth = truth.as_boolean();
                let is_true = |row: &u32| truth.is_valid(*row as usize) && truth.value(*row as usize);
                (0..rows as u32).filter(is_true).collect()
            }
        };
        let numbers: Vec<u64> = selected.iter().map(|row| numbers[*row as usize]).collect();
        let input = take_record_batch(&input, &UInt32Array::from(selected))?;
        let (mut values, mut from) = (Vec::new(), Vec::new());
        for (column, value) in self.values.iter().enumerate() {
            let value = match value {
                NewValue::Default => {
                    from.push(None);
                    continue;
                }
                NewValue::Unchanged => Arc::clone(input.column(column)),
                NewValue::Assigned(expr) => expr.evaluate(&input)?.into_array(input.num_rows())?,
            };
            from.push(Some(values.len()));
            values.push((format!("value {column}"), value, true));
        }
        let updated = RecordBatch::try_from_iter_with_nullable(values)?;
        let statement = format!("INSERT INTO {}", target.table.name());
        let mut fit = BatchFitter::new(statement, target.table.schema(), from)
            .with_defaults(&**target.table)
            .in_zone(target.planner.time_zone());
        let names = RowNames::Numbers(&numbers);
        let updated = changes.errors().fit(&mut fit, &updated, names)?;
        for (number, row) in numbers.iter().zip(changes.errors().encode(&updated, names)?) {
            changes.put(*number, row)?;
        }
        Ok(())
    }
}
