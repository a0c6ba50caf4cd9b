//! Measures: the aggregated expressions over integer columns of the fact table.
//!
//! A result outside of the type of the expression is an error; a NULL operand yields NULL.

use crate::{JoinError, JoinResult};

/// The type of an expression, for overflow checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
    /// 64 bits without checks, for expressions that the caller knows not to overflow.
    Fits,
}

impl Width {
    fn data_type(self) -> &'static str {
        match self {
            Width::W32 => "int",
            Width::W64 | Width::Fits => "bigint",
        }
    }
}

/// An operation of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeasureOperation {
    Add,
    Subtract,
    Multiply,
}

impl MeasureOperation {
    #[inline(always)]
    fn wrapping(self, a: i64, b: i64) -> i64 {
        match self {
            MeasureOperation::Add => a.wrapping_add(b),
            MeasureOperation::Subtract => a.wrapping_sub(b),
            MeasureOperation::Multiply => a.wrapping_mul(b),
        }
    }

    /// Returns the result and true if it overflows.
    #[inline(always)]
    fn overflowing(self, width: Width, a: i64, b: i64) -> (i64, bool) {
        let (value, outside) = match self {
            MeasureOperation::Add => a.overflowing_add(b),
            MeasureOperation::Subtract => a.overflowing_sub(b),
            MeasureOperation::Multiply => a.overflowing_mul(b),
        };
        match width {
            Width::W32 => (value, outside || i64::from(value as i32) != value),
            Width::W64 | Width::Fits => (value, outside),
        }
    }

    fn sign(self) -> char {
        match self {
            MeasureOperation::Add => '+',
            MeasureOperation::Subtract => '-',
            MeasureOperation::Multiply => '*',
        }
    }
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Measure {
    /// A column, by its position in [`StarJoin::measured`](super::StarJoin::measured).
    Column(usize),
    /// A constant.
    Literal(i64),
    /// A sum.
    Add(Width, Box<Measure>, Box<Measure>),
    /// A difference.
    Subtract(Width, Box<Measure>, Box<Measure>),
    /// A product.
    Multiply(Width, Box<Measure>, Box<Measure>),
}

/// The values of a column or an expression for the selected rows. If `valid` is not empty, it is false for
/// NULL.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MeasureValues {
    pub(super) values: Vec<i64>,
    pub(super) valid: Vec<bool>,
}

impl MeasureValues {
    /// Wraps values; `valid` is false for NULL, and empty if there is no NULL.
    ///
    /// # Panics
    /// If `valid` has another length and is not empty.
    pub fn new(values: Vec<i64>, valid: Vec<bool>) -> MeasureValues {
        assert!(
            valid.is_empty() || valid.len() == values.len(),
            "one for each value"
        );
        MeasureValues { values, valid }
    }

    /// Returns the number of bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.values) + size_of_val(&*self.valid)
    }

    fn set(&mut self, other: &MeasureValues) {
        self.values.clone_from(&other.values);
        self.valid.clone_from(&other.valid);
    }

    /// Replaces the values by those of codes, which are offset by `base`; code 0 is NULL if `has_null`.
    pub(super) fn set_codes(&mut self, codes: impl Iterator<Item = u64> + Clone, base: i64, has_null: bool) {
        self.valid.clear();
        if has_null {
            self.valid.extend(codes.clone().map(|code| code != 0));
        }
        self.values.clear();
        self.values
            .extend(codes.map(|code| (code as i64).wrapping_add(base)));
    }

    /// Returns the value of a row, unless it is NULL.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let valid = self.valid.get(row).is_none_or(|valid| *valid);
        valid.then(|| self.values[row])
    }

    /// Returns the values of some rows.
    pub(super) fn of(&self, rows: &[usize]) -> MeasureValues {
        let valid = rows.iter().filter_map(|row| self.valid.get(*row).copied());
        MeasureValues {
            values: rows.iter().map(|row| self.values[*row]).collect(),
            valid: valid.collect(),
        }
    }
}

impl Measure {
    /// Evaluates the measure for rows with these columns. `room` holds reusable buffers.
    ///
    /// # Errors
    /// [`JoinError::Overflow`].
    pub(super) fn evaluate(
        &self,
        columns: &[MeasureValues],
        rows: usize,
        out: &mut MeasureValues,
        room: &mut Vec<MeasureValues>,
    ) -> JoinResult<()> {
        let (operation, width, left, right) = match self {
            Measure::Column(number) => {
                out.set(&columns[*number]);
                return Ok(());
            }
            Measure::Literal(value) => {
                out.values.clear();
                out.values.resize(rows, *value);
                out.valid.clear();
                return Ok(());
            }
            Measure::Add(width, left, right) => (MeasureOperation::Add, *width, left, right),
            Measure::Subtract(width, left, right) => (MeasureOperation::Subtract, *width, left, right),
            Measure::Multiply(width, left, right) => (MeasureOperation::Multiply, *width, left, right),
        };
        left.evaluate(columns, rows, out, room)?;
        let mut lent = room.pop().unwrap_or_default();
        let right = match &**right {
            Measure::Column(number) => &columns[*number],
            other => {
                other.evaluate(columns, rows, &mut lent, room)?;
                &lent
            }
        };
        // A separate call for each operation keeps its loop free of branches.
        match operation {
            MeasureOperation::Add => combine(MeasureOperation::Add, width, out, right),
            MeasureOperation::Subtract => combine(MeasureOperation::Subtract, width, out, right),
            MeasureOperation::Multiply => combine(MeasureOperation::Multiply, width, out, right),
        }?;
        room.push(lent);
        Ok(())
    }
}

/// Replaces the left operands, in `out`, by the results.
#[inline(always)]
fn combine(
    operation: MeasureOperation,
    width: Width,
    out: &mut MeasureValues,
    right: &MeasureValues,
) -> JoinResult<()> {
    if out.valid.is_empty() {
        out.valid.clone_from(&right.valid);
    } else {
        out.valid
            .iter_mut()
            .zip(&right.valid)
            .for_each(|(left, right)| *left &= right);
    }
    let pairs = out.values.iter_mut().zip(&right.values);
    if width == Width::Fits {
        pairs.for_each(|(left, right)| *left = operation.wrapping(*left, *right));
        return Ok(());
    }
    let mut any = false;
    if out.valid.is_empty() {
        for (left, right) in out.values.iter().zip(&right.values) {
            any |= operation.overflowing(width, *left, *right).1;
        }
    } else {
        // The value stored for a NULL is undefined and must not count as overflow.
        for ((left, right), valid) in out.values.iter().zip(&right.values).zip(&out.valid) {
            any |= *valid && operation.overflowing(width, *left, *right).1;
        }
    }
    if any {
        return Err(overflow(operation, width, out, right));
    }
    let pairs = out.values.iter_mut().zip(&right.values);
    pairs.for_each(|(left, right)| *left = operation.wrapping(*left, *right));
    Ok(())
}

/// Returns the error for the first row whose result overflows.
#[cold]
fn overflow(
    operation: MeasureOperation,
    width: Width,
    left: &MeasureValues,
    right: &MeasureValues,
) -> JoinError {
    let pairs = left.values.iter().zip(&right.values).enumerate();
    let valid = |row: usize| left.valid.get(row).is_none_or(|valid| *valid);
    let mut outside = pairs.filter(|(row, (a, b))| valid(*row) && operation.overflowing(width, **a, **b).1);
    let text = outside
        .next()
        .map_or_else(String::new, |(_, (a, b))| format!("{a} {} {b}", operation.sign()));
    JoinError::Overflow {
        operation: text,
        data_type: width.data_type(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let of = |measure: Measure| {
            let (mut values, mut room) = (MeasureValues::default(), vec![column(&[7; 9], &[false; 9])]);
            measure
                .evaluate(&columns, 3, &mut values, &mut room)
                .map(|()| values)
        };
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
        let mut values = MeasureValues::default();
        more.evaluate(&columns, 2, &mut values, &mut Vec::new())
            .expect("NULL does not overflow");
        assert_eq!((values.values[0], values.valid), (2, vec![true, false]));
    }
}
