//! Expressions by which the rows of a group are compared.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalSortExpr;

use super::order_keys::OrderKeys;

/// The key of each row as a number: a row with a smaller number comes before one with a greater number.
#[derive(Debug)]
pub(super) enum ComparedKeys {
    /// That of an expression.
    Sorted(PhysicalSortExpr, OrderKeys),
    /// The number of rows before it.
    Arrival(u64),
}

impl ComparedKeys {
    /// Makes keys of the rows of a schema, sorted by an expression if there is one.
    ///
    /// # Errors
    /// The values of the expression cannot be sorted.
    pub(super) fn new(order: Option<&PhysicalSortExpr>, schema: &Schema) -> Result<Self> {
        let Some(order) = order else {
            return Ok(Self::Arrival(0));
        };
        let keys = OrderKeys::new(&order.expr.data_type(schema)?, order.options)?;
        Ok(Self::Sorted(order.clone(), keys))
    }

    /// Replaces `keys` by those of the rows of a batch.
    ///
    /// # Errors
    /// The expression cannot be evaluated.
    pub(super) fn fill(&mut self, batch: &RecordBatch, keys: &mut Vec<u64>) -> Result<()> {
        let rows = batch.num_rows();
        match self {
            Self::Sorted(order, sorted) => sorted.fill(&order.expr.evaluate(batch)?.into_array(rows)?, keys),
            Self::Arrival(before) => {
                keys.clear();
                keys.extend(*before..*before + rows as u64);
                *before += rows as u64;
                Ok(())
            }
        }
    }
}
