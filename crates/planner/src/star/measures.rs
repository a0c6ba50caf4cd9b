//! Measures: aggregated expressions over columns of the fact table and of dimensions, translated for the star
//! join.

use arrow_schema::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Expr;
use halocline_catalog::OpenTable;
use halocline_joins::star::{Measure, MeasureSource, Width};
use halocline_sql::semantics::arithmetic;

use super::aggregates::is_countable;
use super::bounds::{are_finite, integer_bounds};
use super::branches::Branches;
use super::typed_measure::TypedMeasure;

/// A translator of expressions.
pub(super) struct MeasureReader<'a, 'b> {
    /// The fact table.
    pub(super) open: &'a OpenTable,
    /// Columns that they measure.
    pub(super) measured: &'a mut Vec<MeasureSource>,
    /// The dimensions, if expressions may read their columns.
    pub(super) branches: Option<&'a mut Branches<'b>>,
}

impl MeasureReader<'_, '_> {
    /// Translates an expression; `None` if the join does not support it.
    pub(super) fn read(&mut self, expr: &Expr) -> Option<TypedMeasure> {
        match expr {
            Expr::Alias(alias) => self.read(&alias.expr),
            Expr::Column(column) => self.column(column),
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

    fn column(&mut self, column: &Column) -> Option<TypedMeasure> {
        let of_dimension = match &self.branches {
            Some(branches) if !branches.is_of_fact(column)? => Some(branches.payload_table(column)?),
            _ => None,
        };
        let open = of_dimension.as_deref().unwrap_or(self.open);
        let schema = open.table.schema();
        let number = schema.index_of(&column.name).ok()?;
        let data_type = schema.field(number).data_type().clone();
        let is_float = matches!(data_type, DataType::Float64 | DataType::Float32);
        if !is_float && !is_countable(&data_type) {
            return None;
        }
        let (is_finite, (low, high)) = if is_float {
            (are_finite(open, number)?, (0, 0))
        } else {
            (false, integer_bounds(open, number)?)
        };
        let source = match &mut self.branches {
            Some(branches) if of_dimension.is_some() => branches.payload(column)?,
            _ => MeasureSource::Fact(number),
        };
        let position = self.measured(source);
        if is_float {
            let float = TypedMeasure::float(Measure::FloatColumn(position), data_type);
            return Some(TypedMeasure { is_finite, ..float });
        }
        TypedMeasure {
            measure: Measure::Column(position),
            data_type,
            cast_from: None,
            is_finite: false,
            low,
            high,
        }
        .within_64_bits()
    }

    /// Returns the position of a column among those that are measured.
    fn measured(&mut self, source: MeasureSource) -> usize {
        let known = self.measured.iter().position(|other| *other == source);
        known.unwrap_or_else(|| {
            self.measured.push(source);
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
