//! The measures of all aggregates as one list of operations, each evaluated once for a batch of rows.

use super::aggregate::Aggregate;
use super::measure::{Measure, MeasureOperation, MeasureValues, Operand, Width, combine};
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
    Literal(i64),
    /// The result of a step.
    Step(usize),
}

impl Program {
    /// Translates the measures of aggregates.
    pub(super) fn of(aggregates: &[Aggregate]) -> Program {
        let mut program = Program::default();
        for aggregate in aggregates {
            let result = match program.add(&aggregate.measure) {
                // A result is a column of values.
                Source::Literal(value) => program.step(Step {
                    operation: MeasureOperation::Add,
                    width: Width::Fits,
                    left: Source::Literal(value),
                    right: Source::Literal(0),
                }),
                result => result,
            };
            program.results.push(result);
        }
        program
    }

    fn add(&mut self, measure: &Measure) -> Source {
        let (operation, width, left, right) = match measure {
            Measure::Column(number) => return Source::Column(*number),
            Measure::Literal(value) => return Source::Literal(*value),
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

    fn step(&mut self, step: Step) -> Source {
        let known = self.steps.iter().position(|other| *other == step);
        Source::Step(known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    /// Returns the origin of the argument of an aggregate.
    pub(super) fn result(&self, aggregate: usize) -> Source {
        self.results[aggregate]
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
    /// these bounds.
    pub(super) fn bounds(&self, aggregate: usize, columns: &[(i64, i64)]) -> (i128, i128) {
        let mut steps: Vec<(i128, i128)> = Vec::with_capacity(self.steps.len());
        let of = |source: Source, steps: &[(i128, i128)]| match source {
            Source::Column(column) => (columns[column].0.into(), columns[column].1.into()),
            Source::Literal(value) => (value.into(), value.into()),
            Source::Step(step) => steps[step],
        };
        for step in &self.steps {
            let (left, right) = (of(step.left, &steps), of(step.right, &steps));
            let corners = [
                step.operation.exact(left.0, right.0),
                step.operation.exact(left.0, right.1),
                step.operation.exact(left.1, right.0),
                step.operation.exact(left.1, right.1),
            ];
            let low = corners.into_iter().fold(i128::MAX, i128::min);
            let high = corners.into_iter().fold(i128::MIN, i128::max);
            // Results beyond 64 bits are errors.
            steps.push((low.max(i64::MIN.into()), high.min(i64::MAX.into())));
        }
        of(self.results[aggregate], &steps)
    }

    /// Returns true if the argument of an aggregate may be NULL, for columns of which these may be.
    pub(super) fn is_nullable(&self, aggregate: usize, columns: &[bool]) -> bool {
        fn of(program: &Program, source: Source, columns: &[bool]) -> bool {
            match source {
                Source::Column(column) => columns[column],
                Source::Literal(_) => false,
                Source::Step(step) => {
                    let step = &program.steps[step];
                    of(program, step.left, columns) || of(program, step.right, columns)
                }
            }
        }
        of(self, self.results[aggregate], columns)
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
        let program = Program::of(&aggregates);
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
        assert!(program.is_nullable(1, &[false, true]) && !program.is_nullable(2, &[true, true]));
    }
}
