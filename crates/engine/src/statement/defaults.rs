//! Default values: in `CREATE TABLE` and `ALTER TABLE`, and in place of the word DEFAULT.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::timezone::Tz;
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, Value};
use halocline_catalog::write::{BatchFitter, WrittenTable, arrange, literals};
use halocline_sql::EngineError;
use halocline_sql::literal_expr::literal_expr;
use halocline_sql::parse::is_default;
use halocline_values::storable::storable_type;

/// Returns the default of a column as an array of one value of the type that a table keeps. A timestamp
/// without time zone is read in `zone`; none is UTC.
///
/// # Errors
/// It is no literal, none of the column's type, or NULL for a NOT NULL column.
pub(crate) fn default_of(
    table: &str,
    field: &Field,
    expr: &Expr,
    zone: Option<Tz>,
) -> Result<ArrayRef, EngineError> {
    let data_type = storable_type(field.data_type());
    let field = Field::new(field.name(), data_type, field.is_nullable());
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let fitted = literals(table, &[vec![expr.clone()]], schema.fields(), None, zone).and_then(|batch| {
        let mut fitter = BatchFitter::new(table, &schema, vec![Some(0)]).in_zone(zone);
        fitter.batch(&batch)
    });
    match fitted {
        Ok(batch) => Ok(Arc::clone(batch.column(0))),
        Err(EngineError::Value { column, reason, .. }) => Err(EngineError::Default {
            table: table.to_string(),
            column,
            reason,
        }),
        Err(error) => Err(error),
    }
}

/// Returns the source of an `INSERT` into `columns` of a table (all, if none is named), with the defaults in
/// place of the words DEFAULT among its `VALUES`.
///
/// # Errors
/// No such column.
pub(crate) fn spelled_out(
    mut query: Box<Query>,
    table: &dyn WrittenTable,
    columns: &[String],
) -> Result<Box<Query>, EngineError> {
    let SetExpr::Values(values) = &mut *query.body else {
        return Ok(query);
    };
    let from = arrange(table.name(), table.schema(), columns)?;
    for row in &mut values.rows {
        for (at, expr) in row.content.iter_mut().enumerate() {
            let column = from.iter().position(|from| *from == Some(at));
            if let (Some(column), true) = (column, is_default(expr)) {
                *expr = match table.default_value(column) {
                    Some(value) => literal_expr(&ScalarValue::try_from_array(value, 0)?)?,
                    None => Expr::value(Value::Null),
                };
            }
        }
    }
    Ok(query)
}
