//! Rows that the log has added and that are in no segment: every condition is evaluated on their values.

use std::ops::Range;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use datafusion::error::Result;

use super::scan::{Scan, addresses};

/// Those of the `rows` of a batch of the delta that are there and match, as the scan puts them out.
pub(crate) fn added_rows(scan: &Scan, batch: usize, rows: Range<usize>) -> Result<RecordBatch> {
    let Some((start, batch)) = scan
        .open
        .delta
        .as_ref()
        .and_then(|delta| delta.batches().get(batch))
    else {
        return scan.batch(0, |_| Ok(addresses(0, std::iter::empty())));
    };
    let numbers = start + rows.start..start + rows.end;
    let batch = batch.slice(rows.start, rows.len());
    let live = live(scan, &numbers);
    let matching = match &scan.unindexed {
        Some(condition) => Some(condition.of_batch(&batch)?),
        None => None,
    };
    let keep = |at: usize| {
        live.as_ref().is_none_or(|live| live.value(at))
            && matching
                .as_ref()
                .is_none_or(|matching| arrow_array::Array::is_valid(matching, at) && matching.value(at))
    };
    let kept: BooleanArray = (0..batch.num_rows()).map(|at| Some(keep(at))).collect();
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

/// Which of the rows are there; none if all are.
fn live(scan: &Scan, rows: &Range<usize>) -> Option<BooleanArray> {
    let delta = scan.open.delta.as_ref()?;
    if delta.are_live(rows) {
        return None;
    }
    Some(rows.clone().map(|row| Some(!delta.is_gone(row))).collect())
}
