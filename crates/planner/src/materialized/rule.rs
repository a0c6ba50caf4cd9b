//! The rule that replaces marks in the logical plan.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, Extension, LogicalPlan, SubqueryAlias};
use datafusion::optimizer::AnalyzerRule;
use halocline_sql::evaluated_once::{ALWAYS, IF_INEXACT};

use super::node::MaterializedNode;

/// Puts a [`MaterializedNode`] below each mark. It runs before all other rules of the analyzer.
#[derive(Debug)]
pub struct MaterializeMarked;

impl AnalyzerRule for MaterializeMarked {
    fn name(&self) -> &'static str {
        "materialize_marked"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let replaced = plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) = &plan else {
                return Ok(Transformed::no(plan));
            };
            let name = alias.table();
            let (number, is_materialized) = match (name.strip_prefix(IF_INEXACT), name.strip_prefix(ALWAYS)) {
                (Some(number), _) => (number, adds_floats(input)),
                (None, Some(number)) => (number, true),
                (None, None) => return Ok(Transformed::no(plan)),
            };
            let Ok(number) = number.parse() else {
                return Ok(Transformed::no(plan));
            };
            if !is_materialized {
                return Ok(Transformed::no(plan));
            }
            let node = LogicalPlan::Extension(Extension {
                node: Arc::new(MaterializedNode::new(number, (**input).clone())),
            });
            let aliased = SubqueryAlias::try_new(Arc::new(node), alias.clone())?;
            Ok(Transformed::yes(LogicalPlan::SubqueryAlias(aliased)))
        });
        replaced.data()
    }
}

/// Returns true if an aggregate of a plan has an argument that is a float.
fn adds_floats(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            let schema = aggregate.input.schema();
            let is_float = |expr: &Expr| {
                let data_type = expr.get_type(schema);
                data_type.is_ok_and(|data_type| {
                    matches!(
                        data_type,
                        DataType::Float16 | DataType::Float32 | DataType::Float64
                    )
                })
            };
            for expr in &aggregate.aggr_expr {
                expr.apply(|expr| {
                    if let Expr::AggregateFunction(function) = expr {
                        found |= function.params.args.iter().any(is_float);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    found || walked.is_err()
}
