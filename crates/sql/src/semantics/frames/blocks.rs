//! States of an aggregate for blocks of a partition's rows.
//!
//! An accumulator takes a long run of rows as the rows before its first whole block, the states of its
//! blocks, and the rows after them. Blocks of a partition of n rows have about the square root of n rows, so
//! that a row takes as many steps instead of n.

use std::ops::Range;

use arrow_array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::filter;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

/// Rows of the smallest block: the state of one costs about as much as a few hundred rows.
const MIN_ROWS: usize = 512;

/// An aggregate over the rows of a partition.
#[derive(Debug)]
pub(super) struct Blocks {
    aggregate: AggregateFunctionExpr,
    /// A column for each field of the state, a row for each block; empty before a run has whole blocks.
    states: Vec<ArrayRef>,
    blocks: usize,
    /// False if the numbers of rows change.
    keeps_states: bool,
}

impl Blocks {
    pub(super) fn new(aggregate: AggregateFunctionExpr, keeps_states: bool) -> Self {
        Self {
            aggregate,
            states: Vec::new(),
            blocks: 0,
            keeps_states,
        }
    }

    /// Returns the aggregate of runs of rows, in their order.
    pub(super) fn over(
        &mut self,
        rows: &Rows<'_>,
        runs: impl Iterator<Item = Range<usize>>,
    ) -> Result<ScalarValue> {
        let mut accumulator = self.aggregate.create_accumulator()?;
        for run in runs {
            self.add(accumulator.as_mut(), rows, run)?;
        }
        accumulator.evaluate()
    }

    fn add(&mut self, accumulator: &mut dyn Accumulator, rows: &Rows<'_>, run: Range<usize>) -> Result<()> {
        let size = rows.block();
        let (first, end) = (run.start.div_ceil(size), run.end / size);
        // The states of two blocks cost more than their rows.
        if !self.keeps_states || end < first + 2 {
            return rows.update(accumulator, run);
        }
        self.make(rows, end)?;
        rows.update(accumulator, run.start..first * size)?;
        let states: Vec<ArrayRef> = self.states.iter().map(|s| s.slice(first, end - first)).collect();
        accumulator.merge_batch(&states)?;
        rows.update(accumulator, end * size..run.end)
    }

    /// Makes the states of all blocks of the partition, which has `least` at least.
    fn make(&mut self, rows: &Rows<'_>, least: usize) -> Result<()> {
        if self.blocks >= least {
            return Ok(());
        }
        let size = rows.block();
        let blocks = rows.number() / size;
        let mut states: Vec<Vec<ScalarValue>> = Vec::new();
        for block in 0..blocks {
            let mut accumulator = self.aggregate.create_accumulator()?;
            rows.update(accumulator.as_mut(), block * size..(block + 1) * size)?;
            let state = accumulator.state()?;
            states.resize_with(state.len(), Vec::new);
            states
                .iter_mut()
                .zip(state)
                .for_each(|(column, value)| column.push(value));
        }
        self.states = states
            .into_iter()
            .map(ScalarValue::iter_to_array)
            .collect::<Result<_>>()?;
        self.blocks = blocks;
        Ok(())
    }
}

/// The arguments of an aggregate for all rows of a partition.
pub(super) struct Rows<'a> {
    pub(super) arguments: &'a [ArrayRef],
    /// True for the rows that `FILTER` passes; all if there is none.
    pub(super) passing: Option<&'a BooleanArray>,
}

impl Rows<'_> {
    fn number(&self) -> usize {
        self.arguments.first().map_or(0, |column| column.len())
    }

    /// Returns the number of rows of a block.
    fn block(&self) -> usize {
        self.number().isqrt().max(MIN_ROWS)
    }

    fn update(&self, accumulator: &mut dyn Accumulator, run: Range<usize>) -> Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        let slices = self
            .arguments
            .iter()
            .map(|column| column.slice(run.start, run.len()));
        let slices: Vec<ArrayRef> = match self.passing {
            None => slices.collect(),
            Some(passing) => {
                let passing = passing.slice(run.start, run.len());
                slices
                    .map(|column| filter(&column, &passing))
                    .collect::<Result<_, _>>()?
            }
        };
        accumulator.update_batch(&slices)
    }
}
