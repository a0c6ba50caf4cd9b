//! `ADVISE`: indexes for queries, as rows.

use std::fs;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use halocline_catalog::context::EngineContext;
use halocline_sql::EngineError;
use halocline_sql::parse::{Advise, AdviseSource};

use crate::QueryResult;
use crate::advise::indexes::{IndexSetOptions, WorkloadQuery, advise_indexes};
use crate::session::DatabaseSession;

/// Runs the statement.
///
/// # Errors
/// The file cannot be read or holds no query; a query cannot be planned; a table cannot be read.
pub(super) async fn advise(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    advise: Advise,
) -> Result<QueryResult, EngineError> {
    let workload = match advise.source {
        AdviseSource::Queries(queries) => {
            let query = |(at, text): (usize, String)| WorkloadQuery::new(text, format!("query {}", at + 1));
            queries.into_iter().enumerate().map(query).collect()
        }
        AdviseSource::File(file) => read(&file)?,
    };
    let options = IndexSetOptions::new(advise.space.unwrap_or(u64::MAX)).with_dram(advise.dram);
    let advice = advise_indexes(session, engine, &workload, &options).await?;
    let batch = advice.to_batch()?;
    let rows = RecordBatchStreamAdapter::new(
        batch.schema(),
        futures::stream::iter([Ok::<_, DataFusionError>(batch)]),
    );
    Ok(QueryResult::rows(Box::pin(rows)))
}

fn read(file: &str) -> Result<Vec<WorkloadQuery>, EngineError> {
    let text = fs::read_to_string(file)
        .map_err(|error| EngineError::Query(format!("{file} cannot be read: {error}")))?;
    let queries = WorkloadQuery::read_script(&text, file)?;
    match queries.is_empty() {
        true => Err(EngineError::Query(format!(
            "there is no query in {file}; write SELECT statements into it, separated by semicolons"
        ))),
        false => Ok(queries),
    }
}
