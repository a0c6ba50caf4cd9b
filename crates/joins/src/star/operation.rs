//! Operations of measures on batches of rows.

use super::measure::Width;
use super::measure_values::MeasureValues;
use crate::{JoinError, JoinResult};

/// An operation of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasureOperation {
    Add,
    Subtract,
    Multiply,
    /// The quotient of an integer and a float, which is a float.
    DivideInteger,
    /// The first of two values of which neither is NULL.
    First,
    /// The integer that sorts among others as a float does, in its total order; the second operand is
    /// ignored.
    Order,
}

impl MeasureOperation {
    /// Returns true if a result is not a value of its type.
    #[inline(always)]
    fn is_outside(self, width: Width, a: i64, b: i64) -> bool {
        let (value, outside) = match self {
            MeasureOperation::Add => a.overflowing_add(b),
            MeasureOperation::Subtract => a.overflowing_sub(b),
            MeasureOperation::Multiply => a.overflowing_mul(b),
            MeasureOperation::DivideInteger | MeasureOperation::First | MeasureOperation::Order => {
                return false;
            }
        };
        match width {
            Width::W32 => outside || i64::from(value as i32) != value,
            Width::W64 | Width::Fits => outside,
            Width::Float => false,
        }
    }

    /// Returns bounds of the results of integer operands within these bounds; those of 64 bits if results are
    /// floats.
    pub(super) fn reach(self, width: Width, left: (i128, i128), right: (i128, i128)) -> (i128, i128) {
        let apply: fn(i128, i128) -> i128 = match (self, width) {
            (MeasureOperation::First, _) => return left,
            (_, Width::Float) | (MeasureOperation::DivideInteger | MeasureOperation::Order, _) => {
                return (i64::MIN.into(), i64::MAX.into());
            }
            (MeasureOperation::Add, _) => |a, b| a + b,
            (MeasureOperation::Subtract, _) => |a, b| a - b,
            (MeasureOperation::Multiply, _) => |a, b| a * b,
        };
        let corners = [
            apply(left.0, right.0),
            apply(left.0, right.1),
            apply(left.1, right.0),
            apply(left.1, right.1),
        ];
        let low = corners.into_iter().fold(i128::MAX, i128::min);
        let high = corners.into_iter().fold(i128::MIN, i128::max);
        // Results beyond 64 bits are errors.
        (low.max(i64::MIN.into()), high.min(i64::MAX.into()))
    }

    fn sign(self) -> char {
        match self {
            MeasureOperation::Add => '+',
            MeasureOperation::Subtract => '-',
            MeasureOperation::Multiply => '*',
            MeasureOperation::DivideInteger => '/',
            MeasureOperation::First | MeasureOperation::Order => ',',
        }
    }
}

/// Returns the integer that sorts among others as a float, given by its bits, does in its total order, and
/// the bits again for such an integer ([`f64::total_cmp`]).
#[inline(always)]
pub(super) fn ordered(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// An operand for a batch of rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand<'a> {
    /// A value for each row.
    Values(&'a MeasureValues),
    /// The same value for all rows.
    All(i64),
}

impl<'a> Operand<'a> {
    fn value(self, row: usize) -> i64 {
        match self {
            Operand::Values(values) => values.values[row],
            Operand::All(value) => value,
        }
    }

    fn valid(self) -> &'a [bool] {
        match self {
            Operand::Values(values) => &values.valid,
            Operand::All(_) => &[],
        }
    }
}

/// Replaces `out` by the results of an operation for `rows` rows.
///
/// # Errors
/// [`JoinError::Overflow`].
pub(super) fn combine(
    operation: MeasureOperation,
    width: Width,
    (left, right): (Operand<'_>, Operand<'_>),
    rows: usize,
    out: &mut MeasureValues,
) -> JoinResult<()> {
    out.valid.clear();
    match (left.valid(), right.valid()) {
        ([], valid) | (valid, []) => out.valid.extend_from_slice(valid),
        (left, right) => out
            .valid
            .extend(left.iter().zip(right).map(|(left, right)| *left && *right)),
    }
    // A separate call for each operation keeps its loop free of branches.
    let (operands, values) = ((left, right), &mut out.values);
    match (operation, width) {
        (MeasureOperation::Add, Width::Float) => fill(operands, rows, values, of_floats(|a, b| a + b)),
        (MeasureOperation::Subtract, Width::Float) => fill(operands, rows, values, of_floats(|a, b| a - b)),
        (MeasureOperation::Multiply, Width::Float) => fill(operands, rows, values, of_floats(|a, b| a * b)),
        (MeasureOperation::Add, _) => fill(operands, rows, values, i64::wrapping_add),
        (MeasureOperation::Subtract, _) => fill(operands, rows, values, i64::wrapping_sub),
        (MeasureOperation::Multiply, _) => fill(operands, rows, values, i64::wrapping_mul),
        (MeasureOperation::DivideInteger, _) => match right {
            Operand::All(divisor) if float(divisor) == 1.0 => {
                fill(operands, rows, values, |a, _| bits(a as f64));
            }
            _ => fill(operands, rows, values, |a, b| bits(a as f64 / float(b))),
        },
        (MeasureOperation::First, _) => fill(operands, rows, values, |a, _| a),
        (MeasureOperation::Order, _) => fill(operands, rows, values, |a, _| ordered(a)),
    }
    if matches!(width, Width::Fits | Width::Float) {
        return Ok(());
    }
    let outside = |row: &usize| {
        // The value stored for a NULL is undefined and must not count as overflow.
        out.valid.get(*row).is_none_or(|valid| *valid)
            && operation.is_outside(width, left.value(*row), right.value(*row))
    };
    match (0..rows).find(outside) {
        Some(row) => Err(JoinError::Overflow {
            operation: format!("{} {} {}", left.value(row), operation.sign(), right.value(row)),
            data_type: width.data_type(),
        }),
        None => Ok(()),
    }
}

#[inline(always)]
fn float(bits: i64) -> f64 {
    f64::from_bits(bits as u64)
}

#[inline(always)]
fn bits(float: f64) -> i64 {
    float.to_bits() as i64
}

/// Returns an operation of floats as one of their bits.
#[inline(always)]
fn of_floats(apply: impl Fn(f64, f64) -> f64) -> impl Fn(i64, i64) -> i64 {
    move |a, b| bits(apply(float(a), float(b)))
}

#[inline(always)]
fn fill(
    operands: (Operand<'_>, Operand<'_>),
    rows: usize,
    out: &mut Vec<i64>,
    apply: impl Fn(i64, i64) -> i64,
) {
    out.clear();
    match operands {
        (Operand::Values(left), Operand::Values(right)) => {
            let pairs = left.values.iter().zip(&right.values);
            out.extend(pairs.map(|(left, right)| apply(*left, *right)));
        }
        (Operand::Values(left), Operand::All(right)) => {
            out.extend(left.values.iter().map(|left| apply(*left, right)));
        }
        (Operand::All(left), Operand::Values(right)) => {
            out.extend(right.values.iter().map(|right| apply(left, *right)));
        }
        (Operand::All(left), Operand::All(right)) => out.resize(rows, apply(left, right)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::{Aggregate, Function};
    use super::super::measure::Measure;
    use super::super::program::Program;
    use super::*;

    fn evaluated(measure: Measure, columns: &[MeasureValues]) -> JoinResult<MeasureValues> {
        let program = Program::translate(&[Aggregate {
            function: Function::Sum,
            measure,
            filter: None,
        }]);
        let mut steps = vec![MeasureValues::new(vec![7; 9], vec![false; 9])];
        program.evaluate(columns, columns[0].values.len(), &mut steps)?;
        Ok(program.values(0, columns, &steps).clone())
    }

    #[test]
    fn nulls_and_overflow() {
        let column = |values: &[i64], valid: &[bool]| MeasureValues {
            values: values.to_vec(),
            valid: valid.to_vec(),
        };
        let columns = [
            column(&[1, i64::from(i32::MAX), 3], &[true, true, false]),
            column(&[4, 2, 6], &[]),
        ];
        let of = |measure: Measure| evaluated(measure, &columns);
        let pair = || (Box::new(Measure::Column(0)), Box::new(Measure::Column(1)));
        let (a, b) = pair();
        let error = of(Measure::Multiply(Width::W32, a, b)).expect_err("the second row overflows");
        assert_eq!(
            error.to_string(),
            "2147483647 * 2 is not a value of type int; cast to decimal(38, 0) or double where values are that large"
        );
        let (a, b) = pair();
        let product = of(Measure::Multiply(Width::W64, b, a)).expect("64 bits are enough");
        assert_eq!(product.values[1], 2 * i64::from(i32::MAX));
        assert_eq!(product.valid, [true, true, false]);
        let (_, b) = pair();
        let rest = of(Measure::Subtract(Width::W64, Box::new(Measure::Literal(10)), b)).expect("small");
        assert_eq!((rest.values, rest.valid), (vec![6, 8, 4], vec![]));
        // A NULL has a value in its place that would overflow.
        let columns = [column(&[1, i64::MAX], &[true, false])];
        let more = Measure::Add(
            Width::W64,
            Box::new(Measure::Column(0)),
            Box::new(Measure::Literal(1)),
        );
        let values = evaluated(more, &columns).expect("NULL does not overflow");
        assert_eq!((values.values[0], values.valid), (2, vec![true, false]));
    }

    #[test]
    fn floats() {
        let of =
            |values: &[f64], valid: &[bool]| MeasureValues::of_floats(values.iter().copied(), valid.to_vec());
        let columns = [
            of(&[1.5, f64::INFINITY, -0.0, f64::NAN], &[]),
            of(&[0.25, f64::INFINITY, 1e308, 3.0], &[true, true, false, true]),
            MeasureValues::new(vec![7, -3, i64::MAX, 1], vec![]),
        ];
        let column = |number| Box::new(Measure::FloatColumn(number));
        let floats = |measure: Measure| {
            assert!(measure.is_float());
            let found = evaluated(measure, &columns).expect("floats do not overflow");
            let values = found.values.iter().map(|bits| f64::from_bits(*bits as u64));
            (values.collect::<Vec<f64>>(), found.valid)
        };
        let same = |found: &[f64], wanted: &[f64]| {
            let bits = |values: &[f64]| {
                values
                    .iter()
                    .map(|value| value.to_bits() << 1)
                    .collect::<Vec<u64>>()
            };
            assert_eq!(bits(found), bits(wanted), "{found:?} {wanted:?}");
        };
        let (sum, valid) = floats(Measure::Add(Width::Float, column(0), column(1)));
        same(&sum, &[1.75, f64::INFINITY, 1e308, f64::NAN]);
        assert_eq!(valid, [true, true, false, true]);
        let (rest, _) = floats(Measure::Subtract(Width::Float, column(0), column(1)));
        assert!((rest[0], rest[1].is_nan()) == (1.25, true));
        let tenths = Box::new(Measure::ToFloat(1, Box::new(Measure::Column(2))));
        let (product, _) = floats(Measure::Multiply(Width::Float, column(0), tenths));
        same(&product, &[1.5 * 0.7, f64::NEG_INFINITY, 0.0, f64::NAN]);
        let (whole, _) = floats(Measure::ToFloat(0, Box::new(Measure::Column(2))));
        same(&whole, &[7.0, -3.0, i64::MAX as f64, 1.0]);
        let half = Box::new(Measure::FloatLiteral(0.5_f64.to_bits()));
        let (halves, _) = floats(Measure::Multiply(Width::Float, half, column(1)));
        same(&halves[..2], &[0.125, f64::INFINITY]);
        let paired = Measure::Paired(Box::new(Measure::Column(2)), column(1));
        assert!(!paired.is_float());
        let paired = evaluated(paired, &columns).expect("no arithmetic");
        assert_eq!(paired.values, columns[2].values);
        assert_eq!(paired.valid, [true, true, false, true]);
    }

    #[test]
    fn floats_in_their_total_order() {
        let sorted = [
            -f64::NAN,
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -5e-324,
            -0.0,
            0.0,
            5e-324,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let keys = sorted.map(|value| ordered(bits(value)));
        assert!(keys.is_sorted());
        assert_eq!(keys.map(ordered), sorted.map(bits));
    }
}
