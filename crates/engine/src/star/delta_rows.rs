//! Rows of the fact table in the delta, decoded for the join.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use datafusion::catalog::Session;
use datafusion::error::Result;
use halocline_joins::star::{DecodedRows, MeasureValues};

use super::shape::StarShape;
use crate::plan::DeltaRows;

/// Number of rows in a morsel.
const ROWS: usize = 8_192;

/// Returns the matching rows, a batch for each morsel.
///
/// # Errors
/// The condition cannot be evaluated.
pub(super) fn added_rows(added: &DeltaRows) -> Result<Vec<RecordBatch>> {
    let mut all = Vec::new();
    added.for_each(ROWS, |batch| {
        all.push(batch);
        Ok(())
    })?;
    Ok(all)
}

/// Returns rows with the columns that `shape` needs. `groups` has the numbers of the values of each group
/// column, batch by batch.
///
/// # Errors
/// A condition on the rows of an aggregate cannot be evaluated.
pub(super) fn decoded(
    added: &[RecordBatch],
    shape: &StarShape,
    groups: &[Vec<Vec<u64>>],
    state: &dyn Session,
) -> Result<Vec<DecodedRows>> {
    let filters = shape.aggregates.filters.iter();
    let filters = filters.map(|filter| DeltaRows::matching(&shape.fact, &filter.expr, state, added));
    let filters = filters.collect::<Result<Vec<_>>>()?;
    let rows = added.iter().enumerate().map(|(number, batch)| {
        let of = |columns: &[usize]| {
            let columns = columns.iter().map(|column| values(batch.column(*column)));
            columns.collect::<Result<Vec<MeasureValues>>>()
        };
        let keys = shape.branches.iter().map(|branch| of(&branch.columns));
        Ok(DecodedRows {
            rows: batch.num_rows(),
            keys: keys.collect::<Result<_>>()?,
            measured: of(&shape.aggregates.measured)?,
            groups: groups.iter().map(|batches| batches[number].clone()).collect(),
            filters: filters.iter().map(|batches| batches[number].clone()).collect(),
        })
    });
    rows.collect()
}

/// Returns integers, or floats as doubles.
fn values(array: &ArrayRef) -> Result<MeasureValues> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let valid = nulls.map_or_else(Vec::new, |nulls| nulls.iter().collect());
    if array.data_type().is_floating() {
        let floats = arrow_cast::cast(array, &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>().values();
        return Ok(MeasureValues::of_floats(floats.iter().copied(), valid));
    }
    let wide = integers(array)?;
    let wide = wide.as_primitive::<Int64Type>().values();
    Ok(MeasureValues::new(wide.to_vec(), valid))
}

/// Converts integers of any type to 64 bits, and decimals to their unscaled values.
///
/// # Errors
/// The values are neither.
pub(super) fn integers(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(decimals) = array.as_primitive_opt::<Decimal128Type>() {
        // The star join is not planned for decimals of more bits.
        return Ok(Arc::new(decimals.unary::<_, Int64Type>(|value| value as i64)));
    }
    let days;
    let array = match array.data_type() {
        DataType::Date32 => {
            days = arrow_cast::cast(array, &DataType::Int32)?;
            &days
        }
        _ => array,
    };
    Ok(arrow_cast::cast(array, &DataType::Int64)?)
}
