//! Answers as text, so that those of two systems can be compared.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::ArrowError;

/// Formats each row as a line of values separated by `|`, in the order of the batches. Nulls become `NULL`.
///
/// # Errors
/// A column has a type that cannot be formatted.
pub fn lines(batches: &[RecordBatch]) -> Result<Vec<String>, ArrowError> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            lines.push(values.join("|"));
        }
    }
    Ok(lines)
}
