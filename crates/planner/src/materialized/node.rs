//! The node in the logical plan.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;

use super::exec::MaterializedExec;

/// A query whose rows are those of every other node with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MaterializedNode {
    number: usize,
    input: LogicalPlan,
}

impl MaterializedNode {
    pub(super) fn new(number: usize, input: LogicalPlan) -> Self {
        Self { number, input }
    }
}

impl PartialOrd for MaterializedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.number.cmp(&other.number) {
            Ordering::Equal => self.input.partial_cmp(&other.input),
            different => Some(different),
        }
    }
}

impl UserDefinedLogicalNodeCore for MaterializedNode {
    fn name(&self) -> &'static str {
        "Materialized"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Materialized: query={}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Self::new(self.number, input)),
            _ => Err(DataFusionError::Internal("Materialized has one input".into())),
        }
    }

    /// Returns all columns, which other references may need.
    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

/// Returns a node with a query whose rows are those of every other node with the same number.
pub fn evaluated_once(number: usize, query: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Extension(Extension {
        node: Arc::new(MaterializedNode::new(number, query)),
    })
}

/// Returns the query of a node that is evaluated once.
pub fn materialized_input(node: &dyn UserDefinedLogicalNode) -> Option<&LogicalPlan> {
    let node = node.as_any().downcast_ref::<MaterializedNode>()?;
    Some(&node.input)
}

/// Returns the physical plan of a node that is evaluated once.
pub fn plan_extension(
    node: &dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
) -> Option<Arc<dyn ExecutionPlan>> {
    let node = node.as_any().downcast_ref::<MaterializedNode>()?;
    match inputs {
        [input] => Some(Arc::new(MaterializedExec::new(node.number, Arc::clone(input)))),
        _ => None,
    }
}
