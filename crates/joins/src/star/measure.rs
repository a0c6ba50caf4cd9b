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
pub(super) enum MeasureOperation {
    Add,
    Subtract,
    Multiply,
}

impl MeasureOperation {
    /// Returns true if a result is not a value of its type.
    #[inline(always)]
    fn is_outside(self, width: Width, a: i64, b: i64) -> bool {
        let (value, outside) = match self {
            MeasureOperation::Add => a.overflowing_add(b),
            MeasureOperation::Subtract => a.overflowing_sub(b),
            MeasureOperation::Multiply => a.overflowing_mul(b),
        };
        match width {
            Width::W32 => outside || i64::from(value as i32) != value,
            Width::W64 | Width::Fits => outside,
        }
    }

    /// Returns the result for numbers of 64 bits.
    pub(super) fn exact(self, a: i128, b: i128) -> i128 {
        match self {
            MeasureOperation::Add => a + b,
            MeasureOperation::Subtract => a - b,
            MeasureOperation::Multiply => a * b,
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
    let values = &mut out.values;
    match operation {
        MeasureOperation::Add => fill((left, right), rows, values, i64::wrapping_add),
        MeasureOperation::Subtract => fill((left, right), rows, values, i64::wrapping_sub),
        MeasureOperation::Multiply => fill((left, right), rows, values, i64::wrapping_mul),
    }
    if width == Width::Fits {
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
    use super::super::program::Program;
    use super::*;

    fn evaluated(measure: Measure, columns: &[MeasureValues]) -> JoinResult<MeasureValues> {
        let program = Program::of(&[Aggregate {
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
}
