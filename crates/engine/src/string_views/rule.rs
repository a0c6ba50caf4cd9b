//! The rule that puts [`StringsExec`] into physical plans.

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::exec::{StringsExec, plain};
use crate::config::query_memory;
use crate::sort_aggregate::SortAggregateExec;
use crate::spill_window::{SpillingWindowExec, has_no_filter, known_bytes};

/// Part of the queries' memory that rows may take without the node: one over this.
const SHARE: usize = 16;

/// The rule.
#[derive(Debug)]
pub(crate) struct StringViewsRule;

impl PhysicalOptimizerRule for StringViewsRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(memory) = query_memory(options) else {
            return Ok(plan);
        };
        let room = memory / SHARE;
        let rewritten = plan.transform_down(|plan| {
            if plan.is::<SortAggregateExec>() {
                // It copies strings itself, and knows the nodes below.
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            match &plan.children()[..] {
                [input] if has_views(&input.schema()) && known_bytes(input) > room => {
                    let input = Arc::clone(input);
                    over_strings(plan, input)
                }
                _ => Ok(Transformed::no(plan)),
            }
        });
        rewritten.data()
    }

    fn name(&self) -> &str {
        "string_views"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_views(schema: &Schema) -> bool {
    schema
        .fields()
        .iter()
        .any(|field| plain(field.data_type()).is_some())
}

/// Returns a node over the copied strings of its input, if it is one that collects.
fn over_strings(
    plan: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        if !window
            .window_expr()
            .iter()
            .all(|window| takes_strings(&**window, &input.schema()))
        {
            return Ok(Transformed::no(plan));
        }
        let schema = plan.schema();
        let plain: Arc<dyn ExecutionPlan> = Arc::new(StringsExec::plain(input));
        let window = replace_children_if_necessary(Arc::clone(&plan), vec![plain])?;
        // Keys may be in order for another reason than that of the input, which alone is known above the
        // strings: constants are.
        let of_strings = window.downcast_ref::<BoundedWindowAggExec>();
        if of_strings.is_none_or(|window| window.partition_by_sort_keys().is_err()) {
            return Ok(Transformed::no(plan));
        }
        let views = StringsExec::typed(window, &schema);
        return Ok(Transformed::yes(Arc::new(views) as Arc<dyn ExecutionPlan>));
    }
    let exchange = plan.downcast_ref::<RepartitionExec>();
    let is_exchange =
        exchange.is_some_and(|exchange| matches!(exchange.partitioning(), Partitioning::Hash(..)));
    let collects = is_exchange
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<SpillingWindowExec>();
    if !collects {
        return Ok(Transformed::no(plan));
    }
    let compact: Arc<dyn ExecutionPlan> = Arc::new(StringsExec::compact(input));
    Ok(Transformed::yes(replace_children_if_necessary(
        plan,
        vec![compact],
    )?))
}

/// Returns true if a function over a window has the same result when the views of its input are strings: they
/// are not among its arguments, and at most compared as they are.
fn takes_strings(window: &dyn WindowExpr, schema: &Schema) -> bool {
    let reads_views = |expr: &Arc<dyn PhysicalExpr>| {
        let columns = collect_columns(expr);
        let mut types = columns
            .iter()
            .map(|column| schema.field(column.index()).data_type());
        types.any(|data_type| plain(data_type).is_some())
    };
    let order = window.order_by().iter().map(|sort| &sort.expr);
    let mut keys = window.partition_by().iter().chain(order);
    !window.expressions().iter().any(reads_views)
        && keys.all(|key| key.is::<Column>() || !reads_views(key))
        && has_no_filter(window)
}
