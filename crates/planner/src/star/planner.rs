//! Star queries in DataFusion: the optimizer rule that recognises them, and their physical planning.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Extension, LogicalPlan, UserDefinedLogicalNode};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use halocline_catalog::settings::SessionSettings;
use halocline_scan::leaf::LeafExec;

use super::dimension_scan::DimensionScan;
use super::exec::StarExec;
use super::node::StarNode;
use super::shape::StarShape;
use crate::materialized;

/// DataFusion's planner with support for star queries.
#[derive(Debug)]
pub struct StarQueryPlanner;

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
            return Ok(materialized::plan_extension(node, dimensions));
        };
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return Ok(None);
        };
        let branches = node.dimensions.iter().zip(&node.shape.branches).zip(dimensions);
        let dimensions = branches.map(|((logical, branch), values)| {
            match DimensionScan::from_plan(logical, branch, values) {
                Some(scan) => Arc::new(LeafExec(scan)) as Arc<dyn ExecutionPlan>,
                None => Arc::clone(values),
            }
        });
        let exec = StarExec::new(node, dimensions.collect(), state)?;
        Ok(Some(Arc::new(exec)))
    }
}

/// Replaces aggregates over star joins and over one table, unless `halocline.star_join` or
/// `halocline.fused_aggregate` is off.
#[derive(Debug)]
pub struct StarRule;

impl OptimizerRule for StarRule {
    fn name(&self) -> &'static str {
        "star_join"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let options = config.options();
        let settings = options.extensions.get::<SessionSettings>();
        let threads = options.execution.target_partitions;
        let Some(shape) = settings.and_then(|settings| StarShape::recognise(aggregate, settings, threads))
        else {
            return Ok(Transformed::no(plan));
        };
        let node = StarNode {
            dimensions: shape.branches.iter().map(|branch| branch.plan.clone()).collect(),
            shape: Arc::new(shape),
            schema: Arc::clone(&aggregate.schema),
            replaced: Arc::new(plan),
        };
        Ok(Transformed::yes(LogicalPlan::Extension(Extension {
            node: Arc::new(node),
        })))
    }
}
