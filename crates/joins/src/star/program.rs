//! The measures of all aggregates as one list of operations, each evaluated once for a batch of rows.

use super::aggregate::{Aggregate, Function};
use super::measure::{Measure, Width};
use super::measure_values::MeasureValues;
use super::operation::{MeasureOperation, Operand, combine};
use crate::JoinResult;

/// Operations without duplicates, in an order in which operands come first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Program {
    steps: Vec<Step>,
    /// The argument of each aggregate.
    results: Vec<Source>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    operation: MeasureOperation,
    width: Width,
    left: Source,
    right: Source,
}

/// The origin of an operand or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A measured column.
    Column(usize),
    /// A constant: an integer, or the bits of a float.
    Literal(i64),
    /// The result of a step.
    Step(usize),
}

impl Program {
    /// Translates the measures of aggregates.
    pub(super) fn translate(aggregates: &[Aggregate]) -> Program {
        let mut program = Program::default();
        for aggregate in aggregates {
            let mut result = program.add(&aggregate.measure);
            // Minimum and maximum are compared as integers, so floats are mapped to integers in the same
            // order.
            let is_extreme = matches!(aggregate.function, Function::Min | Function::Max);
            if is_extreme && aggregate.measure.is_float() {
                result = program.unary(MeasureOperation::Order, result);
            }
            // A result is a column of values.
            if matches!(result, Source::Literal(_)) {
                result = program.unary(MeasureOperation::First, result);
            }
            program.results.push(result);
        }
        program
    }

    fn add(&mut self, measure: &Measure) -> Source {
        let (operation, width, left, right) = match measure {
            Measure::Column(number) | Measure::FloatColumn(number) => return Source::Column(*number),
            Measure::Literal(value) => return Source::Literal(*value),
            Measure::FloatLiteral(bits) => return Source::Literal(*bits as i64),
            Measure::ToFloat(scale, value) => {
                let step = Step {
                    operation: MeasureOperation::DivideInteger,
                    width: Width::Float,
                    left: self.add(value),
                    right: Source::Literal(10_f64.powi((*scale).into()).to_bits() as i64),
                };
                return self.step(step);
            }
            Measure::Paired(value, other) => (MeasureOperation::First, Width::Fits, value, other),
            Measure::Add(width, left, right) => (MeasureOperation::Add, *width, left, right),
            Measure::Subtract(width, left, right) => (MeasureOperation::Subtract, *width, left, right),
            Measure::Multiply(width, left, right) => (MeasureOperation::Multiply, *width, left, right),
        };
        let (left, right) = (self.add(left), self.add(right));
        self.step(Step {
            operation,
            width,
            left,
            right,
        })
    }

    /// Adds an operation of one operand.
    fn unary(&mut self, operation: MeasureOperation, left: Source) -> Source {
        self.step(Step {
            operation,
            width: Width::Fits,
            left,
            right: Source::Literal(0),
        })
    }

    fn step(&mut self, step: Step) -> Source {
        let known = self.steps.iter().position(|other| *other == step);
        Source::Step(known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    /// Evaluates all steps for `rows` rows of these columns; `values` gets the results of the steps.
    ///
    /// # Errors
    /// [`JoinError::Overflow`](crate::JoinError::Overflow).
    pub(super) fn evaluate(
        &self,
        columns: &[MeasureValues],
        rows: usize,
        values: &mut Vec<MeasureValues>,
    ) -> JoinResult<()> {
        values.resize_with(self.steps.len(), MeasureValues::default);
        for (number, step) in self.steps.iter().enumerate() {
            // Operands are columns, or results of steps before this one.
            let (done, rest) = values.split_at_mut(number);
            let operand = |source: Source| match source {
                Source::Column(column) => Operand::Values(&columns[column]),
                Source::Step(step) => Operand::Values(&done[step]),
                Source::Literal(value) => Operand::All(value),
            };
            let (left, right) = (operand(step.left), operand(step.right));
            combine(step.operation, step.width, (left, right), rows, &mut rest[0])?;
        }
        Ok(())
    }

    /// Returns the values of the argument of an aggregate, after [`evaluate`](Self::evaluate).
    pub(super) fn values<'a>(
        &self,
        aggregate: usize,
        columns: &'a [MeasureValues],
        values: &'a [MeasureValues],
    ) -> &'a MeasureValues {
        match self.results[aggregate] {
            Source::Column(column) => &columns[column],
            Source::Step(step) => &values[step],
            Source::Literal(_) => unreachable!("a literal result is a step"),
        }
    }

    /// Returns the least and the greatest value that the argument of an aggregate may have, for columns with
    /// these bounds; undefined for floats.
    pub(super) fn bounds(&self, aggregate: usize, columns: &[(i64, i64)]) -> (i128, i128) {
        let mut steps: Vec<(i128, i128)> = Vec::with_capacity(self.steps.len());
        let of = |source: Source, steps: &[(i128, i128)]| match source {
            Source::Column(column) => (columns[column].0.into(), columns[column].1.into()),
            Source::Literal(value) => (value.into(), value.into()),
            Source::Step(step) => steps[step],
        };
        for step in &self.steps {
            let (left, right) = (of(step.left, &steps), of(step.right, &steps));
            steps.push(step.operation.reach(step.width, left, right));
        }
        of(self.results[aggregate], &steps)
    }

    /// Returns those columns, ascending, whose NULLs make the argument of an aggregate NULL, among columns of
    /// which these may be NULL.
    pub(super) fn nulls(&self, aggregate: usize, columns: &[bool]) -> Vec<usize> {
        fn add(program: &Program, source: Source, columns: &[bool], nulls: &mut Vec<usize>) {
            match source {
                Source::Column(column) if columns[column] => nulls.push(column),
                Source::Column(_) | Source::Literal(_) => {}
                Source::Step(step) => {
                    let step = &program.steps[step];
                    add(program, step.left, columns, nulls);
                    add(program, step.right, columns, nulls);
                }
            }
        }
        let mut nulls = Vec::new();
        add(self, self.results[aggregate], columns, &mut nulls);
        nulls.sort_unstable();
        nulls.dedup();
        nulls
    }
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::Function;
    use super::*;

    #[test]
    fn common_operations_are_evaluated_once() {
        let column = |number| Box::new(Measure::Column(number));
        let one_less = || Measure::Subtract(Width::Fits, Box::new(Measure::Literal(1)), column(1));
        let price = || Measure::Multiply(Width::Fits, column(0), Box::new(one_less()));
        let taxed = Measure::Multiply(Width::Fits, Box::new(price()), column(0));
        let of = |measure| Aggregate {
            function: Function::Sum,
            measure,
            filter: None,
        };
        let aggregates = [
            of(price()),
            of(taxed),
            of(Measure::Literal(7)),
            of(Measure::Column(1)),
        ];
        let program = Program::translate(&aggregates);
        assert_eq!(program.steps.len(), 4);
        let columns = [
            MeasureValues::new(vec![10, 20], vec![]),
            MeasureValues::new(vec![3, 4], vec![true, false]),
        ];
        let mut values = Vec::new();
        program.evaluate(&columns, 2, &mut values).expect("small");
        let result = |number| program.values(number, &columns, &values);
        assert_eq!(result(0).values, [-20, -60]);
        assert_eq!(result(1).values, [-200, -1200]);
        assert_eq!(result(1).valid, [true, false]);
        assert_eq!(result(2).values, [7, 7]);
        assert_eq!(result(3), &columns[1]);
        assert_eq!(program.bounds(1, &[(10, 20), (3, 4)]), (-1200, -200));
        assert_eq!(program.nulls(1, &[false, true]), [1]);
        assert_eq!(program.nulls(0, &[true, true]), [0, 1]);
        assert!(program.nulls(2, &[true, true]).is_empty());
    }

    #[test]
    fn literals_and_extremes_of_floats_are_steps() {
        let of = |function, measure| Aggregate {
            function,
            measure,
            filter: None,
        };
        let half = Measure::FloatLiteral(0.5_f64.to_bits());
        let aggregates = [
            of(Function::Sum, half.clone()),
            of(Function::Sum, Measure::FloatColumn(0)),
            of(Function::Max, Measure::FloatColumn(0)),
            of(Function::Min, Measure::FloatColumn(0)),
            of(Function::Count, Measure::FloatColumn(0)),
        ];
        let program = Program::translate(&aggregates);
        assert_eq!(program.steps.len(), 2);
        let columns = [MeasureValues::of_floats([-1.0, 2.0].into_iter(), vec![])];
        let mut values = Vec::new();
        program.evaluate(&columns, 2, &mut values).expect("no arithmetic");
        let result = |number| &program.values(number, &columns, &values).values;
        assert_eq!(*result(0), [0.5_f64.to_bits() as i64; 2]);
        assert_eq!((result(1), result(4)), (&columns[0].values, &columns[0].values));
        assert!(result(2)[0] < result(2)[1] && result(2) == result(3));
    }
}
