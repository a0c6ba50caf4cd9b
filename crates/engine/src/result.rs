//! Results of statements: a message, or rows as a stream of Arrow batches.

use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};

use crate::EngineError;

/// A stream of batches (at most 8,192 rows each) that ends at the first error.
pub struct BatchStream {
    schema: SchemaRef,
    inner: Option<SendableRecordBatchStream>,
}

impl BatchStream {
    pub(crate) fn new(inner: SendableRecordBatchStream) -> Self {
        Self {
            schema: inner.schema(),
            inner: Some(inner),
        }
    }

    fn empty() -> Self {
        Self {
            schema: SchemaRef::new(arrow_schema::Schema::empty()),
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
        inner
            .poll_next_unpin(context)
            .map(|item| item.map(|batch| batch.map_err(EngineError::from)))
    }
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
