//! Dynamic filters as one partition of a scan applies them.

use std::ops::Range;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::metrics::Count;
use halocline_columns::{CodePredicate, RowSelection};
use halocline_sql::error::external;

use super::filters::{ActiveFilters, DynamicFilters};
use crate::plan::found_rows::span;
use crate::plan::spec::ScanSpec;
use crate::plan::worker::PendingRows;

/// The dynamic filters of a scan in one of its partitions.
pub(crate) struct PartitionFilters {
    filters: Arc<DynamicFilters>,
    /// The state that the rows located last passed.
    active: ActiveFilters,
    /// The predicates of a segment, for this version of the active filters; `None` if no row can pass.
    kernels: Option<(usize, u64, Option<SegmentKernels>)>,
    /// Number of chunks that zone maps excluded.
    chunks: Count,
    /// Number of rows that were not located or not output while filters were set; those that other
    /// conditions exclude in the same pass count, too.
    rows: Count,
    /// Number of rows that an index located for the filters.
    probed: Count,
}

/// Predicates for the scan kernels.
#[derive(Clone)]
struct SegmentKernels {
    all: Arc<[(usize, CodePredicate)]>,
    /// The number of these at the end that come from dynamic filters.
    dynamic: usize,
}

impl PartitionFilters {
    /// Makes the filters of a partition, whose metrics `counter` makes.
    pub(crate) fn new(filters: &Arc<DynamicFilters>, counter: impl Fn(&'static str) -> Count) -> Self {
        Self {
            filters: Arc::clone(filters),
            active: ActiveFilters::default(),
            kernels: None,
            chunks: counter("chunks_skipped_dynamically"),
            rows: counter("rows_skipped_dynamically"),
            probed: counter("rows_probed_dynamically"),
        }
    }

    /// Adds the rows of a range of a segment that match the scan's own predicates and pass the filters.
    ///
    /// # Errors
    /// A column cannot be read.
    pub(crate) fn select_into(
        &mut self,
        spec: &ScanSpec,
        number: usize,
        rows: Range<usize>,
        selection: &mut RowSelection,
    ) -> Result<()> {
        self.active = self.filters.active(spec)?;
        let segment = &spec.open.table.segments()[number];
        if self.active.is_empty() {
            let selected = segment.select_into(&spec.kernels[number], rows, selection);
            return selected.map_err(external);
        }
        let all_rows = rows.len();
        let mut passing = RowSelection::default();
        if let Some(kernels) = self.kernels(spec, number) {
            let located = (spec.probes_indexes && kernels.dynamic > 0)
                .then(|| self.filters.located(self.active.version(), spec));
            let located = located
                .as_ref()
                .and_then(|located| located.of_segment(spec, number, &kernels.all));
            match located {
                Some(located) => {
                    for row in located.range(span(&rows)) {
                        passing.add_range(row as usize..row as usize + 1);
                    }
                    self.probed.add(passing.len());
                    segment.filter(&kernels.all, &mut passing).map_err(external)?;
                }
                None => {
                    self.count_skipped_chunks(spec, number, &kernels, &rows);
                    let selected = segment.select_into(&kernels.all, rows, &mut passing);
                    selected.map_err(external)?;
                }
            }
            self.active.keep_selected(spec, number, &mut passing)?;
        }
        self.rows.add(all_rows - passing.len());
        if selection.is_empty() {
            *selection = passing
        } else {
            selection.append(&passing)
        }
        Ok(())
    }

    /// Returns the rows that pass the filters in their present state.
    ///
    /// # Errors
    /// A column cannot be read.
    pub(crate) fn passing(&mut self, spec: &ScanSpec, rows: PendingRows) -> Result<PendingRows> {
        self.active = self.filters.active(spec)?;
        if self.active.is_empty() {
            return Ok(rows);
        }
        let before = rows.len();
        let passing = match rows {
            // Columns of filters are output, so that a scan of which only the number of rows matters has
            // none.
            PendingRows::Counted(rows) => PendingRows::Counted(rows),
            PendingRows::Selected(number, mut selection) => {
                match self.active.kernels(spec, number) {
                    None => selection = RowSelection::default(),
                    Some(kernels) => {
                        let segment = &spec.open.table.segments()[number];
                        segment.filter(&kernels, &mut selection).map_err(external)?;
                        self.active.keep_selected(spec, number, &mut selection)?;
                    }
                }
                PendingRows::Selected(number, selection)
            }
            PendingRows::Rows(number, mut rows, from) => {
                rows.drain(..from);
                PendingRows::Rows(number, self.active.keep_rows(spec, number, rows)?, 0)
            }
            PendingRows::Batch(batch) => PendingRows::Batch(self.active.keep_batch(batch)?),
        };
        self.rows.add(before - passing.len());
        Ok(passing)
    }

    /// Returns the rows, of which all passed when they were located, that pass if the filters have changed.
    ///
    /// # Errors
    /// A column cannot be read.
    pub(crate) fn passing_newer(&mut self, spec: &ScanSpec, rows: PendingRows) -> Result<PendingRows> {
        let active = self.filters.active(spec)?;
        if active.version() == self.active.version() {
            Ok(rows)
        } else {
            self.passing(spec, rows)
        }
    }

    /// Returns the predicates of a segment; `None` if the active filters exclude all of its rows.
    fn kernels(&mut self, spec: &ScanSpec, number: usize) -> Option<SegmentKernels> {
        let version = self.active.version();
        if let Some((segment, of, kernels)) = &self.kernels
            && (*segment, *of) == (number, version)
        {
            return kernels.clone();
        }
        let dynamic = self.active.kernels(spec, number);
        let kernels = dynamic.map(|dynamic| SegmentKernels {
            dynamic: dynamic.len(),
            all: spec.kernels[number].iter().cloned().chain(dynamic).collect(),
        });
        self.kernels = Some((number, version, kernels.clone()));
        kernels
    }

    /// Counts the chunks of a range whose zone maps exclude every row for a dynamic filter.
    fn count_skipped_chunks(
        &self,
        spec: &ScanSpec,
        number: usize,
        kernels: &SegmentKernels,
        rows: &Range<usize>,
    ) {
        let segment = &spec.open.table.segments()[number];
        let chunks = rows.start / segment.chunk_rows()..rows.end.div_ceil(segment.chunk_rows());
        let dynamic = &kernels.all[kernels.all.len() - kernels.dynamic..];
        let excludes = |chunk: usize, (column, predicate): &(usize, CodePredicate)| match (
            segment.column(*column).zone(chunk),
            predicate.bounds(),
        ) {
            (Ok((low, high)), Some((first, last))) => last < low || high < first,
            (Ok(_), None) => true,
            (Err(_), _) => false,
        };
        let excluded = chunks.filter(|chunk| dynamic.iter().any(|predicate| excludes(*chunk, predicate)));
        self.chunks.add(excluded.count());
    }
}
