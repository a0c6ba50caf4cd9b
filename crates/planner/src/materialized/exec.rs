//! The node in the physical plan, and the rule that makes nodes share their rows.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{TryStreamExt, stream};

use super::rows::SharedRows;
use crate::unary_node::{no_expressions, one_child};

/// Returns the rows of a query that several nodes share.
#[derive(Debug)]
pub(super) struct MaterializedExec {
    number: usize,
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<SharedRows>,
    properties: Arc<PlanProperties>,
}

impl MaterializedExec {
    /// Creates a node that shares its rows with no other yet.
    pub(super) fn new(number: usize, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            number,
            input,
            rows: Arc::default(),
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for MaterializedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "Materialized: query={}", self.number)
            }
            DisplayFormatType::TreeRender => writeln!(f, "query={}", self.number),
        }
    }
}

impl ExecutionPlan for MaterializedExec {
    fn name(&self) -> &'static str {
        "Materialized"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    no_expressions!();

    one_child!(|node, input| Self {
        rows: Arc::clone(&node.rows),
        ..Self::new(node.number, input)
    });

    /// Keeps the rows: a query is evaluated once, however often a recursive one around it runs.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal("Materialized has one partition".into()));
        }
        let rows = self.rows.get(&self.input, &context);
        let batches = stream::once(async move { rows.await?.read() }).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// Makes all nodes of a plan with the same number share their rows. No rule after this one may copy plans.
#[derive(Debug)]
pub struct ShareRows;

impl PhysicalOptimizerRule for ShareRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_materialized(&plan) {
            return Ok(plan);
        }
        let mut shared: HashMap<usize, Arc<SharedRows>> = HashMap::new();
        let shares = |node: Arc<dyn ExecutionPlan>| {
            let Some(found) = node.downcast_ref::<MaterializedExec>() else {
                return Ok(Transformed::no(node));
            };
            let rows = shared.entry(found.number).or_default();
            Ok(Transformed::yes(Arc::new(MaterializedExec {
                number: found.number,
                input: Arc::clone(&found.input),
                rows: Arc::clone(rows),
                properties: Arc::clone(&found.properties),
            }) as Arc<dyn ExecutionPlan>))
        };
        plan.transform_up(shares).data()
    }

    fn name(&self) -> &'static str {
        "share_materialized"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_materialized(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<MaterializedExec>() || plan.children().into_iter().any(has_materialized)
}
