//! Rows of the fact table in the delta, decoded for the join.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use datafusion::catalog::Session;
use datafusion::error::Result;
use halocline_joins::star::{DecodedRows, Dimension, MeasureValues, Probe};
use halocline_scan::plan::DeltaRows;

use super::shape::StarShape;

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

/// Returns rows with the columns that `shape` needs. `probes` are those of its branches; `groups` has the
/// numbers of the values of each group column, batch by batch.
///
/// # Errors
/// A condition on the rows of an aggregate cannot be evaluated.
pub(super) fn decoded(
    added: &[RecordBatch],
    shape: &StarShape,
    probes: &[Probe],
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
        let keys = shape.branches.iter().zip(probes);
        let keys = keys.map(|(branch, probe)| {
            if branch.has_string_keys {
                Ok(vec![string_keys(
                    batch.column(branch.columns[0]),
                    &probe.dimension,
                )?])
            } else {
                of(&branch.columns)
            }
        });
        let sources = shape.aggregates.measured.iter();
        let measured = sources.map(|source| match source.fact() {
            Some(column) => values(batch.column(column)),
            None => Ok(MeasureValues::default()),
        });
        Ok(DecodedRows {
            rows: batch.num_rows(),
            keys: keys.collect::<Result<_>>()?,
            measured: measured.collect::<Result<_>>()?,
            groups: groups.iter().map(|batches| batches[number].clone()).collect(),
            filters: filters.iter().map(|batches| batches[number].clone()).collect(),
        })
    });
    rows.collect()
}

/// Returns integers, or floats as doubles.
pub(super) fn values(array: &ArrayRef) -> Result<MeasureValues> {
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

/// Returns the keys of strings in a dimension, NULL for those that it has not.
fn string_keys(array: &ArrayRef, dimension: &Dimension) -> Result<MeasureValues> {
    let array = strings(array)?;
    let keys = array.as_string_view().iter();
    let keys = keys.map(|string| dimension.key_of_string(string?.as_bytes()));
    let keys = Vec::from_iter(keys);
    let valid = keys.iter().map(Option::is_some).collect();
    Ok(MeasureValues::new(
        keys.iter().map(|key| key.unwrap_or(0)).collect(),
        valid,
    ))
}

/// Converts strings of any type to views.
///
/// # Errors
/// The values are no strings.
pub(super) fn strings(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(arrow_cast::cast(array, &DataType::Utf8View)?)
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
