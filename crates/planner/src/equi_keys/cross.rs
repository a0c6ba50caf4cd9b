//! Cross joins with conditions above them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, JoinType, NullEquality};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Extension, Join, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's `EliminateCrossJoin` for chains of inner joins that are not null-safe. Null-safe inner joins
/// are inputs of such chains.
#[derive(Debug, Default)]
pub(super) struct OrderCrossJoins(EliminateCrossJoin);

impl OptimizerRule for OrderCrossJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = matches!(node, LogicalPlan::Join(join) if is_hidden(join));
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if !found {
            return self.0.rewrite(plan, config);
        }
        let hidden = plan.transform_up_with_subqueries(|node| {
            Ok(match node {
                LogicalPlan::Join(join) if is_hidden(&join) => Transformed::yes(hide(join)),
                other => Transformed::no(other),
            })
        })?;
        let rewritten = self.0.rewrite(hidden.data, config)?;
        let shown = rewritten.data.transform_up_with_subqueries(show)?;
        Ok(Transformed::new_transformed(shown.data, rewritten.transformed))
    }
}

fn is_hidden(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull
}

/// A join that is no join to the rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HiddenJoin(Join);

fn hide(join: Join) -> LogicalPlan {
    LogicalPlan::Extension(Extension {
        node: Arc::new(HiddenJoin(join)),
    })
}

fn show(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let hidden = match &plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref::<HiddenJoin>(),
        _ => None,
    };
    Ok(match hidden {
        Some(HiddenJoin(join)) => Transformed::yes(LogicalPlan::Join(join.clone())),
        None => Transformed::no(plan),
    })
}

impl PartialOrd for HiddenJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl UserDefinedLogicalNodeCore for HiddenJoin {
    fn name(&self) -> &'static str {
        "HiddenJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.0.left, &self.0.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.0.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        LogicalPlan::Join(self.0.clone()).expressions()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match LogicalPlan::Join(self.0.clone()).with_new_exprs(exprs, inputs)? {
            LogicalPlan::Join(join) => Ok(Self(join)),
            _ => Err(DataFusionError::Internal(
                "a join is no join with new inputs".into(),
            )),
        }
    }
}
