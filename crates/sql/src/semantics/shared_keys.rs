//! Keys of windows that share an expression.
//!
//! DataFusion's rule that evaluates common subexpressions once names a replaced key after what it replaces,
//! except in a function that has an alias. So functions over one window have different keys, which is
//! against what the physical planner asserts. The names of keys mean nothing; the function keeps its own.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule of this name.
#[derive(Debug, Default)]
pub(super) struct ShareSubexpressions {
    inner: CommonSubexprEliminate,
}

impl OptimizerRule for ShareSubexpressions {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let shared = self.inner.rewrite(plan, config)?;
        if !shared.transformed {
            return Ok(shared);
        }
        shared.map_data(|plan| {
            let unnamed = plan.transform_down_with_subqueries(|plan| match plan {
                LogicalPlan::Window(_) => without_names_of_keys(plan),
                other => Ok(Transformed::no(other)),
            });
            Ok(unnamed?.data)
        })
    }
}

/// Removes the aliases of the keys of a plan's windows.
fn without_names_of_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let unnamed = expr.transform_down(|expr| {
            let Expr::WindowFunction(mut function) = expr else {
                return Ok(Transformed::no(expr));
            };
            let params = &mut function.params;
            let orders = params.order_by.iter_mut().map(|order| &mut order.expr);
            for key in params.partition_by.iter_mut().chain(orders) {
                *key = std::mem::take(key).unalias_nested().data;
            }
            Ok(Transformed::yes(Expr::WindowFunction(function)))
        })?;
        Ok(unnamed.update_data(|expr| name.restore(expr)))
    })
}
