//! A node over a stream, for operators that take plans.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use super::layout::unexpected;
use crate::unary_node::no_expressions;

/// Returns the rows of a stream; can be executed once.
pub(super) struct OnceExec {
    rows: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl OnceExec {
    /// Creates the node for rows that are in this order.
    pub(super) fn new(rows: SendableRecordBatchStream, order: Option<LexOrdering>) -> Self {
        let mut equivalence = EquivalenceProperties::new(rows.schema());
        if let Some(order) = order {
            equivalence.add_ordering(order);
        }
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            rows: Mutex::new(Some(rows)),
            properties: Arc::new(properties),
        }
    }
}

impl fmt::Debug for OnceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceExec")
    }
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

impl ExecutionPlan for OnceExec {
    fn name(&self) -> &'static str {
        "Rows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    no_expressions!();

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.take().ok_or_else(|| unexpected("rows are read once"))
    }
}
