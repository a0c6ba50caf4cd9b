//! Rows as CSV that an import reads back unchanged: NULL is an empty field, an empty text a quoted one.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Schema};

/// How fields are separated, quoted and formatted.
#[derive(Debug, Clone)]
pub struct CsvStyle<'a> {
    /// Byte between fields.
    pub delimiter: u8,
    /// Byte around a field that would not be read back as it is.
    pub quote: u8,
    /// Byte before a quote within a field; `None` doubles the quote.
    pub escape: Option<u8>,
    /// Removes white space from texts.
    pub trim: fn(&str) -> &str,
    /// Formats of dates and times.
    pub formats: FormatOptions<'a>,
}

impl Default for CsvStyle<'_> {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: b'"',
            escape: None,
            trim: |text| text,
            formats: FormatOptions::default(),
        }
    }
}

impl CsvStyle<'_> {
    /// Appends a line with the names of the columns.
    pub fn push_names(&self, schema: &Schema, out: &mut Vec<u8>) {
        for (column, field) in schema.fields().iter().enumerate() {
            self.push_delimiter(column, out);
            self.push_field(field.name(), out);
        }
        out.push(b'\n');
    }

    /// Appends a comma or the like, except before the first column.
    fn push_delimiter(&self, column: usize, out: &mut Vec<u8>) {
        out.extend((column > 0).then_some(self.delimiter));
    }

    /// Appends a text, quoted where it would not be read back as it is.
    fn push_field(&self, text: &str, out: &mut Vec<u8>) {
        let is_special = |byte: u8| {
            [self.delimiter, self.quote, b'\r', b'\n'].contains(&byte) || self.escape == Some(byte)
        };
        if !text.is_empty() && !text.bytes().any(is_special) {
            out.extend_from_slice(text.as_bytes());
            return;
        }
        out.push(self.quote);
        for byte in text.bytes() {
            if byte == self.quote {
                out.push(self.escape.unwrap_or(self.quote));
            }
            out.push(byte);
        }
        out.push(self.quote);
    }
}

/// The rows of one batch.
pub struct CsvRows<'a> {
    style: &'a CsvStyle<'a>,
    columns: Vec<CsvColumn<'a>>,
    /// Holds one value at a time.
    text: String,
}

/// A column of the batch.
struct CsvColumn<'a> {
    values: ArrayFormatter<'a>,
    /// Of the values: a column of type NULL has no bits of its own, and a dictionary may have NULL as a
    /// value.
    nulls: Option<NullBuffer>,
    is_text: bool,
}

impl<'a> CsvRows<'a> {
    /// Prepares the columns of a batch.
    ///
    /// # Errors
    /// A column has a type that cannot be formatted.
    pub fn new(batch: &'a RecordBatch, style: &'a CsvStyle<'a>) -> Result<Self, ArrowError> {
        let column = |array: &'a dyn Array| {
            Ok(CsvColumn {
                values: ArrayFormatter::try_new(array, &style.formats)?,
                nulls: array.logical_nulls(),
                is_text: matches!(
                    array.data_type(),
                    DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                ),
            })
        };
        let columns = batch.columns().iter().map(|array| column(array.as_ref()));
        Ok(Self {
            style,
            columns: columns.collect::<Result<_, ArrowError>>()?,
            text: String::new(),
        })
    }

    /// Appends the line of a row.
    ///
    /// # Errors
    /// The number of a column, from 0, whose value cannot be formatted, and why.
    pub fn push(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), (usize, ArrowError)> {
        for (number, column) in self.columns.iter().enumerate() {
            self.style.push_delimiter(number, out);
            if column.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            self.text.clear();
            let written = column.values.value(row).write(&mut self.text);
            written.map_err(|error| (number, error))?;
            let text = if column.is_text {
                (self.style.trim)(&self.text)
            } else {
                &self.text
            };
            self.style.push_field(text, out);
        }
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, NullArray, StringArray};
    use std::sync::Arc;

    fn written(columns: Vec<ArrayRef>, style: &CsvStyle<'_>) -> String {
        let names = ["a", "b \"", "c"];
        let batch = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let mut out = Vec::new();
        style.push_names(&batch.schema(), &mut out);
        let mut rows = CsvRows::new(&batch, style).unwrap();
        for row in 0..batch.num_rows() {
            rows.push(row, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn null_is_empty_and_an_empty_text_is_quoted() {
        let texts = StringArray::from(vec![Some(""), None, Some("x,\r\"y\"")]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(texts.clone()),
            Arc::new(texts),
            Arc::new(NullArray::new(3)),
        ];
        assert_eq!(
            written(columns, &CsvStyle::default()),
            "a,\"b \"\"\",c\n\"\",\"\",\n,,\n\"x,\r\"\"y\"\"\",\"x,\r\"\"y\"\"\",\n"
        );
    }

    #[test]
    fn styles_change_the_bytes() {
        let style = CsvStyle {
            delimiter: b';',
            quote: b'\'',
            escape: Some(b'\\'),
            trim: str::trim,
            ..CsvStyle::default()
        };
        let texts = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
        let columns = vec![texts(vec!["it's", " "]), texts(vec![" a,b ", "c;d"])];
        assert_eq!(written(columns, &style), "a;b \"\n'it\\'s';a,b\n'';'c;d'\n");
    }
}
