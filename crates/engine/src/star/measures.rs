//! Measures: aggregated expressions over columns of the fact table, translated for the star join.

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use halocline_joins::star::{Measure, Width};

use super::aggregates::is_countable;
use super::bounds::{are_finite, integer_bounds};
use super::typed_measure::TypedMeasure;
use crate::catalog::OpenTable;
use crate::semantics::arithmetic;

/// A translator of expressions.
pub(super) struct MeasureReader<'a> {
    pub(super) open: &'a OpenTable,
    /// Columns that they measure.
    pub(super) measured: &'a mut Vec<usize>,
}

impl MeasureReader<'_> {
    /// Translates an expression over the fact table; none if the join does not support it.
    pub(super) fn read(&mut self, expr: &Expr) -> Option<TypedMeasure> {
        match expr {
            Expr::Alias(alias) => self.read(&alias.expr),
            Expr::Column(column) => self.column(&column.name),
            Expr::Literal(value, _) => literal(value),
            Expr::Cast(cast) => self.read(&cast.expr)?.cast(cast.field.data_type()),
            other => {
                let (left, op, right) = arithmetic(other)?;
                let (left, right) = (self.read(left)?, self.read(right)?);
                match (&left.data_type, &right.data_type) {
                    (DataType::Decimal128(..), DataType::Decimal128(..)) => left.decimals(op, right),
                    (DataType::Int32, DataType::Int32) => left.checked(op, right, Width::W32),
                    (DataType::Int64, DataType::Int64) => left.checked(op, right, Width::W64),
                    (DataType::Float64, DataType::Float64) => left.floats(op, right),
                    _ => None,
                }
            }
        }
    }

    fn column(&mut self, name: &str) -> Option<TypedMeasure> {
        let schema = self.open.table.schema();
        let column = schema.index_of(name).ok()?;
        let data_type = schema.field(column).data_type().clone();
        if matches!(data_type, DataType::Float64 | DataType::Float32) {
            let is_finite = are_finite(self.open, column)?;
            return Some(TypedMeasure {
                is_finite,
                ..TypedMeasure::float(Measure::FloatColumn(self.measured(column)), data_type)
            });
        }
        if !is_countable(&data_type) {
            return None;
        }
        let (low, high) = integer_bounds(self.open, column)?;
        TypedMeasure {
            measure: Measure::Column(self.measured(column)),
            data_type,
            cast_from: None,
            is_finite: false,
            low,
            high,
        }
        .within_64_bits()
    }

    /// Returns the position of a column among those that are measured.
    fn measured(&mut self, column: usize) -> usize {
        let known = self.measured.iter().position(|other| *other == column);
        known.unwrap_or_else(|| {
            self.measured.push(column);
            self.measured.len() - 1
        })
    }
}

fn literal(value: &ScalarValue) -> Option<TypedMeasure> {
    let (number, data_type) = match value {
        ScalarValue::Int32(Some(value)) => (i64::from(*value), DataType::Int32),
        ScalarValue::Int64(Some(value)) => (*value, DataType::Int64),
        ScalarValue::Float64(Some(value)) => {
            let measure = Measure::FloatLiteral(value.to_bits());
            return Some(TypedMeasure::float(measure, DataType::Float64));
        }
        ScalarValue::Decimal128(Some(value), precision, scale) => (
            i64::try_from(*value).ok()?,
            DataType::Decimal128(*precision, *scale),
        ),
        _ => return None,
    };
    Some(TypedMeasure {
        measure: Measure::Literal(number),
        data_type,
        cast_from: None,
        is_finite: false,
        low: number.into(),
        high: number.into(),
    })
}
