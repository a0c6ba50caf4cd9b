//! Aggregates over frames that end with the partition, from their last row on.
//!
//! A frame that begins at the current row, or some rows from it, loses a row with each step, and an
//! accumulator is made to gain rows: few can give a row back, floats not exactly. Read backwards, the frames
//! grow. The states after blocks of about the square root of n rows are computed once, from the last block
//! to the first; the results of a block's rows are computed from the state after it when the first of them
//! is asked for. So a row costs two updates, and what is kept is about the square root of n states.

use arrow_array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

/// Rows of the smallest block.
const MIN_ROWS: usize = 512;

/// Aggregates whose state has a fixed size, and whose result does not depend on the order of the rows.
const AGGREGATES: [&str; 22] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "min",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "stddev",
    "stddev_pop",
    "sum",
    "var_pop",
];

/// The aggregate of each run of rows that ends with the last one.
pub(super) struct Suffixes {
    aggregate: AggregateFunctionExpr,
    arguments: Vec<ArrayRef>,
    rows: usize,
    /// Rows of a block.
    block: usize,
    /// For each block, the state of the rows after it; made with the first result.
    states_after: Vec<Vec<ArrayRef>>,
    /// The results of the rows of one block, from its last row on, and the number of the block.
    results: Vec<ScalarValue>,
    of_block: usize,
}

impl Suffixes {
    /// Returns true for aggregates that can be computed so.
    pub(super) fn takes(aggregate: &AggregateFunctionExpr) -> bool {
        let name = aggregate.fun().name();
        let is_known = AGGREGATES.contains(&name) || name == "var";
        is_known && !aggregate.is_distinct() && !aggregate.ignore_nulls()
    }

    /// Creates the aggregates of `rows` rows.
    pub(super) fn new(aggregate: AggregateFunctionExpr, arguments: Vec<ArrayRef>, rows: usize) -> Self {
        Self {
            aggregate,
            arguments,
            rows,
            block: rows.isqrt().max(MIN_ROWS),
            states_after: Vec::new(),
            results: Vec::new(),
            of_block: usize::MAX,
        }
    }

    /// Returns the aggregate of the rows from `start` on. Rows are asked for in order.
    ///
    /// # Errors
    /// The aggregate overflows.
    pub(super) fn from(&mut self, start: usize) -> Result<ScalarValue> {
        if start >= self.rows {
            return self.aggregate.default_value(self.aggregate.field().data_type());
        }
        if self.states_after.is_empty() {
            self.make_states()?;
        }
        let block = start / self.block;
        if self.of_block != block {
            self.make_results(block)?;
        }
        let end = self.end_of(block);
        Ok(self.results[end - 1 - start].clone())
    }

    fn end_of(&self, block: usize) -> usize {
        ((block + 1) * self.block).min(self.rows)
    }

    fn make_states(&mut self) -> Result<()> {
        let blocks = self.rows.div_ceil(self.block);
        let mut states_after = vec![Vec::new(); blocks];
        for block in (1..blocks).rev() {
            let mut accumulator = self.accumulator_in(&states_after[block])?;
            self.update(accumulator.as_mut(), block * self.block, self.end_of(block))?;
            let state = accumulator.state()?.into_iter();
            states_after[block - 1] = state.map(|value| value.to_array()).collect::<Result<_>>()?;
        }
        self.states_after = states_after;
        Ok(())
    }

    fn make_results(&mut self, block: usize) -> Result<()> {
        let mut accumulator = self.accumulator_in(&self.states_after[block])?;
        self.results.clear();
        for row in (block * self.block..self.end_of(block)).rev() {
            self.update(accumulator.as_mut(), row, row + 1)?;
            self.results.push(accumulator.evaluate()?);
        }
        self.of_block = block;
        Ok(())
    }

    /// Returns an accumulator in a state, which is empty for no rows.
    fn accumulator_in(&self, state: &[ArrayRef]) -> Result<Box<dyn Accumulator>> {
        let mut accumulator = self.aggregate.create_accumulator()?;
        if !state.is_empty() {
            accumulator.merge_batch(state)?;
        }
        Ok(accumulator)
    }

    fn update(&self, accumulator: &mut dyn Accumulator, start: usize, end: usize) -> Result<()> {
        let rows = self.arguments.iter();
        let rows: Vec<ArrayRef> = rows.map(|column| column.slice(start, end - start)).collect();
        accumulator.update_batch(&rows)
    }
}
