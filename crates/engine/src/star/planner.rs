//! From a star query in the logical plan to its execution.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::dimension_scan::DimensionScan;
use super::exec::StarExec;
use super::node::StarNode;
use crate::plan::LeafExec;

/// DataFusion's planner, which knows star queries too.
#[derive(Debug)]
pub(crate) struct StarQueryPlanner;

#[async_trait]
impl QueryPlanner for StarQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(StarPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

#[derive(Debug)]
struct StarPlanner;

#[async_trait]
impl ExtensionPlanner for StarPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        dimensions: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<StarNode>() else {
            return Ok(None);
        };
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return Ok(None);
        };
        let branches = node.dimensions.iter().zip(&node.shape.branches).zip(dimensions);
        let dimensions = branches.map(|((logical, branch), values)| {
            match DimensionScan::of(logical, branch.columns.len(), values) {
                Some(scan) => Arc::new(LeafExec(scan)) as Arc<dyn ExecutionPlan>,
                None => Arc::clone(values),
            }
        });
        let exec = StarExec::new(node, dimensions.collect(), state)?;
        Ok(Some(Arc::new(exec)))
    }
}
