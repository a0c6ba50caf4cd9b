//! One partition of a scan: takes morsels, locates their matching rows, and emits batches.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use halocline_columns::{CodePredicate, RowId, RowSelection, Segment};
use halocline_sql::error::external;

use super::delta_rows::read_delta_rows;
use super::dynamic::PartitionFilters;
use super::found_rows::{keep_selected, matching};
use super::index_search::IndexSearch;
use super::morsels::{MorselQueue, ScanMorsel};
use super::ranges::select_ranges;
use super::spec::ScanSpec;

/// Number of morsels whose rows fill a batch together if few of them match. It bounds the time until a scan
/// returns, and so until it can be cancelled.
const MERGED_MORSELS: usize = 16;

/// Number of times that merged morsels have no row after which a scan with dynamic filters returns an empty
/// batch, so that it can be cancelled.
const EMPTY_MORSELS: usize = 8;

/// Matching rows that have been located but not yet emitted.
pub(super) enum PendingRows {
    /// The number of rows, where only that matters.
    Counted(usize),
    /// Rows of a segment, by block.
    Selected(usize, RowSelection),
    /// Sorted rows of a segment; those before the position have been emitted.
    Rows(usize, Vec<RowId>, usize),
    /// Rows of the delta.
    Batch(RecordBatch),
}

impl PendingRows {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        match self {
            PendingRows::Counted(rows) => *rows,
            PendingRows::Selected(_, selection) => selection.len(),
            PendingRows::Rows(_, rows, from) => rows.len() - from,
            PendingRows::Batch(batch) => batch.num_rows(),
        }
    }
}

/// The worker of one partition: an iterator over its batches.
pub(super) struct ScanWorker {
    spec: Arc<ScanSpec>,
    search: Option<IndexSearch>,
    dynamic: Option<PartitionFilters>,
    queue: Arc<MorselQueue>,
    batch_rows: usize,
    /// A morsel that was taken too early.
    next: Option<ScanMorsel>,
    pending: Option<PendingRows>,
    metrics: BaselineMetrics,
    /// Number of rows that the index or the kernels located, before the residual filter.
    candidates: Count,
    failed: bool,
}

impl ScanWorker {
    pub(super) fn new(
        spec: Arc<ScanSpec>,
        search: Option<IndexSearch>,
        dynamic: Option<PartitionFilters>,
        queue: Arc<MorselQueue>,
        batch_rows: usize,
        metrics: BaselineMetrics,
        candidates: Count,
    ) -> Self {
        Self {
            spec,
            search,
            dynamic,
            queue,
            batch_rows: batch_rows.max(1),
            next: None,
            pending: None,
            metrics,
            candidates,
            failed: false,
        }
    }

    fn segment(&self, number: usize) -> &Segment {
        &self.spec.open.table.segments()[number]
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut morsels = 0;
        loop {
            let batch = match self.pending.take() {
                Some(pending) => {
                    let pending = match &mut self.dynamic {
                        // The filters may have become stricter since the rows were located.
                        Some(dynamic) => dynamic.passing_newer(&self.spec, pending)?,
                        None => pending,
                    };
                    self.emit(pending)?
                }
                None if morsels >= EMPTY_MORSELS && self.dynamic.is_some() => {
                    return Ok(Some(RecordBatch::new_empty(Arc::clone(&self.spec.schema))));
                }
                None => match self.take_morsel() {
                    Some(morsel) => {
                        morsels += 1;
                        let located = self.rows_of(&morsel)?;
                        self.pending = Some(self.with_more(&morsel, located)?);
                        None
                    }
                    None => return Ok(None),
                },
            };
            if let Some(batch) = batch.filter(|batch| batch.num_rows() > 0) {
                // Several partitions may have located more rows than the limit leaves; the claim decides
                // whose are returned.
                let claimed = self.queue.claim(batch.num_rows());
                return Ok((claimed > 0).then(|| batch.slice(0, claimed)));
            }
        }
    }

    fn take_morsel(&mut self) -> Option<ScanMorsel> {
        self.next.take().or_else(|| self.queue.take().cloned())
    }

    /// Adds rows of the next morsels to those of a scan that do not fill a batch, as long as they follow
    /// them.
    fn with_more(&mut self, morsel: &ScanMorsel, located: PendingRows) -> Result<PendingRows> {
        let (number, mut selection, mut end) = match (located, morsel) {
            (
                PendingRows::Selected(number, selection),
                ScanMorsel::Rows { rows, .. } | ScanMorsel::Found { rows, .. },
            ) => (number, selection, rows.end),
            (located, _) => return Ok(located),
        };
        for _ in 1..MERGED_MORSELS {
            // A limited scan may need no further row, so it does not locate rows in advance.
            if selection.len() >= self.batch_rows || self.queue.is_limited() {
                break;
            }
            match self.take_morsel() {
                // A selection grows only at its end, and morsels may be handed out in another order than that
                // of the rows.
                Some(ScanMorsel::Rows { segment, rows }) if segment == number && rows.start >= end => {
                    let before = selection.len();
                    end = rows.end;
                    self.select_rows(number, rows, &mut selection)?;
                    self.candidates.add(selection.len() - before);
                }
                Some(ScanMorsel::Found { segment, rows }) if segment == number && rows.start >= end => {
                    let before = selection.len();
                    end = rows.end;
                    selection.append(&self.found(number, rows)?);
                    self.candidates.add(selection.len() - before);
                }
                other => {
                    self.next = other;
                    break;
                }
            }
        }
        Ok(PendingRows::Selected(number, selection))
    }

    /// Locates the matching rows of a morsel.
    fn rows_of(&mut self, morsel: &ScanMorsel) -> Result<PendingRows> {
        let found = match morsel {
            ScanMorsel::Rows { segment, rows } => self.scan_rows(*segment, rows.clone())?,
            ScanMorsel::Found { segment, rows } => {
                let found = self.found(*segment, rows.clone())?;
                if self.spec.counts_only() {
                    PendingRows::Counted(found.len())
                } else {
                    PendingRows::Selected(*segment, found)
                }
            }
            ScanMorsel::Select { segment, predicates } => {
                let found = self.select(*segment, predicates)?;
                self.passing(found)?
            }
            ScanMorsel::Delta { batch, rows } => {
                let found = PendingRows::Batch(read_delta_rows(&self.spec, *batch, rows.clone())?);
                self.passing(found)?
            }
        };
        self.candidates.add(found.len());
        Ok(found)
    }

    /// Returns the located rows that pass the dynamic filters.
    fn passing(&mut self, located: PendingRows) -> Result<PendingRows> {
        match &mut self.dynamic {
            Some(dynamic) => dynamic.passing(&self.spec, located),
            None => Ok(located),
        }
    }

    /// Reads the chunks ahead that follow a range of a segment.
    fn read_ahead(&self, number: usize, rows: &Range<usize>) {
        if let Some(ahead) = self.queue.ahead(|| self.spec.scan_ahead()) {
            ahead.begin(number, rows.start / self.segment(number).chunk_rows());
        }
    }

    fn scan_rows(&mut self, number: usize, rows: Range<usize>) -> Result<PendingRows> {
        let (segment, kernels) = (self.segment(number), &self.spec.kernels[number]);
        if self.spec.counts_only() {
            self.read_ahead(number, &rows);
            let rows = segment.count(kernels, rows).map_err(external)?;
            return Ok(PendingRows::Counted(rows as usize));
        }
        let mut selection = RowSelection::default();
        self.select_rows(number, rows, &mut selection)?;
        Ok(PendingRows::Selected(number, selection))
    }

    /// Adds the rows of a range that match the kernels' predicates and pass the dynamic filters.
    fn select_rows(&mut self, number: usize, rows: Range<usize>, selection: &mut RowSelection) -> Result<()> {
        self.read_ahead(number, &rows);
        match &mut self.dynamic {
            Some(dynamic) => dynamic.select_into(&self.spec, number, rows, selection),
            None => {
                let kernels = &self.spec.kernels[number];
                let selected = self.segment(number).select_into(kernels, rows, selection);
                selected.map_err(external)
            }
        }
    }

    /// Returns those rows of a range that the index finds, match the kernels' predicates and pass the dynamic
    /// filters.
    fn found(&mut self, number: usize, rows: Range<usize>) -> Result<RowSelection> {
        let Some(search) = &self.search else {
            return Ok(RowSelection::default());
        };
        let all = self.queue.found(number, || search.selected(&self.spec, number))?;
        self.read_ahead(number, &rows);
        let mut found = all.within(rows);
        if self.spec.reads.scattered {
            let rows: Vec<RowId> = found.rows().collect();
            self.spec.ask_for(number, &rows);
        }
        keep_selected(self.segment(number), &self.spec.kernels[number], &mut found)?;
        match self.passing(PendingRows::Selected(number, found))? {
            PendingRows::Selected(_, passing) => Ok(passing),
            _ => Ok(RowSelection::default()),
        }
    }

    fn select(&self, number: usize, predicates: &[CodePredicate]) -> Result<PendingRows> {
        let Some(search) = &self.search else {
            return Ok(PendingRows::Counted(0));
        };
        let elf = search.index.segments()[number].elf();
        let selection = elf.select(predicates).map_err(external)?;
        let selection = selection.with_read_ahead(self.spec.reads.scattered);
        let segment = self.segment(number);
        let all_match = self.spec.kernels[number].is_empty() && !segment.has_string_conditions();
        let deleted = segment.deletions().map_err(external)?;
        // Nothing but the index excludes rows, so the rows need not even be listed.
        if all_match && deleted.is_none() && self.spec.counts_only() {
            return Ok(PendingRows::Counted(search.count(&selection)?));
        }
        if elf.is_clustered() {
            select_ranges(&self.spec, number, &selection)
        } else {
            matching(&self.spec, number, search.rows(&selection)?)
        }
    }

    /// Emits the next batch of the pending rows and keeps the remaining ones.
    fn emit(&mut self, pending: PendingRows) -> Result<Option<RecordBatch>> {
        match pending {
            PendingRows::Counted(rows) => {
                let now = rows.min(self.batch_rows);
                if now < rows {
                    self.pending = Some(PendingRows::Counted(rows - now));
                }
                self.spec.counted(now).map(Some)
            }
            PendingRows::Selected(segment, selection) => self.emit_selected(segment, selection),
            PendingRows::Rows(segment, rows, from) => self.emit_rows(segment, rows, from),
            PendingRows::Batch(batch) => {
                let now = batch.num_rows().min(self.batch_rows);
                if now < batch.num_rows() {
                    self.pending = Some(PendingRows::Batch(batch.slice(now, batch.num_rows() - now)));
                }
                Ok(Some(batch.slice(0, now)))
            }
        }
    }

    fn emit_selected(&mut self, segment: usize, mut selection: RowSelection) -> Result<Option<RecordBatch>> {
        let batch = match &self.spec.residual {
            None => selection.take_batch(self.batch_rows),
            Some(residual) => {
                // Rows that pass the filter are collected until they fill half of a batch.
                let half = self.batch_rows.div_ceil(2);
                let mut kept = RowSelection::default();
                while !selection.is_empty() && kept.len() + half <= self.batch_rows {
                    let mut part = selection.take_batch(half);
                    residual.keep_selected(self.segment(segment), &mut part)?;
                    kept.append(&part);
                }
                kept
            }
        };
        if !selection.is_empty() {
            self.pending = Some(PendingRows::Selected(segment, selection));
        }
        Ok(match batch.len() {
            0 => None,
            rows if self.spec.projection.is_empty() => Some(self.spec.counted(rows)?),
            _ => Some(self.spec.decode(segment, &batch)?),
        })
    }

    fn emit_rows(
        &mut self,
        segment: usize,
        rows: Vec<RowId>,
        mut from: usize,
    ) -> Result<Option<RecordBatch>> {
        let mut kept: Vec<RowId> = Vec::new();
        let batch: &[RowId] = match &self.spec.residual {
            None => {
                let end = rows.len().min(from + self.batch_rows);
                let now = &rows[from..end];
                from = end;
                now
            }
            Some(residual) => {
                // Rows that pass the filter are collected until they fill a batch.
                while from < rows.len() && kept.len() < self.batch_rows {
                    let end = rows.len().min(from + self.batch_rows - kept.len());
                    kept.extend(residual.keep(self.segment(segment), &rows[from..end])?);
                    from = end;
                }
                &kept
            }
        };
        let output = match batch {
            [] => None,
            rows if self.spec.projection.is_empty() => Some(self.spec.counted(rows.len())?),
            rows => Some(self.spec.gather(segment, rows)?),
        };
        if from < rows.len() {
            self.pending = Some(PendingRows::Rows(segment, rows, from));
        }
        Ok(output)
    }
}

impl Iterator for ScanWorker {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        // Otherwise the next call would continue after the morsel that failed.
        if self.failed {
            return None;
        }
        let elapsed = self.metrics.elapsed_compute().clone();
        let timer = elapsed.timer();
        let next = self.next_batch().transpose();
        timer.done();
        match &next {
            Some(Ok(batch)) => self.metrics.record_output(batch.num_rows()),
            Some(Err(_)) => self.failed = true,
            None => {}
        }
        next
    }
}
