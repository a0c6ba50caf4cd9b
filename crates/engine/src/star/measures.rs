//! Measures: aggregated expressions over columns of the fact table, translated for the star join.
//!
//! Integer overflow is an error both in SQL and in the join. Decimals are unscaled integers, of 128 bits in
//! SQL and of 64 bits in the join: an expression is accepted only if the bounds of its columns prove that no
//! intermediate value exceeds 64 bits.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator};
use halocline_joins::star::{Measure, Width};

use super::aggregates::{is_countable, is_whole, widens};
use super::delta_rows::integers;
use crate::catalog::OpenTable;
use crate::semantics::arithmetic;

/// An expression with its type and the bounds of its values.
pub(super) struct TypedMeasure {
    pub(super) measure: Measure,
    /// Float64 if a column of at most 32 bits was cast to that.
    pub(super) data_type: DataType,
    low: i128,
    high: i128,
}

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
                    _ => None,
                }
            }
        }
    }

    fn column(&mut self, name: &str) -> Option<TypedMeasure> {
        let schema = self.open.table.schema();
        let column = schema.index_of(name).ok()?;
        let data_type = schema.field(column).data_type().clone();
        if !is_countable(&data_type) {
            return None;
        }
        let (low, high) = bounds(self.open, column)?;
        let known = self.measured.iter().position(|other| *other == column);
        let number = known.unwrap_or_else(|| {
            self.measured.push(column);
            self.measured.len() - 1
        });
        TypedMeasure {
            measure: Measure::Column(number),
            data_type,
            low,
            high,
        }
        .within_64_bits()
    }
}

/// Returns bounds of the values of a column, by the code spaces of its segments and the rows of the delta; 0
/// and 0 if there are no values.
pub(super) fn bounds(open: &OpenTable, column: usize) -> Option<(i128, i128)> {
    let mut bounds: Option<(i128, i128)> = None;
    let mut note = |low: i128, high: i128| {
        let (least, most) = bounds.unwrap_or((low, high));
        bounds = Some((least.min(low), most.max(high)));
    };
    for segment in open.table.segments() {
        let column = segment.column(column);
        let space = column.code_space()?;
        if column.null_count() == column.rows() {
            continue;
        }
        let base = i128::from(space.integer_base()?);
        note(
            base + i128::from(space.has_null()),
            base + i128::from(space.max_code()),
        );
    }
    let added = open.delta.iter().flat_map(|delta| delta.batches());
    for (_, batch) in added {
        match batch.column(column).as_primitive_opt::<Decimal128Type>() {
            Some(decimals) => decimals.iter().flatten().for_each(|value| note(value, value)),
            None => {
                let values = integers(batch.column(column)).ok()?;
                let values = values.as_primitive::<Int64Type>().iter().flatten();
                values.for_each(|value| note(value.into(), value.into()));
            }
        }
    }
    Some(bounds.unwrap_or((0, 0)))
}

fn literal(value: &ScalarValue) -> Option<TypedMeasure> {
    let (number, data_type) = match value {
        ScalarValue::Int32(Some(value)) => (i64::from(*value), DataType::Int32),
        ScalarValue::Int64(Some(value)) => (*value, DataType::Int64),
        ScalarValue::Decimal128(Some(value), precision, scale) => (
            i64::try_from(*value).ok()?,
            DataType::Decimal128(*precision, *scale),
        ),
        _ => return None,
    };
    Some(TypedMeasure {
        measure: Measure::Literal(number),
        data_type,
        low: number.into(),
        high: number.into(),
    })
}

impl TypedMeasure {
    /// Returns the expression if its bounds fit 64 bits.
    fn within_64_bits(self) -> Option<TypedMeasure> {
        (self.low >= i64::MIN.into() && self.high <= i64::MAX.into()).then_some(self)
    }

    fn cast(self, to: &DataType) -> Option<TypedMeasure> {
        let (from, data_type) = (self.data_type.clone(), to.clone());
        let scale = match (&from, to) {
            (DataType::Int8 | DataType::Int16 | DataType::Int32, DataType::Float64) => 0,
            (from, DataType::Decimal128(precision, scale)) => {
                let had = match from {
                    DataType::Decimal128(_, scale) => *scale,
                    DataType::Date32 => return None,
                    from if is_whole(from) => 0,
                    _ => return None,
                };
                // What has more digits than the type is an error.
                let most = 10_i128.checked_pow((*precision).into())?;
                let scaled = self.times(scale.checked_sub(had)?)?;
                let fits = -most < scaled.low && scaled.high < most;
                return fits.then_some(TypedMeasure { data_type, ..scaled });
            }
            (from, to) if widens(from, to) => 0,
            _ => return None,
        };
        Some(TypedMeasure {
            data_type,
            ..self.times(scale)?
        })
    }

    /// Multiplies by a power of ten.
    fn times(self, power: i8) -> Option<TypedMeasure> {
        if power == 0 {
            return Some(self);
        }
        let factor = 10_i64.checked_pow(u32::try_from(power).ok()?)?;
        TypedMeasure {
            low: self.low.checked_mul(factor.into())?,
            high: self.high.checked_mul(factor.into())?,
            measure: Measure::Multiply(
                Width::Fits,
                Box::new(self.measure),
                Box::new(Measure::Literal(factor)),
            ),
            data_type: self.data_type,
        }
        .within_64_bits()
    }

    /// Combines two integers of a type, with overflow checks unless the bounds exclude an overflow.
    fn checked(self, op: Operator, other: TypedMeasure, width: Width) -> Option<TypedMeasure> {
        let (least, most) = match width {
            Width::W32 => (i32::MIN.into(), i32::MAX.into()),
            Width::W64 | Width::Fits => (i64::MIN.into(), i64::MAX.into()),
        };
        let data_type = self.data_type.clone();
        let (low, high) = self.reach(op, &other)?;
        let width = if low >= least && high <= most {
            Width::Fits
        } else {
            width
        };
        let typed = self.combine(op, other, width, data_type)?;
        Some(TypedMeasure {
            low: low.max(least),
            high: high.min(most),
            ..typed
        })
    }

    /// Combines two decimals, with the result type that SQL defines.
    fn decimals(self, op: Operator, other: TypedMeasure) -> Option<TypedMeasure> {
        let (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) =
            (&self.data_type, &other.data_type)
        else {
            return None;
        };
        let (p1, s1, p2, s2) = (*p1, *s1, *p2, *s2);
        let precision = |digits: i16| u8::try_from(digits.min(38)).ok();
        if op == Operator::Multiply {
            let precision = precision(i16::from(p1) + i16::from(p2) + 1)?;
            let data_type = DataType::Decimal128(precision, s1.checked_add(s2).filter(|scale| *scale <= 38)?);
            return self.combine(op, other, Width::Fits, data_type)?.within_64_bits();
        }
        let scale = s1.max(s2);
        let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
        let data_type = DataType::Decimal128(precision(i16::from(scale) + whole + 1)?, scale);
        let (left, right) = (self.times(scale - s1)?, other.times(scale - s2)?);
        left.combine(op, right, Width::Fits, data_type)?.within_64_bits()
    }

    /// Returns the least and the greatest result that an operation may have.
    fn reach(&self, op: Operator, other: &TypedMeasure) -> Option<(i128, i128)> {
        let of = match op {
            Operator::Plus => i128::checked_add,
            Operator::Minus => i128::checked_sub,
            Operator::Multiply => i128::checked_mul,
            _ => return None,
        };
        let corners = [
            of(self.low, other.low)?,
            of(self.low, other.high)?,
            of(self.high, other.low)?,
            of(self.high, other.high)?,
        ];
        Some((corners.into_iter().min()?, corners.into_iter().max()?))
    }

    fn combine(
        self,
        op: Operator,
        other: TypedMeasure,
        width: Width,
        data_type: DataType,
    ) -> Option<TypedMeasure> {
        let (low, high) = self.reach(op, &other)?;
        let (left, right) = (Box::new(self.measure), Box::new(other.measure));
        let measure = match op {
            Operator::Plus => Measure::Add(width, left, right),
            Operator::Minus => Measure::Subtract(width, left, right),
            _ => Measure::Multiply(width, left, right),
        };
        Some(TypedMeasure {
            measure,
            data_type,
            low,
            high,
        })
    }
}
