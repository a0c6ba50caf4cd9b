//! Looking through an index for the rows of a morsel: alone, or with other threads.
//!
//! Where there are too few parts for every thread, `SelectionThreads` (as many as
//! `datafusion.execution.target_partitions`) search a large selection together; `EXPLAIN ANALYZE` shows it as
//! `parallel_selections`.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::metrics::Count;
use halocline_columns::RowId;
use halocline_elf::{Selection, TableIndex, Workers};
use halocline_pool::ExtentBytes;

use super::scan::external;

/// An index and who looks through it.
pub(crate) struct Search {
    pub(crate) index: Arc<TableIndex>,
    /// Threads that look together where a selection is large; none if each thread has selections of its own.
    pub(crate) workers: Option<Arc<Workers>>,
    /// Selections that they looked for together.
    pub(crate) parallel: Count,
}

impl Search {
    /// The rows of a selection, in no order.
    pub(super) fn rows(&self, selection: &Selection<'_, ExtentBytes>) -> Result<Vec<RowId>> {
        let mut rows = Vec::new();
        match &self.workers {
            Some(workers) => {
                let together = selection.tids_into_by(workers, &mut rows).map_err(external)?;
                self.parallel.add(usize::from(together));
            }
            None => selection.tids_into(&mut rows).map_err(external)?,
        }
        Ok(rows)
    }

    /// How many rows a selection has.
    pub(super) fn count(&self, selection: &Selection<'_, ExtentBytes>) -> Result<usize> {
        let Some(workers) = &self.workers else {
            return Ok(selection.count().map_err(external)? as usize);
        };
        let (rows, together) = selection.count_by(workers).map_err(external)?;
        self.parallel.add(usize::from(together));
        Ok(rows as usize)
    }
}
