//! Arrays of views without buffers that others need.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray};
use arrow_schema::DataType;

/// Bytes of buffers for which nothing is copied.
const MIN_COMPACTED_BYTES: usize = 16 << 10;

/// Returns the values of an array, with buffers of their own if it is one of views that reads less than half
/// of its buffers.
pub fn compacted(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => of_views(array.as_string_view()),
        DataType::BinaryView => of_views(array.as_binary_view()),
        _ => None,
    }
    .unwrap_or_else(|| Arc::clone(array))
}

fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held: usize = array.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    let is_wasteful = held > MIN_COMPACTED_BYTES && held > 2 * array.total_buffer_bytes_used();
    is_wasteful.then(|| Arc::new(array.gc()) as ArrayRef)
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    #[test]
    fn slices_get_buffers_of_their_own() {
        let text = |number: usize| format!("a text of more than twelve bytes, {number}");
        let all: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..10_000).map(text)));
        let few = all.slice(700, 10);
        let compact = compacted(&few);
        assert_eq!(&compact, &few);
        assert!(compact.get_array_memory_size() < 2000);
        let same = compacted(&all);
        assert_eq!(same.get_array_memory_size(), all.get_array_memory_size());
    }
}
