//! Rows that the log has added and that are in no segment: every condition is evaluated on their values.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

use super::conditions::{Filters, Translations};
use super::scan::{Residual, Scan, addresses};
use crate::catalog::OpenTable;
use crate::delta::TableDelta;

/// Rows of a table that are in no segment, with all its columns.
#[derive(Debug)]
pub(crate) struct AddedRows {
    open: Arc<OpenTable>,
    condition: Option<Residual>,
}

impl AddedRows {
    /// Those that match all of `filters`.
    ///
    /// # Errors
    /// DataFusion cannot plan the filters.
    pub(crate) fn new(open: &Arc<OpenTable>, filters: &[Expr], state: &dyn Session) -> Result<Self> {
        let filters = Filters::read(filters, open, &Translations::default());
        Ok(Self {
            condition: match open.delta {
                Some(_) => Residual::plan(filters.expressions(), open, state)?,
                None => None,
            },
            open: Arc::clone(open),
        })
    }

    /// How many there are, if all match.
    pub(crate) fn most(&self) -> usize {
        self.open.delta.as_ref().map_or(0, |delta| delta.live_rows())
    }

    /// Calls `each` with them, at most so many at a time.
    ///
    /// # Errors
    /// The condition cannot be evaluated, or `each` fails.
    pub(crate) fn for_each(
        &self,
        rows_at_a_time: usize,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let Some(delta) = &self.open.delta else {
            return Ok(());
        };
        for (start, batch) in delta.batches() {
            for first in (0..batch.num_rows()).step_by(rows_at_a_time.max(1)) {
                let rows = first..batch.num_rows().min(first + rows_at_a_time.max(1));
                let batch = batch.slice(rows.start, rows.len());
                let numbers = start + rows.start..start + rows.end;
                let kept = kept(delta, &batch, &numbers, self.condition.as_ref())?;
                if kept.true_count() > 0 {
                    each(filter_record_batch(&batch, &kept)?)?;
                }
            }
        }
        Ok(())
    }
}

/// Those of the `rows` of a batch of the delta that are there and match, as the scan puts them out.
pub(crate) fn added_rows(scan: &Scan, batch: usize, rows: Range<usize>) -> Result<RecordBatch> {
    let delta = scan.open.delta.as_ref();
    let Some((delta, (start, batch))) = delta.and_then(|delta| Some((delta, delta.batches().get(batch)?)))
    else {
        return scan.batch(0, |_| Ok(addresses(0, std::iter::empty())));
    };
    let numbers = start + rows.start..start + rows.end;
    let batch = batch.slice(rows.start, rows.len());
    let kept = kept(delta, &batch, &numbers, scan.unindexed.as_ref())?;
    let found = filter_record_batch(&batch, &kept)?;
    let place = scan.open.table.segments().len();
    scan.batch(found.num_rows(), |column| match found.columns().get(column) {
        Some(values) => Ok(values.clone()),
        None => {
            let rows = numbers.clone().zip(&kept).filter(|(_, kept)| *kept == Some(true));
            Ok(addresses(place, rows.map(|(row, _)| row)))
        }
    })
}

/// Which rows of a batch, of these numbers in the delta, are there and match.
fn kept(
    delta: &TableDelta,
    batch: &RecordBatch,
    numbers: &Range<usize>,
    condition: Option<&Residual>,
) -> Result<BooleanArray> {
    let matching = condition.map(|condition| condition.of_batch(batch)).transpose()?;
    let all_live = delta.are_live(numbers);
    let keep = |at: usize| {
        (all_live || !delta.is_gone(numbers.start + at))
            && matching
                .as_ref()
                .is_none_or(|matching| matching.is_valid(at) && matching.value(at))
    };
    Ok((0..batch.num_rows()).map(|at| Some(keep(at))).collect())
}
