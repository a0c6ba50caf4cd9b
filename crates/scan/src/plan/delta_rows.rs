//! Delta rows: rows that are in the log but not yet in a segment. They have no codes, so conditions are
//! evaluated on values.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use halocline_catalog::OpenTable;
use halocline_catalog::delta::TableDelta;

use super::conditions::{Filters, TranslationCache};
use super::spec::{ResidualFilter, ScanSpec, addresses};

/// The rows of a table's delta that match a condition, with all columns of the table.
#[derive(Debug)]
pub struct DeltaRows {
    open: Arc<OpenTable>,
    condition: Option<ResidualFilter>,
}

impl DeltaRows {
    /// Selects the rows that match all of `filters`.
    ///
    /// # Errors
    /// DataFusion cannot plan the filters.
    pub fn new(open: &Arc<OpenTable>, filters: &[Expr], state: &dyn Session) -> Result<Self> {
        let filters = Filters::read(filters, open, &TranslationCache::default());
        Ok(Self {
            condition: match open.delta {
                Some(_) => ResidualFilter::plan(filters.expressions(), open, state)?,
                None => None,
            },
            open: Arc::clone(open),
        })
    }

    /// Returns, for each of these rows of the delta, whether a further condition is true for them.
    ///
    /// # Errors
    /// The condition cannot be planned or evaluated.
    pub fn matching(
        open: &OpenTable,
        condition: &Expr,
        state: &dyn Session,
        batches: &[RecordBatch],
    ) -> Result<Vec<Vec<bool>>> {
        let conditions = std::slice::from_ref(condition);
        let conditions = Filters::read(conditions, open, &TranslationCache::default()).expressions();
        let condition = ResidualFilter::plan(conditions, open, state)?;
        let of_batch = |batch: &RecordBatch| match &condition {
            Some(condition) => {
                let matching = condition.of_batch(batch)?;
                Ok(matching.iter().map(|matches| matches == Some(true)).collect())
            }
            None => Ok(vec![true; batch.num_rows()]),
        };
        batches.iter().map(of_batch).collect()
    }

    /// Returns the number of rows if all match.
    pub fn max_rows(&self) -> usize {
        self.open.delta.as_ref().map_or(0, |delta| delta.live_rows())
    }

    /// Calls `each` with the matching rows, at most `rows_at_a_time` in each batch.
    ///
    /// # Errors
    /// The condition cannot be evaluated, or `each` fails.
    pub fn for_each(
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
                let kept = live_and_matching(delta, &batch, &numbers, self.condition.as_ref())?;
                if kept.true_count() > 0 {
                    each(filter_record_batch(&batch, &kept)?)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the live and matching rows among `rows` of a batch of the delta, as output of the spec.
pub(super) fn read_delta_rows(spec: &ScanSpec, batch: usize, rows: Range<usize>) -> Result<RecordBatch> {
    let delta = spec.open.delta.as_ref();
    let Some((delta, (start, batch))) = delta.and_then(|delta| Some((delta, delta.batches().get(batch)?)))
    else {
        return spec.batch(0, |_| Ok(addresses(0, std::iter::empty())));
    };
    let numbers = start + rows.start..start + rows.end;
    let batch = batch.slice(rows.start, rows.len());
    let kept = live_and_matching(delta, &batch, &numbers, spec.delta_filter.as_ref())?;
    let found = filter_record_batch(&batch, &kept)?;
    let place = spec.open.table.segments().len();
    spec.batch(found.num_rows(), |column| match found.columns().get(column) {
        Some(values) => Ok(values.clone()),
        None => {
            let rows = numbers.clone().zip(&kept).filter(|(_, kept)| *kept == Some(true));
            Ok(addresses(place, rows.map(|(row, _)| row)))
        }
    })
}

/// Returns the mask of live, matching rows of a batch; `numbers` are its positions in the delta.
fn live_and_matching(
    delta: &TableDelta,
    batch: &RecordBatch,
    numbers: &Range<usize>,
    condition: Option<&ResidualFilter>,
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
