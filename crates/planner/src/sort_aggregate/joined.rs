//! The results of all branches, row by row.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use super::layout::unexpected;

/// Returns rows of the keys and of the column at each place, which is the number of a branch and of a column
/// after the keys there. All branches have the same groups in the same order.
pub(super) fn joined(
    branches: Vec<SendableRecordBatchStream>,
    keys: usize,
    places: Vec<(usize, usize)>,
    output: SchemaRef,
) -> SendableRecordBatchStream {
    let state = Joined {
        parts: branches.iter().map(|_| None).collect(),
        branches,
        keys,
        places,
        output: Arc::clone(&output),
    };
    let batches = stream::try_unfold(state, |mut state| async move {
        let batch = state.next().await?;
        Ok(batch.map(|batch| (batch, state)))
    });
    Box::pin(RecordBatchStreamAdapter::new(output, batches))
}

struct Joined {
    branches: Vec<SendableRecordBatchStream>,
    /// The rows of each branch that have been read and not returned.
    parts: Vec<Option<RecordBatch>>,
    keys: usize,
    places: Vec<(usize, usize)>,
    output: SchemaRef,
}

impl Joined {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        for (branch, part) in self.branches.iter_mut().zip(&mut self.parts) {
            while part.as_ref().is_none_or(|part| part.num_rows() == 0) {
                *part = branch.try_next().await?;
                if part.is_none() {
                    break;
                }
            }
        }
        let rows = self.parts.iter().flatten().map(RecordBatch::num_rows).min();
        let Some(rows) = rows else {
            return Ok(None);
        };
        let parts: Vec<RecordBatch> = self
            .parts
            .iter()
            .flatten()
            .map(|part| part.slice(0, rows))
            .collect();
        if parts.len() < self.parts.len() {
            return Err(unexpected("a branch has fewer groups than others"));
        }
        for part in self.parts.iter_mut().flatten() {
            *part = part.slice(rows, part.num_rows() - rows);
        }
        let keys = parts[0].columns()[..self.keys].iter().cloned();
        let results = self.places.iter();
        let results = results.map(|&(branch, number)| Arc::clone(parts[branch].column(self.keys + number)));
        let columns: Vec<ArrayRef> = keys.chain(results).collect();
        let columns = columns.iter().zip(self.output.fields());
        let columns = columns.map(|(column, field)| Ok(cast(column, field.data_type())?));
        let columns = columns.collect::<Result<_>>()?;
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.output), columns)?))
    }
}
