//! Values as a table's types, and the row to blame when one is none.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use arrow_select::take::take;
use halocline_columns::TableRules;
use halocline_sql::EngineError;
use halocline_values::convert;
use halocline_values::sql_name;

use super::row_rules::RowRules;
use super::written_table::WrittenTable;

/// Fits batches of one statement to a table's columns, counting their rows.
#[derive(Debug)]
pub struct BatchFitter {
    statement: String,
    schema: SchemaRef,
    /// Of each column of the table, the column of the batches.
    from: Vec<Option<usize>>,
    /// Of each column of the table, the value where there is none; NULL beyond the end.
    defaults: Vec<Option<ArrayRef>>,
    /// The time zone of timestamps that have none; none is UTC.
    zone: Option<Tz>,
    /// The rules that the rows obey, and the name of the table.
    rules: Option<(Arc<TableRules>, String)>,
    rows: u64,
}

impl BatchFitter {
    /// Creates a fitter for a statement, with the name for errors, and a table; `from` is the result of
    /// [`arrange`].
    pub fn new(statement: impl Into<String>, schema: &SchemaRef, from: Vec<Option<usize>>) -> Self {
        Self {
            statement: statement.into(),
            schema: Arc::clone(schema),
            from,
            defaults: Vec::new(),
            zone: None,
            rules: None,
            rows: 0,
        }
    }

    /// Fills columns that the batches lack with the defaults of the table instead of NULL, and applies the
    /// rules of the table.
    pub fn with_defaults(mut self, table: &dyn WrittenTable) -> Self {
        let default = |(column, from): (usize, &Option<usize>)| match from {
            Some(_) => None,
            None => table.default_value(column).cloned(),
        };
        self.defaults = self.from.iter().enumerate().map(default).collect();
        self.with_rules(table.name(), table.rules())
    }

    /// Applies the rules of a table, which has the columns of the fitter, to the rows.
    pub fn with_rules(self, table: &str, rules: &Arc<TableRules>) -> Self {
        let rules = (!rules.is_empty()).then(|| (Arc::clone(rules), table.to_owned()));
        Self { rules, ..self }
    }

    /// Reads timestamps without time zone in `zone` instead of UTC.
    pub fn in_zone(self, zone: Option<Tz>) -> Self {
        Self { zone, ..self }
    }

    /// Returns the batch with the table's columns and types.
    ///
    /// # Errors
    /// A value that is none of its column's type, or NULL in a NOT NULL column; the error names column and
    /// row. Those of [`RowRules::apply`].
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let rows = batch.num_rows();
        let column = |(column, field): (usize, &Arc<Field>)| match self.from[column] {
            Some(from) => self.column(field, batch.column(from)),
            None => self.column(field, &self.left_out(column, field.data_type(), rows)?),
        };
        let columns = self.schema.fields().iter().enumerate().map(column);
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let mut fitted = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        if let Some((rules, table)) = &self.rules {
            let rules = rules.prepared(|rules| RowRules::plan(table, &self.schema, rules))?;
            fitted = rules.apply(&self.statement, self.rows, fitted)?;
        }
        self.rows += rows as u64;
        Ok(fitted)
    }

    /// Returns the number of rows in the batches so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the value of a column of the table in a row of a batch, before it is fitted, as an array of
    /// one value.
    pub fn given(&self, batch: &RecordBatch, column: usize, row: usize) -> ArrayRef {
        match (self.from[column], self.defaults.get(column)) {
            (Some(from), _) => batch.column(from).slice(row, 1),
            (None, Some(Some(default))) => Arc::clone(default),
            (None, _) => new_null_array(self.schema.field(column).data_type(), 1),
        }
    }

    /// Returns the values of a column that the batches lack.
    fn left_out(&self, column: usize, data_type: &DataType, rows: usize) -> Result<ArrayRef, EngineError> {
        match self.defaults.get(column).and_then(Option::as_ref) {
            None => Ok(new_null_array(data_type, rows)),
            Some(default) if rows == 1 => Ok(Arc::clone(default)),
            Some(default) => {
                take(default, &UInt32Array::from(vec![0; rows]), None).map_err(EngineError::from)
            }
        }
    }

    fn column(&self, field: &Field, values: &ArrayRef) -> Result<ArrayRef, EngineError> {
        let wrong = |row: usize, reason: String| EngineError::Value {
            statement: self.statement.clone(),
            row: self.rows + row as u64 + 1,
            column: field.name().clone(),
            reason,
        };
        let converted = |values: &ArrayRef| convert(values, field.data_type(), false, self.zone);
        let fitted = converted(values).map_err(|error| {
            // The kernels do not report the row.
            let fails = |row: &usize| converted(&values.slice(*row, 1)).is_err();
            match (0..values.len()).find(fails) {
                Some(row) => wrong(row, no_value(&values.slice(row, 1), field, &error)),
                None => wrong(0, error.to_string()),
            }
        })?;
        if let Some(row) = fitted.nulls().filter(|_| !field.is_nullable()).and_then(|nulls| {
            // An array without NULLs may have room for them all the same.
            nulls.iter().position(|valid| !valid)
        }) {
            return Err(wrong(row, "is NULL, but the column is NOT NULL".into()));
        }
        Ok(fitted)
    }
}

/// Maps each column of a table to its position among the `columns` of a statement, which are all in order if
/// none is named.
///
/// # Errors
/// A column that the table does not have, or one named twice.
pub fn arrange(
    table: &str,
    schema: &SchemaRef,
    columns: &[String],
) -> Result<Vec<Option<usize>>, EngineError> {
    if columns.is_empty() {
        return Ok((0..schema.fields().len()).map(Some).collect());
    }
    for (at, name) in columns.iter().enumerate() {
        if schema.index_of(name).is_err() {
            return Err(EngineError::no_column(table, schema, name));
        }
        if columns[..at].contains(name) {
            let text = format!("column '{name}' is named twice; name it once");
            return Err(EngineError::Query(text));
        }
    }
    let from = |field: &Arc<Field>| columns.iter().position(|name| name == field.name());
    Ok(schema.fields().iter().map(from).collect())
}

/// Returns the reason why a value cannot be cast.
fn no_value(value: &ArrayRef, field: &Field, error: &ArrowError) -> String {
    match arrow_cast::display::array_value_to_string(value, 0) {
        Ok(text) => format!("'{text}' is not a value of type {}", sql_name(field.data_type())),
        Err(_) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Decimal128Type;
    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::Schema;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("i", DataType::Int8, false),
            Field::new("s", DataType::Utf8View, true),
            Field::new("p", DataType::Decimal128(38, 2), true),
        ]))
    }

    fn fit(columns: Vec<(&str, ArrayRef)>, named: &[&str]) -> Result<RecordBatch, String> {
        let named: Vec<String> = named.iter().map(|name| (*name).to_string()).collect();
        let from = arrange("t", &schema(), &named).map_err(|e| e.to_string())?;
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)));
        let mut fit = BatchFitter::new("INSERT INTO t", &schema(), from);
        fit.batch(&batch.unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn missing_columns_are_null_and_errors_name_the_row() {
        let ints = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let fitted = fit(vec![("x", ints(vec![Some(1), Some(-128)]))], &["i"]).unwrap();
        assert_eq!((fitted.num_columns(), fitted.column(1).null_count()), (3, 2));
        let texts = Arc::new(StringArray::from(vec!["1", "x", "y"])) as ArrayRef;
        for (column, error) in [
            (
                ints(vec![Some(1), Some(128)]),
                "row 2, column i: '128' is not a value of type tinyint",
            ),
            (
                ints(vec![Some(1), None]),
                "row 2, column i: is NULL, but the column is NOT NULL",
            ),
            (texts, "row 2, column i: 'x' is not a value of type tinyint"),
        ] {
            assert_eq!(
                fit(vec![("x", column)], &["i"]).unwrap_err(),
                format!("INSERT INTO t, {error}")
            );
        }
        let wide = |text: &str| {
            let texts = Arc::new(StringArray::from(vec!["1.00", text])) as ArrayRef;
            let columns = vec![("i", ints(vec![Some(1), Some(2)])), ("p", texts)];
            fit(columns, &["i", "p"])
        };
        let fitted = wide("123456789012345678901234567890123456.78").unwrap();
        let decimals = fitted.column(2).as_primitive::<Decimal128Type>();
        assert_eq!(
            decimals.value(1),
            12_345_678_901_234_567_890_123_456_789_012_345_678
        );
        let error = wide("1234567890123456789012345678901234567").unwrap_err();
        assert!(
            error.starts_with(
                "INSERT INTO t, row 2, column p: '1234567890123456789012345678901234567' is not"
            ),
            "{error}"
        );
        let error = fit(vec![("s", ints(vec![Some(1)]))], &["s"]).unwrap_err();
        assert!(error.contains("column i: is NULL"), "{error}");
    }

    #[test]
    fn columns_must_be_there_and_named_once() {
        let error = |names: &[&str]| fit(vec![], names).unwrap_err();
        assert!(error(&["i", "i"]).contains("named twice"));
        assert_eq!(
            error(&["j"]),
            "table 't' has no column 'j'; its columns are i, s, p"
        );
    }
}
