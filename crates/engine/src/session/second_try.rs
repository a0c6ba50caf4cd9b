//! A second try of queries that run out of memory.
//!
//! Star joins, fused aggregates and hash joins hold what they have collected in memory, and fail if that is
//! not enough. As long as the query has returned no row, it is then planned again of operators that spill,
//! over the same version of the database, with [keys of groups](super::string_keys) that take little memory.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use halocline_catalog::settings::{FeatureMode, SessionSettings};
use halocline_sql::error::external;
use halocline_sql::stack;

use super::states::SessionStates;
use super::string_keys::without_views;

/// Returns the rows of a query that has been started, or those of its second try, unless joins must not
/// spill. `plan` is not optimised.
pub(super) fn with_second_try(
    rows: SendableRecordBatchStream,
    states: &Arc<SessionStates>,
    plan: &Arc<LogicalPlan>,
) -> SendableRecordBatchStream {
    let may_spill = |settings: &SessionSettings| settings.spilling_join != FeatureMode::Off;
    if !states.settings().is_some_and(may_spill) {
        return rows;
    }
    let schema = rows.schema();
    let (states, plan) = (Arc::clone(states), Arc::clone(plan));
    let tried = async move {
        let mut rows = rows;
        match rows.next().await {
            Some(Err(error)) if is_exhausted(&error) => {
                tracing::debug!(%error, "planned again of operators that spill");
                drop(rows);
                let rows = start(&states, &plan).await?;
                Ok::<_, DataFusionError>(rows.boxed())
            }
            first => Ok(stream::iter(first).chain(rows).boxed()),
        }
    };
    let tried = stream::once(Box::pin(tried)).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, tried))
}

fn is_exhausted(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

async fn start(states: &SessionStates, plan: &LogicalPlan) -> Result<SendableRecordBatchStream> {
    let state = states.spilling();
    let plan = without_views(state.optimize(plan)?)?;
    let physical = state.query_planner().create_physical_plan(&plan, &state).await?;
    stack::execute(physical, Arc::new(TaskContext::from(&state))).map_err(external)
}
