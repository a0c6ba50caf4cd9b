//! The rule that puts [`StringsExec`] into physical plans.

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use halocline_catalog::settings::query_memory;

use super::exec::{StringsExec, plain};
use super::window;
use crate::row_size::known_bytes;
use crate::sort_aggregate::SortAggregateExec;
use crate::spill_window::SpillingWindowExec;

/// Divisor of query memory: inputs estimated at no more than `memory / MEMORY_DIVISOR` bytes get no
/// [`StringsExec`].
const MEMORY_DIVISOR: usize = 16;

/// The rule that inserts [`StringsExec`] below operators that retain rows.
#[derive(Debug)]
pub struct StringViewsRule;

impl PhysicalOptimizerRule for StringViewsRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(memory) = query_memory(options) else {
            return Ok(plan);
        };
        let room = memory / MEMORY_DIVISOR;
        let rewritten = plan.transform_down(|plan| {
            if plan.is::<SortAggregateExec>() {
                // It copies strings itself, and knows the nodes below.
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            match &plan.children()[..] {
                [input] if has_views(&input.schema()) && known_bytes(input, options) > room => {
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

/// Wraps the input of a node that retains rows in a [`StringsExec`]; leaves other nodes as they are.
fn over_strings(
    plan: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(running) = plan.downcast_ref::<BoundedWindowAggExec>() {
        let schema = plan.schema();
        let (views, strings) = (input.schema(), Arc::new(StringsExec::plain(input)));
        let functions = running.window_expr().iter();
        let functions = functions.map(|function| window::over_strings(function, &views, &strings.schema()));
        let Some(functions) = functions.collect::<Option<Vec<_>>>() else {
            return Ok(Transformed::no(plan));
        };
        let mode = running.input_order_mode.clone();
        let can_repartition = !running.partition_keys().is_empty();
        let of_strings = BoundedWindowAggExec::try_new(functions, strings, mode, can_repartition)?;
        // The node above the strings knows only the declared order of its input. If PARTITION BY is ordered
        // for another reason, such as constant keys, leave the plan as it is.
        if of_strings.partition_by_sort_keys().is_err() {
            return Ok(Transformed::no(plan));
        }
        let views = StringsExec::typed(Arc::new(of_strings), &schema);
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
