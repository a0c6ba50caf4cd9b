//! Further tries of queries that run out of memory.
//!
//! Star joins, fused aggregates and hash joins hold what they have collected in memory, and fail if that is
//! not enough. As long as the query has returned no row, it is then planned again of operators that spill,
//! over the same version of the database, with [keys of groups](super::string_keys) that take little memory.
//!
//! Operators that spill need memory for a few batches each, which are bounded in rows, not in bytes. So where
//! rows are long, a query is tried again with smaller batches, in one partition, whose operators then share
//! the memory with no others.

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

/// How a query is planned after it has run out of memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retry {
    /// Most rows of a batch, and in one partition; `None` as the session has set both.
    pub batch_rows: Option<usize>,
}

/// The tries after the first, in their order.
const RETRIES: [Retry; 3] = [
    Retry { batch_rows: None },
    Retry {
        batch_rows: Some(128),
    },
    Retry { batch_rows: Some(16) },
];

/// Returns the rows of a query that has been started, or those of a further try, unless joins must not
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
        let mut retries = RETRIES.into_iter();
        loop {
            match rows.next().await {
                Some(Err(error)) if is_exhausted(&error) => {
                    let Some(retry) = retries.next() else {
                        return Err(error);
                    };
                    tracing::debug!(%error, ?retry, "planned again of operators that spill");
                    drop(rows);
                    rows = start(&states, &plan, retry).await?;
                }
                first => return Ok::<_, DataFusionError>(stream::iter(first).chain(rows)),
            }
        }
    };
    let tried = stream::once(Box::pin(tried)).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, tried))
}

fn is_exhausted(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

async fn start(
    states: &SessionStates,
    plan: &LogicalPlan,
    retry: Retry,
) -> Result<SendableRecordBatchStream> {
    let state = states.spilling(retry);
    let plan = without_views(state.optimize(plan)?)?;
    let physical = state.query_planner().create_physical_plan(&plan, &state).await?;
    stack::execute(physical, Arc::new(TaskContext::from(&state))).map_err(external)
}
