//! The two engines that a file is run by: Halocline over a pool in DRAM, and plain DataFusion.

use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use halocline_engine::{Database, DatabaseOptions};

use super::answer::{Answer, PANIC};

/// Partitions of plans, as DataFusion's own runner sets it.
const PARTITIONS: usize = 4;

/// Halocline over a new pool in DRAM.
pub(super) struct Halocline(Arc<Database>);

impl Halocline {
    pub(super) fn new() -> Self {
        let options = DatabaseOptions::default().with_threads(Some(PARTITIONS));
        Self(Arc::new(Database::in_memory(&options).unwrap()))
    }

    /// Answers a statement; a panic is an error.
    pub(super) async fn answer(&self, text: &str) -> Answer {
        let (db, text) = (Arc::clone(&self.0), text.to_owned());
        caught(async move {
            let result = db.sql(&text).await.map_err(|error| error.to_string())?;
            if let Some(message) = result.message() {
                return Ok(Answer::Done(changed(message)));
            }
            let schema = result.schema();
            let batches = result.collect().await.map_err(|error| error.to_string())?;
            Ok(Answer::rows(&schema, &batches))
        })
        .await
    }
}

/// Returns the number of rows that a message says were changed.
fn changed(message: &str) -> Option<u64> {
    let (verb, rest) = message.split_once(' ')?;
    let number = rest.split(' ').next()?;
    match verb {
        "inserted" | "updated" | "deleted" => number.parse().ok(),
        _ => None,
    }
}

/// Plain DataFusion over tables in memory.
pub(super) struct Plain(SessionContext);

impl Plain {
    pub(super) fn new() -> Self {
        let config = SessionConfig::new().with_target_partitions(PARTITIONS);
        Self(SessionContext::new_with_config(config))
    }

    /// Answers a statement; a panic is an error.
    pub(super) async fn answer(&self, text: &str) -> Answer {
        let (context, text) = (self.0.clone(), text.to_owned());
        caught(async move {
            let said = |error: datafusion::error::DataFusionError| format!("DataFusion error: {error}");
            let frame = context.sql(&text).await.map_err(said)?;
            let schema = Arc::clone(frame.schema().inner());
            let batches = frame.collect().await.map_err(said)?;
            Ok(Answer::rows(&schema, &batches))
        })
        .await
    }
}

async fn caught(answer: impl Future<Output = Result<Answer, String>> + Send + 'static) -> Answer {
    match tokio::spawn(answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(text)) => Answer::Error(text),
        Err(panic) => Answer::Error(format!("{PANIC}{panic}")),
    }
}
