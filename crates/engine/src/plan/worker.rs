//! One partition of a scan: takes morsels, finds their rows, and gives batches.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use halocline_columns::{CodePredicate, RowId, Segment};

use super::added::added_rows;
use super::ranges::{rows_of, select_ranges, take_rows};
use super::scan::{Scan, external};
use super::search::Search;
use super::work::{Morsel, Work};

/// Row identifiers found in a morsel from which on a whole span is scanned instead of looking at single rows: when at
/// least one row of so many was found.
const DENSE: usize = 16;

/// Rows are sorted by comparing them while they are fewer than one of so many.
const SPARSE: usize = 256;

/// Rows found and not yet given.
pub(super) enum Found {
    /// Only their number matters.
    Counted(usize),
    /// Ranges of rows of a segment, none of them empty; those from the position on are left.
    Ranges(usize, Vec<Range<usize>>, usize),
    /// Single rows of a segment, sorted; those from the position on are left.
    Rows(usize, Vec<RowId>, usize),
    /// Rows that are in no segment.
    Batch(RecordBatch),
}

/// A partition at work.
pub(crate) struct Worker {
    scan: Arc<Scan>,
    search: Option<Search>,
    work: Arc<Work>,
    batch_rows: usize,
    found: Option<Found>,
    metrics: BaselineMetrics,
    /// Rows that the index or the kernels found, before the expression.
    candidates: Count,
    failed: bool,
}

impl Worker {
    pub(crate) fn new(
        scan: Arc<Scan>,
        search: Option<Search>,
        work: Arc<Work>,
        batch_rows: usize,
        metrics: BaselineMetrics,
        candidates: Count,
    ) -> Self {
        Self {
            scan,
            search,
            work,
            batch_rows: batch_rows.max(1),
            found: None,
            metrics,
            candidates,
            failed: false,
        }
    }

    fn segment(&self, number: usize) -> &Segment {
        &self.scan.open.table.segments()[number]
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match self.found.take() {
                Some(found) => self.give(found)?,
                None => match self.work.take().cloned() {
                    Some(morsel) => {
                        self.found = Some(self.rows_of(&morsel)?);
                        None
                    }
                    None => return Ok(None),
                },
            };
            if let Some(batch) = batch.filter(|batch| batch.num_rows() > 0) {
                let wanted = self.work.claim(batch.num_rows());
                return Ok((wanted > 0).then(|| batch.slice(0, wanted)));
            }
        }
    }

    /// The rows of a morsel.
    fn rows_of(&self, morsel: &Morsel) -> Result<Found> {
        let found = match morsel {
            Morsel::Rows { segment, rows } => self.scan_rows(*segment, rows.clone())?,
            Morsel::Select { segment, predicates } => self.select(*segment, predicates)?,
            Morsel::Added { batch, rows } => Found::Batch(added_rows(&self.scan, *batch, rows.clone())?),
        };
        self.candidates.add(match &found {
            Found::Counted(rows) => *rows,
            Found::Ranges(_, ranges, _) => ranges.iter().map(Range::len).sum(),
            Found::Rows(_, rows, _) => rows.len(),
            Found::Batch(batch) => batch.num_rows(),
        });
        Ok(found)
    }

    fn scan_rows(&self, number: usize, rows: Range<usize>) -> Result<Found> {
        let (segment, kernels) = (self.segment(number), &self.scan.kernels[number]);
        let deleted = segment.deletions().map_err(external)?;
        let any_deleted = deleted.is_some_and(|deleted| deleted.range_cardinality(span(&rows)) > 0);
        if kernels.is_empty() && !any_deleted {
            return Ok(if self.scan.counts_only() {
                Found::Counted(rows.len())
            } else {
                Found::Ranges(number, vec![rows], 0)
            });
        }
        if self.scan.counts_only() {
            return Ok(Found::Counted(
                segment.count(kernels, rows).map_err(external)? as usize
            ));
        }
        let matching = segment.select(kernels, rows.clone()).map_err(external)?;
        if matching.len() as usize == rows.len() {
            return Ok(Found::Ranges(number, vec![rows], 0));
        }
        Ok(Found::Rows(number, matching.iter().collect(), 0))
    }

    fn select(&self, number: usize, predicates: &[CodePredicate]) -> Result<Found> {
        let Some(search) = &self.search else {
            return Ok(Found::Counted(0));
        };
        let elf = search.index.segments()[number].elf();
        let selection = elf.select(predicates).map_err(external)?;
        let kernels = &self.scan.kernels[number];
        let deleted = self.segment(number).deletions().map_err(external)?;
        if kernels.is_empty() && deleted.is_none() && self.scan.counts_only() {
            return Ok(Found::Counted(search.count(&selection)?));
        }
        if elf.is_clustered() {
            return select_ranges(&self.scan, number, &selection);
        }
        let mut rows = search.rows(&selection)?;
        sort(&mut rows, self.segment(number).rows());
        if let Some(deleted) = deleted {
            rows.retain(|row| !deleted.contains(*row));
        }
        if !kernels.is_empty() {
            rows = keep(self.segment(number), kernels, rows)?;
        }
        Ok(if self.scan.counts_only() {
            Found::Counted(rows.len())
        } else {
            Found::Rows(number, rows, 0)
        })
    }

    /// The next batch of what was found; what is left goes back.
    fn give(&mut self, found: Found) -> Result<Option<RecordBatch>> {
        match found {
            Found::Counted(rows) => {
                let now = rows.min(self.batch_rows);
                if now < rows {
                    self.found = Some(Found::Counted(rows - now));
                }
                self.scan.counted(now).map(Some)
            }
            Found::Ranges(segment, mut ranges, mut from) if self.scan.residual.is_none() => {
                let now = take_rows(&mut ranges, &mut from, self.batch_rows);
                if from < ranges.len() {
                    self.found = Some(Found::Ranges(segment, ranges, from));
                }
                self.scan.read(segment, &now).map(Some)
            }
            Found::Ranges(segment, ranges, _) => {
                let rows = rows_of(&ranges);
                self.found = Some(Found::Rows(segment, rows, 0));
                Ok(None)
            }
            Found::Rows(segment, rows, from) => self.give_rows(segment, rows, from),
            Found::Batch(batch) => {
                let now = batch.num_rows().min(self.batch_rows);
                if now < batch.num_rows() {
                    self.found = Some(Found::Batch(batch.slice(now, batch.num_rows() - now)));
                }
                Ok(Some(batch.slice(0, now)))
            }
        }
    }

    fn give_rows(
        &mut self,
        segment: usize,
        rows: Vec<RowId>,
        mut from: usize,
    ) -> Result<Option<RecordBatch>> {
        let mut kept: Vec<RowId> = Vec::new();
        let batch: &[RowId] = match &self.scan.residual {
            None => {
                let end = rows.len().min(from + self.batch_rows);
                let now = &rows[from..end];
                from = end;
                now
            }
            Some(residual) => {
                // Rows that the expression keeps are collected to whole batches.
                while from < rows.len() && kept.len() < self.batch_rows {
                    let end = rows.len().min(from + self.batch_rows - kept.len());
                    kept.extend(residual.keep(self.segment(segment), &rows[from..end])?);
                    from = end;
                }
                &kept
            }
        };
        let given = match batch {
            [] => None,
            rows if self.scan.projection.is_empty() => Some(self.scan.counted(rows.len())?),
            rows => Some(self.scan.gather(segment, rows)?),
        };
        if from < rows.len() {
            self.found = Some(Found::Rows(segment, rows, from));
        }
        Ok(given)
    }
}

impl Iterator for Worker {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
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

/// A range of rows as row numbers.
pub(super) fn span(rows: &Range<usize>) -> Range<RowId> {
    rows.start as RowId..rows.end as RowId
}

/// Sorts row numbers, which are all different: many of them by setting a bit for each.
fn sort(rows: &mut Vec<RowId>, of: usize) {
    if rows.len() < of / SPARSE {
        rows.sort_unstable();
        return;
    }
    let mut bits = vec![0u64; of / 64 + 1];
    for row in &*rows {
        bits[*row as usize / 64] |= 1 << (*row % 64);
    }
    rows.clear();
    for (word, bits) in bits.into_iter().enumerate() {
        let mut left = bits;
        while left != 0 {
            rows.push((word * 64) as RowId + left.trailing_zeros());
            left &= left - 1;
        }
    }
}

/// The rows, sorted, that match all conditions: by scanning their span if they are dense in it, else one by one.
pub(super) fn keep(
    segment: &Segment,
    kernels: &[(usize, CodePredicate)],
    mut rows: Vec<RowId>,
) -> Result<Vec<RowId>> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Ok(rows);
    };
    let span = *first as usize..*last as usize + 1;
    if span.len() / DENSE <= rows.len() {
        let matching = segment.select(kernels, span).map_err(external)?;
        rows.retain(|row| matching.contains(*row));
        return Ok(rows);
    }
    for (column, predicate) in kernels {
        let column = segment.column(*column);
        let Some(space) = column.code_space() else {
            continue;
        };
        let values = column.gather(&rows).map_err(external)?;
        let mut codes = Vec::with_capacity(rows.len());
        space.encode(&values, &mut codes).map_err(external)?;
        let mut codes = codes.iter();
        rows.retain(|_| codes.next().is_some_and(|code| predicate.matches(*code)));
    }
    Ok(rows)
}
