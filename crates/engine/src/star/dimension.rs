//! The rows of a dimension as what the join probes, and the attributes of its groups.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::DataType;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::error::Result;
use halocline_joins::JoinError;
use halocline_joins::star::{Dimension, DimensionBuilder};

use crate::plan::external;

/// A dimension that has been read.
pub(super) struct Read {
    pub(super) dimension: Dimension,
    /// The attributes of each group, a value for each of its numbers.
    pub(super) attributes: Vec<ArrayRef>,
}

/// Reads a dimension: its first column is the key, the others are attributes. None if two rows have the same key.
///
/// # Errors
/// An attribute is of a type that cannot be compared.
pub(super) fn read(batches: &[RecordBatch]) -> Result<Option<Read>> {
    let mut builder = DimensionBuilder::new();
    let mut groups = Groups::default();
    for batch in batches {
        let keys = integers(batch.column(0))?;
        let keys = keys.as_primitive::<Int64Type>();
        let numbers = groups.of(&batch.columns()[1..], batch.num_rows())?;
        for row in (0..batch.num_rows()).filter(|row| keys.is_valid(*row)) {
            builder.push(keys.value(row), numbers[row]);
        }
    }
    match builder.finish() {
        Ok(dimension) => Ok(Some(Read {
            dimension,
            attributes: groups.attributes()?,
        })),
        Err(JoinError::DuplicateKey { .. }) => Ok(None),
        Err(error) => Err(external(error)),
    }
}

/// Whole numbers of any type as those of 64 bits.
fn integers(array: &ArrayRef) -> Result<ArrayRef> {
    let days;
    let array = match array.data_type() {
        DataType::Date32 => {
            days = arrow_cast::cast(array, &DataType::Int32)?;
            &days
        }
        _ => array,
    };
    let wide = arrow_cast::cast(array, &DataType::Int64)?;
    debug_assert!(wide.as_any().is::<Int64Array>());
    Ok(wide)
}

/// Numbers for combinations of attributes, in the order in which they come.
#[derive(Default)]
struct Groups {
    converter: Option<RowConverter>,
    numbers: HashMap<OwnedRow, u32>,
    found: Vec<OwnedRow>,
}

impl Groups {
    fn of(&mut self, attributes: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
        if attributes.is_empty() {
            return Ok(vec![0; rows]);
        }
        let converter = match &mut self.converter {
            Some(converter) => converter,
            None => {
                let fields = attributes
                    .iter()
                    .map(|array| SortField::new(array.data_type().clone()));
                self.converter.insert(RowConverter::new(fields.collect())?)
            }
        };
        let encoded = converter.convert_columns(attributes)?;
        let mut numbers = Vec::with_capacity(rows);
        for row in &encoded {
            let row = row.owned();
            let next = self.found.len() as u32;
            numbers.push(*self.numbers.entry(row).or_insert_with_key(|row| {
                self.found.push(row.clone());
                next
            }));
        }
        Ok(numbers)
    }

    fn attributes(&self) -> Result<Vec<ArrayRef>> {
        match &self.converter {
            None => Ok(Vec::new()),
            Some(converter) => Ok(converter.convert_rows(self.found.iter().map(OwnedRow::row))?),
        }
    }
}
