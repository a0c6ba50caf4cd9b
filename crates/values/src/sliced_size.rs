//! The bytes that the rows of a batch take, of buffers that they share with others.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType};

/// Size of a view of a text or of bytes.
const VIEW: usize = 16;

/// Returns the bytes that the values of an array take without those of other slices of its buffers.
///
/// # Errors
/// The type has no known layout.
pub fn of_array(array: &dyn Array) -> Result<usize, ArrowError> {
    Ok(match array.data_type() {
        // Arrow counts the views alone.
        DataType::Utf8View => array.as_string_view().total_buffer_bytes_used() + VIEW * array.len(),
        DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used() + VIEW * array.len(),
        _ => array.to_data().get_slice_memory_size()?,
    })
}

/// Returns the sum over the columns of a batch.
///
/// # Errors
/// Those of [`of_array`].
pub fn of_batch(batch: &RecordBatch) -> Result<usize, ArrowError> {
    batch
        .columns()
        .iter()
        .map(|column| of_array(column.as_ref()))
        .sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn slices_count_what_is_theirs() {
        let texts: StringViewArray = (0..100).map(|_| Some("a text that is not in its view")).collect();
        assert_eq!(of_array(&texts).unwrap(), 100 * (16 + 30));
        assert_eq!(of_array(&texts.slice(10, 5)).unwrap(), 5 * (16 + 30));
        let numbers: Arc<dyn Array> = Arc::new(Int64Array::from_iter_values(0..100));
        assert_eq!(of_array(&numbers.slice(0, 10)).unwrap(), 80);
    }
}
