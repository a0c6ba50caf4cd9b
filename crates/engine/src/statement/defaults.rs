//! Default values: in `CREATE TABLE` and `ALTER TABLE`, and in place of the word DEFAULT.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use halocline_columns::Table;

use crate::EngineError;
use crate::storable::storable_type;
use crate::write::{BatchFitter, arrange, is_default, literals};

/// Returns the default of a column as an array of one value of the type that a table keeps.
///
/// # Errors
/// It is no literal, none of the column's type, or NULL for a NOT NULL column.
pub(crate) fn default_of(table: &str, field: &Field, expr: &Expr) -> Result<ArrayRef, EngineError> {
    let data_type = storable_type(field.data_type());
    let field = Field::new(field.name(), data_type, field.is_nullable());
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let fitted = literals(table, &[vec![expr.clone()]], schema.fields(), None)
        .and_then(|batch| BatchFitter::new(table, &schema, vec![Some(0)]).batch(&batch));
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
    table: &Table,
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
                *expr = expression(table.default_value(column))?;
            }
        }
    }
    Ok(query)
}

/// Returns a SQL expression with the value and the type of a default.
fn expression(default: Option<&ArrayRef>) -> Result<Expr, EngineError> {
    let wrong = |error: &dyn std::fmt::Display| EngineError::Query(error.to_string());
    let sql = match default {
        None => "NULL".to_string(),
        Some(value) => {
            let text = array_value_to_string(value, 0).map_err(|error| wrong(&error))?;
            match value.data_type() {
                DataType::Binary | DataType::BinaryView => format!("X'{text}'"),
                other => format!("arrow_cast('{}', '{other}')", text.replace('\'', "''")),
            }
        }
    };
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&sql);
    parser
        .and_then(|mut parser| parser.parse_expr())
        .map_err(|error| wrong(&error))
}
