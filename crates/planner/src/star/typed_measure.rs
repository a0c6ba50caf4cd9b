//! Measures with their types: casts and arithmetic as SQL defines them.
//!
//! Integer overflow is an error both in SQL and in the join. Decimals are unscaled integers, of 128 bits in
//! SQL and of 64 bits in the join: an operation is accepted only if the bounds of its operands prove that no
//! value exceeds 64 bits. Floats are doubles in the join, and each operation rounds as it does in SQL; an
//! integer or decimal that is cast to a double stays an integer until it is an operand of one.

use arrow_schema::DataType;
use datafusion::logical_expr::Operator;
use halocline_joins::star::{Measure, Width};

use super::aggregates::{is_whole, widens};

/// An expression with its type and the bounds of its values.
#[derive(Clone)]
pub(super) struct TypedMeasure {
    pub(super) measure: Measure,
    pub(super) data_type: DataType,
    /// For integers and decimals that are cast to doubles: the measure is an integer that, divided by this
    /// power of ten, is the value.
    pub(super) cast_from: Option<i8>,
    /// True for floats of which none is infinite or NaN.
    pub(super) is_finite: bool,
    /// Bounds of integers; 0 for floats.
    pub(super) low: i128,
    pub(super) high: i128,
}

/// Integers up to this are doubles without rounding.
const MAX_EXACT_INTEGER: i128 = 1 << 53;

impl TypedMeasure {
    pub(super) fn float(measure: Measure, data_type: DataType) -> TypedMeasure {
        TypedMeasure {
            measure,
            data_type,
            cast_from: None,
            is_finite: false,
            low: 0,
            high: 0,
        }
    }

    /// Returns the measure of an expression of floats, as one of floats.
    pub(super) fn into_float(self) -> Measure {
        match self.cast_from {
            Some(scale) => Measure::ToFloat(scale, Box::new(self.measure)),
            None => self.measure,
        }
    }

    /// Returns true if all of the integers are doubles without rounding.
    pub(super) fn is_exact(&self) -> bool {
        -MAX_EXACT_INTEGER <= self.low && self.high <= MAX_EXACT_INTEGER
    }

    /// Returns the greatest absolute value of the integers.
    pub(super) fn magnitude(&self) -> i128 {
        self.low.abs().max(self.high.abs())
    }

    /// Returns the product of two integers; `None` if it may exceed 64 bits.
    pub(super) fn product(&self, other: &TypedMeasure) -> Option<Measure> {
        let (left, right) = (self.clone(), other.clone());
        let product = left.combine(Operator::Multiply, right, Width::Fits, DataType::Int64)?;
        product.within_64_bits().map(|product| product.measure)
    }

    /// Returns the expression where another one is not NULL.
    pub(super) fn paired(&self, other: &TypedMeasure) -> TypedMeasure {
        let (value, other) = (Box::new(self.measure.clone()), Box::new(other.measure.clone()));
        TypedMeasure {
            measure: Measure::Paired(value, other),
            ..self.clone()
        }
    }

    /// Returns the expression if its bounds fit 64 bits.
    pub(super) fn within_64_bits(self) -> Option<TypedMeasure> {
        (self.low >= i64::MIN.into() && self.high <= i64::MAX.into()).then_some(self)
    }

    pub(super) fn cast(self, to: &DataType) -> Option<TypedMeasure> {
        let (from, data_type) = (self.data_type.clone(), to.clone());
        let scale = match (&from, to) {
            (DataType::Date32, DataType::Float64) => return None,
            (from, DataType::Float64) if is_whole(from) => {
                let cast_from = Some(0);
                return Some(TypedMeasure {
                    data_type,
                    cast_from,
                    ..self
                });
            }
            (DataType::Decimal128(_, scale), DataType::Float64) => {
                let cast_from = Some(*scale);
                return Some(TypedMeasure {
                    data_type,
                    cast_from,
                    ..self
                });
            }
            // Measures of either type are doubles.
            (DataType::Float32, DataType::Float64) => return Some(TypedMeasure { data_type, ..self }),
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
            ..self
        }
        .within_64_bits()
    }

    /// Combines two floats.
    pub(super) fn floats(self, op: Operator, other: TypedMeasure) -> Option<TypedMeasure> {
        let operation = match op {
            Operator::Plus => Measure::Add,
            Operator::Minus => Measure::Subtract,
            Operator::Multiply => Measure::Multiply,
            _ => return None,
        };
        let (left, right) = (Box::new(self.into_float()), Box::new(other.into_float()));
        let measure = operation(Width::Float, left, right);
        Some(TypedMeasure::float(measure, DataType::Float64))
    }

    /// Combines two integers of a type, with overflow checks unless the bounds exclude an overflow.
    pub(super) fn checked(self, op: Operator, other: TypedMeasure, width: Width) -> Option<TypedMeasure> {
        let (least, most) = match width {
            Width::W32 => (i32::MIN.into(), i32::MAX.into()),
            Width::W64 | Width::Fits | Width::Float => (i64::MIN.into(), i64::MAX.into()),
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
    pub(super) fn decimals(self, op: Operator, other: TypedMeasure) -> Option<TypedMeasure> {
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
            cast_from: None,
            is_finite: false,
            low,
            high,
        })
    }
}
