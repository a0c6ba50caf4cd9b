//! Answers as CSV that `halocline import` reads back unchanged: a missing value is nothing, an empty text is
//! `""`, and timestamps print as in SQL.

use std::io::Write;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, SchemaRef};

use crate::CliError;

/// Timestamps without a time zone, in CSV and in tables.
pub(super) const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";

/// Writes the batches of one answer below a line of names.
pub(super) struct CsvSink<W: Write> {
    schema: SchemaRef,
    started: bool,
    line: String,
    out: W,
}

impl<W: Write> CsvSink<W> {
    pub(super) fn new(schema: SchemaRef, out: W) -> Self {
        Self {
            schema,
            started: false,
            line: String::new(),
            out,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        self.start()?;
        let options = FormatOptions::default().with_timestamp_format(Some(TIMESTAMP));
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (i, (array, column)) in batch.columns().iter().zip(&columns).enumerate() {
                if i > 0 {
                    self.line.push(',');
                }
                // A column of type NULL has no bits that say so.
                if !array.is_null(row) && *array.data_type() != DataType::Null {
                    text.clear();
                    column.value(row).write(&mut text)?;
                    push_field(&mut self.line, &text);
                }
            }
            self.line.push('\n');
            self.out.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        self.start()?;
        Ok(self.out.flush()?)
    }

    /// Writes the line of names, once.
    fn start(&mut self) -> Result<(), CliError> {
        if std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let mut line = String::new();
        for (i, field) in self.schema.fields().iter().enumerate() {
            if i > 0 {
                line.push(',');
            }
            push_field(&mut line, field.name());
        }
        line.push('\n');
        Ok(self.out.write_all(line.as_bytes())?)
    }
}

/// Appends a text, quoted where it would not be read back as it is.
fn push_field(line: &mut String, text: &str) {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{StringArray, TimestampNanosecondArray};
    use std::sync::Arc;

    #[test]
    fn missing_values_and_empty_texts_differ() {
        let texts = StringArray::from(vec![Some(""), None, Some("a \"b\"")]);
        let times = TimestampNanosecondArray::from(vec![Some(0), None, Some(250_000_000)]);
        let batch =
            RecordBatch::try_from_iter([("s", Arc::new(texts) as _), ("t", Arc::new(times) as _)]).unwrap();
        let mut out = Vec::new();
        let mut sink = CsvSink::new(batch.schema(), &mut out);
        sink.write(&batch).unwrap();
        sink.finish().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "s,t\n\"\",1970-01-01 00:00:00\n,\n\"a \"\"b\"\"\",1970-01-01 00:00:00.250\n"
        );
    }
}
