//! Columns of `VALUES` in which decimals meet floats: they are floats, as decimals and floats are elsewhere.
//!
//! DataFusion makes such a column one of decimals of 15 digits after the point while it plans the statement,
//! and casts the floats, of which little may be left. [`mark_casts`] doubles the casts to decimals that the
//! statement itself has, so that a cast right over a float is one that DataFusion added.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, Values};
use datafusion::sql::sqlparser::ast::{self, CastKind, UnaryOperator};

use super::numbers::float_literal;
use super::rules::{meeting, type_of};

/// Doubles a cast to a decimal that is the whole of a cell.
pub(super) fn mark_cast(cell: &mut ast::Expr) {
    match cell {
        ast::Expr::Nested(inner)
        | ast::Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        } => mark_cast(inner),
        ast::Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            data_type:
                data_type @ (ast::DataType::Decimal(_) | ast::DataType::Numeric(_) | ast::DataType::Dec(_)),
            ..
        } => {
            let data_type = data_type.clone();
            *cell = ast::Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(cell.clone()),
                data_type,
                array: false,
                format: None,
            };
        }
        _ => {}
    }
}

/// Makes columns of decimals that were given floats columns of floats.
pub(super) fn with_floats(mut values: Values) -> Result<Values> {
    let cells_of = DFSchema::empty();
    let mut fields: Vec<Arc<Field>> = values.schema.fields().iter().cloned().collect();
    for (column, field) in fields.iter_mut().enumerate() {
        if !field.data_type().is_decimal() {
            continue;
        }
        let cells = values.values.iter().filter_map(|row| row.get(column));
        let types: Vec<DataType> = cells
            .map(|cell| type_of(written(cell, field.data_type()), &cells_of))
            .chain([field.data_type().clone()])
            .collect();
        let Some(to) = meeting(types.iter()) else {
            continue;
        };
        for row in &mut values.values {
            if let Some(cell) = row.get_mut(column) {
                *cell = floated(written(cell, field.data_type()), &to, &cells_of)?;
            }
        }
        *field = Arc::new(field.as_ref().clone().with_data_type(to));
    }
    if fields
        .iter()
        .zip(values.schema.fields())
        .any(|(new, old)| new != old)
    {
        let metadata = values.schema.metadata().clone();
        let schema = DFSchema::from_unqualified_fields(fields.into(), metadata)?;
        values.schema = Arc::new(schema);
    }
    Ok(values)
}

/// Returns a cell without the cast to the type of its column.
fn written<'a>(cell: &'a Expr, of_column: &DataType) -> &'a Expr {
    match cell {
        Expr::Cast(Cast { expr, field }) if field.data_type() == of_column => expr,
        other => other,
    }
}

fn floated(cell: &Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    if let Expr::Literal(value, metadata) = cell {
        if value.is_null() {
            return Ok(Expr::Literal(ScalarValue::try_from(to)?, metadata.clone()));
        }
        if let Some(float) = float_literal(value, *to == DataType::Float32) {
            return Ok(Expr::Literal(float, metadata.clone()));
        }
    }
    Ok(if type_of(cell, schema) == *to {
        cell.clone()
    } else {
        Expr::Cast(Cast::new(Box::new(cell.clone()), to.clone()))
    })
}
