//! Finds star queries.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::node::StarNode;
use super::shape::StarShape;
use crate::config::SessionSettings;

/// Replaces aggregates over star joins, unless `halocline.star_join` is off.
#[derive(Debug)]
pub(crate) struct StarRule;

impl OptimizerRule for StarRule {
    fn name(&self) -> &'static str {
        "star_join"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let options = config.options();
        let wanted = options
            .extensions
            .get::<SessionSettings>()
            .is_some_and(|settings| settings.star_join.0);
        let LogicalPlan::Aggregate(aggregate) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let Some(shape) = wanted.then(|| StarShape::of(aggregate)).flatten() else {
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
