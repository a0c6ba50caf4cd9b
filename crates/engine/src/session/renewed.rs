//! Statements beside a process that writes the stores, whose state of the stores ends before they do.
//!
//! That happens when another process opens the stores for writing. As long as the statement has returned no
//! row, and is not one of a transaction, which must not see two moments, it is run again and sees a newer
//! state.

use std::future::Future;

use datafusion::error::DataFusionError;
use halocline_keyed::KeyedError;
use halocline_sql::EngineError;
use halocline_store::StoreError;

use super::DatabaseSession;
use super::widened::first_batch;
use crate::QueryResult;

/// Runs of a statement, at most.
const MAX_RUNS: usize = 16;

/// Runs a statement until no other process has ended the state that it sees. `run` starts it anew.
///
/// # Errors
/// Those of the statement.
pub(crate) async fn run_until_current<F>(
    session: &DatabaseSession,
    mut run: impl FnMut() -> F,
) -> Result<QueryResult, EngineError>
where
    F: Future<Output = Result<QueryResult, EngineError>>,
{
    let mut runs = 1;
    loop {
        let result = run().await;
        if session.slot.must_be_idle("").is_err() || !session.stores.is_reader() {
            return result;
        }
        let result = match result {
            Ok(result) => first_batch(result).await,
            Err(error) => Err(error),
        };
        match result {
            Err(error) if has_ended(&error) && runs < MAX_RUNS => runs += 1,
            result => return result,
        }
    }
}

/// Returns true if the state of the stores that a reader has seen has ended.
fn has_ended(error: &EngineError) -> bool {
    let of_store = |error: &StoreError| {
        matches!(
            error,
            StoreError::Stale { .. } | StoreError::Interrupted { .. } | StoreError::Overtaken { .. }
        )
    };
    match error {
        EngineError::Store(error) => of_store(error),
        EngineError::Keyed(error) => match &**error {
            KeyedError::Store { source, .. } | KeyedError::List(source) => of_store(source),
            _ => false,
        },
        EngineError::DataFusion { source, .. } => match source.downcast_ref::<DataFusionError>() {
            Some(error) => match error.find_root() {
                DataFusionError::External(inner) => inner.downcast_ref().is_some_and(has_ended),
                _ => false,
            },
            None => false,
        },
        _ => false,
    }
}
