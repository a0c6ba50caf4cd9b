//! Bounds of the values of columns of the fact table, by the code spaces of its segments and the rows of the
//! delta. Deleted rows count too.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use halocline_catalog::OpenTable;

use super::delta_rows::integers;

/// Returns the least and the greatest value of a column of integers or decimals, 0 and 0 if there are no
/// values; `None` if the values of a segment cannot be read as integers.
pub(super) fn integer_bounds(open: &OpenTable, column: usize) -> Option<(i128, i128)> {
    let mut bounds: Option<(i128, i128)> = None;
    let mut note = |low: i128, high: i128| {
        let (least, most) = bounds.unwrap_or((low, high));
        bounds = Some((least.min(low), most.max(high)));
    };
    for segment in open.table.segments() {
        let column = segment.column(column);
        let space = column.code_space()?;
        if column.null_count() == column.rows() {
            continue;
        }
        let base = i128::from(space.integer_base()?);
        note(
            base + i128::from(space.has_null()),
            base + i128::from(space.max_code()),
        );
    }
    for array in added(open, column) {
        if let Some(decimals) = array.as_primitive_opt::<Decimal128Type>() {
            decimals.iter().flatten().for_each(|value| note(value, value));
            continue;
        }
        let values = integers(array).ok()?;
        let values = values.as_primitive::<Int64Type>().iter().flatten();
        values.for_each(|value| note(value.into(), value.into()));
    }
    Some(bounds.unwrap_or((0, 0)))
}

/// Returns true if no value of a column of floats is infinite or NaN; `None` if the values of a segment
/// cannot be read as floats.
pub(super) fn are_finite(open: &OpenTable, column: usize) -> Option<bool> {
    let mut finite = true;
    for segment in open.table.segments() {
        let column = segment.column(column);
        let space = column.code_space()?;
        let floats = space.floats()?;
        if column.null_count() < column.rows() {
            let (low, high) = (u64::from(space.has_null()), space.max_code());
            finite &= floats.value(low).is_finite() && floats.value(high).is_finite();
        }
    }
    for array in added(open, column) {
        let values = arrow_cast::cast(array, &DataType::Float64).ok()?;
        let mut values = values.as_primitive::<Float64Type>().iter().flatten();
        finite &= values.all(f64::is_finite);
    }
    Some(finite)
}

/// Returns true if a column has a NULL.
pub(super) fn has_nulls(open: &OpenTable, column: usize) -> bool {
    let mut segments = open.table.segments().iter();
    segments.any(|segment| {
        let column = segment.column(column);
        column.null_count() > 0 || column.code_space().is_some_and(|space| space.has_null())
    }) || added(open, column).any(|array| array.null_count() > 0)
}

/// Returns the values of the rows of the delta.
fn added(open: &OpenTable, column: usize) -> impl Iterator<Item = &ArrayRef> {
    let batches = open.delta.iter().flat_map(|delta| delta.batches());
    batches.map(move |(_, batch)| batch.column(column))
}
