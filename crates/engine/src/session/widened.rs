//! Statements over CSV files in place whose values contradict the types that a sample suggested.
//!
//! Such a value widens the type that the session expects of the column. As long as the statement has returned
//! no row, it is run again; afterwards the value is an error that names its line.

use std::future::Future;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use halocline_scan::files::ScanState;
use halocline_sql::EngineError;

use super::DatabaseSession;
use crate::QueryResult;

/// Runs of a statement, at most. After a few values that contradict their types, all values are looked at.
const MAX_RUNS: usize = 16;

/// Runs a statement until its CSV files have no value of another kind than expected. `run` starts it anew.
///
/// # Errors
/// Those of the statement.
pub(crate) async fn run_until_settled<F>(
    session: &DatabaseSession,
    mut run: impl FnMut() -> F,
) -> Result<QueryResult, EngineError>
where
    F: Future<Output = Result<QueryResult, EngineError>>,
{
    let mut runs = 1;
    loop {
        let result = run().await;
        let scans = session.csv_scans();
        if scans.is_empty() {
            return result;
        }
        let result = match result {
            Ok(result) => first_batch(result).await,
            Err(error) => Err(error),
        };
        let widened = scans.iter().any(|scan| scan.is_widened());
        if result.is_err() && widened && runs < MAX_RUNS {
            runs += 1;
            continue;
        }
        returned(&scans);
        return result;
    }
}

fn returned(scans: &[Arc<ScanState>]) {
    scans.iter().for_each(|scan| scan.set_returned());
}

/// Waits for the first batch of a result; an error in place of it is returned.
pub(super) async fn first_batch(result: QueryResult) -> Result<QueryResult, EngineError> {
    if result.message().is_some() {
        return Ok(result);
    }
    let mut rows = result.stream();
    let schema = rows.schema();
    let first = match rows.next().await {
        Some(Err(error)) => return Err(error),
        first => first,
    };
    let rows = stream::iter(first).chain(rows);
    let rows = rows.map(|batch| batch.map_err(|error| DataFusionError::External(Box::new(error))));
    let rows: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
    Ok(QueryResult::rows(rows))
}
