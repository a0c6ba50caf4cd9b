//! The loop of operators that drop rows of their input and join what is left into batches.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

/// Rows of an input that are kept.
pub trait Narrowing: Send + 'static {
    /// Returns a batch that is complete, if there is one.
    fn next_ready(&mut self) -> Option<RecordBatch>;

    /// Adds a batch of the input.
    fn push(&mut self, batch: RecordBatch) -> Result<()>;

    /// Completes the last batches, at the end of the input.
    fn end(&mut self) -> Result<()>;
}

/// Returns the rows of an input that are kept, with the same columns.
pub fn narrowed(
    schema: SchemaRef,
    input: SendableRecordBatchStream,
    rows: impl Narrowing,
    metrics: BaselineMetrics,
) -> SendableRecordBatchStream {
    let run = Run {
        input: Some(input),
        rows,
        metrics,
    };
    let batches = futures::stream::try_unfold(run, |mut run| async move {
        let batch = run.next().await?;
        Ok(batch.map(|batch| (batch, run)))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// One execution of a partition.
struct Run<N> {
    /// `None` after the end.
    input: Option<SendableRecordBatchStream>,
    rows: N,
    metrics: BaselineMetrics,
}

impl<N: Narrowing> Run<N> {
    /// Returns the next batch; `None` at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.rows.next_ready() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            let batch = input.next().await.transpose()?;
            let elapsed = self.metrics.elapsed_compute().clone();
            let timer = elapsed.timer();
            match batch {
                Some(batch) => self.rows.push(batch)?,
                None => {
                    self.input = None;
                    self.rows.end()?;
                }
            }
            timer.done();
        }
    }
}
