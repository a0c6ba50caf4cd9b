//! A temporary file that batches are appended to.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SpillFile;
use datafusion::physical_plan::SpillManager;

/// Appends a batch, or ends the file.
type Step = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

/// DataFusion's file in progress, whose type has no public name.
pub struct SpillWriter(Step);

impl SpillWriter {
    /// Begins a file, which errors call `what`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(spills: &SpillManager, what: &str) -> Result<Self> {
        let mut file = spills.create_in_progress_file(what)?;
        Ok(Self(Box::new(move |batch| match batch {
            Some(batch) => file.append_batch(batch).map(|_| None),
            None => file.finish(),
        })))
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        (self.0)(Some(batch)).map(drop)
    }

    /// Returns the complete file; `None` if it has no rows.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<Option<Arc<dyn SpillFile>>> {
        (self.0)(None)
    }
}
