//! Results of statements: a message, or rows as a stream of Arrow batches.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use halocline_sql::EngineError;
use halocline_sql::names::shown_schema;

/// A stream of batches (at most 8,192 rows each) that ends at the first error.
pub struct BatchStream {
    schema: SchemaRef,
    /// The batches of `inner` have other names.
    is_renamed: bool,
    inner: Option<SendableRecordBatchStream>,
}

impl BatchStream {
    pub(crate) fn new(inner: SendableRecordBatchStream) -> Self {
        let schema = inner.schema();
        let shown = shown_schema(Arc::clone(&schema));
        Self {
            is_renamed: !Arc::ptr_eq(&schema, &shown),
            schema: shown,
            inner: Some(inner),
        }
    }

    fn empty() -> Self {
        Self {
            schema: SchemaRef::new(arrow_schema::Schema::empty()),
            is_renamed: false,
            inner: None,
        }
    }

    /// Returns the columns of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Stream for BatchStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(inner) = this.inner.as_mut() else {
            return Poll::Ready(None);
        };
        let item = ready!(inner.poll_next_unpin(context));
        Poll::Ready(item.map(|batch| {
            let batch = batch?;
            if this.is_renamed {
                Ok(renamed(&batch, &this.schema)?)
            } else {
                Ok(batch)
            }
        }))
    }
}

/// Returns a batch with the names of a schema of the same types.
fn renamed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &rows)
}

/// The result of a statement.
pub struct QueryResult {
    message: Option<String>,
    stream: BatchStream,
}

impl QueryResult {
    pub(crate) fn rows(stream: SendableRecordBatchStream) -> Self {
        Self {
            message: None,
            stream: BatchStream::new(stream),
        }
    }

    pub(crate) fn done(message: impl Into<String>) -> Self {
        Self {
            message: Some(message.into()),
            stream: BatchStream::empty(),
        }
    }

    /// Returns the message of a statement without rows, in one line (`table t: 1000 rows`).
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the columns of the rows; empty for a statement without rows.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// Returns the rows as they come. Dropping the stream ends the query.
    pub fn stream(self) -> BatchStream {
        self.stream
    }

    /// Returns all rows at once; memory grows with the answer.
    ///
    /// # Errors
    /// The first error of the running query.
    pub async fn collect(self) -> Result<Vec<RecordBatch>, EngineError> {
        let mut stream = self.stream;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}
