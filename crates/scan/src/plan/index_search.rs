//! Selections through an index, by one thread or by several that share each selection.
//!
//! Where there are too few parts for every thread, `SelectionThreads` (as many as
//! `datafusion.execution.target_partitions`) search a large selection together; `EXPLAIN ANALYZE` shows it as
//! `parallel_selections`.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::metrics::Count;
use halocline_columns::{CodePredicate, RowId, RowSelection};
use halocline_elf::{Selection, TableIndex, Workers};
use halocline_pool::ExtentBytes;
use halocline_sql::error::external;

use super::found_rows::as_selection;
use super::ranges::selected_ranges;
use super::spec::ScanSpec;

/// An index and the threads that search it.
pub(super) struct IndexSearch {
    pub index: Arc<TableIndex>,
    /// The predicates of each segment, one per dimension.
    pub predicates: Arc<[Vec<CodePredicate>]>,
    /// Threads that share each large selection; `None` if every thread has selections of its own.
    pub workers: Option<Arc<Workers>>,
    /// Number of selections that the threads shared.
    pub parallel: Count,
}

impl IndexSearch {
    /// Returns the rows of a selection, in no particular order.
    pub(super) fn rows(&self, selection: &Selection<'_, ExtentBytes>) -> Result<Vec<RowId>> {
        let mut rows = Vec::new();
        match &self.workers {
            Some(workers) => {
                let shared = selection.tids_into_by(workers, &mut rows).map_err(external)?;
                self.parallel.add(usize::from(shared));
            }
            None => selection.tids_into(&mut rows).map_err(external)?,
        }
        Ok(rows)
    }

    /// Returns all rows of a segment that match the index's predicates, without deleted ones.
    ///
    /// # Errors
    /// The index or the deletions cannot be read.
    pub(super) fn selected(&self, spec: &ScanSpec, number: usize) -> Result<RowSelection> {
        let segment = &spec.open.table.segments()[number];
        let elf = self.index.segments()[number].elf();
        let selection = elf.select(&self.predicates[number]).map_err(external)?;
        let selection = selection.with_read_ahead(spec.reads.scattered);
        let deleted = segment.deletions().map_err(external)?;
        if elf.is_clustered() {
            selected_ranges(&selection, deleted)
        } else {
            Ok(as_selection(self.rows(&selection)?, segment.rows(), deleted))
        }
    }

    /// Returns the number of rows of a selection.
    pub(super) fn count(&self, selection: &Selection<'_, ExtentBytes>) -> Result<usize> {
        let Some(workers) = &self.workers else {
            return Ok(selection.count().map_err(external)? as usize);
        };
        let (rows, shared) = selection.count_by(workers).map_err(external)?;
        self.parallel.add(usize::from(shared));
        Ok(rows as usize)
    }
}
