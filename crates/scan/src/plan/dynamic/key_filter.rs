//! A dynamic filter of a join for an operator that tests the keys themselves.

use std::sync::Arc;

use arrow_array::ArrayRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::build_keys::BuildKeys;

/// A dynamic filter on the output of an operator, with the keys of the join that sets it.
#[derive(Debug)]
pub struct KeyFilter {
    expr: Arc<dyn PhysicalExpr>,
    keys: Arc<BuildKeys>,
}

impl KeyFilter {
    /// Combines the filter of a join with the keys of its build side.
    pub fn new(expr: Arc<dyn PhysicalExpr>, keys: Arc<BuildKeys>) -> Self {
        Self { expr, keys }
    }

    /// Returns the filter as an expression, by which its join finds out that it is read.
    pub fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    /// Returns the keys that are compared with a column of the output, and that column.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, usize)> {
        let children = self.expr.children().into_iter().enumerate();
        children.filter_map(|(key, child)| Some((key, child.downcast_ref::<Column>()?.index())))
    }

    /// Returns all values of a key on the build side, in no order; `None` if they are not known.
    pub fn values(&self, key: usize) -> Option<Vec<ArrayRef>> {
        self.keys.values(key)
    }
}
