//! Answers as CSV that `halocline import` reads back unchanged; timestamps print as in SQL.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_cast::display::FormatOptions;
use arrow_schema::SchemaRef;
use halocline_import::{CsvRows, CsvStyle};

use crate::CliError;

/// Timestamps without a time zone, in CSV and in tables.
pub(super) const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";

/// Writes the batches of one answer below a line of names.
pub(super) struct CsvSink<W: Write> {
    schema: SchemaRef,
    style: CsvStyle<'static>,
    started: bool,
    line: Vec<u8>,
    out: W,
}

impl<W: Write> CsvSink<W> {
    pub(super) fn new(schema: SchemaRef, out: W) -> Self {
        Self {
            schema,
            style: CsvStyle {
                formats: FormatOptions::default().with_timestamp_format(Some(TIMESTAMP)),
                ..CsvStyle::default()
            },
            started: false,
            line: Vec::new(),
            out,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        self.start()?;
        let mut rows = CsvRows::new(batch, &self.style)?;
        for row in 0..batch.num_rows() {
            self.line.clear();
            rows.push(row, &mut self.line).map_err(|(_, error)| error)?;
            self.out.write_all(&self.line)?;
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
        let mut line = Vec::new();
        self.style.push_names(&self.schema, &mut line);
        Ok(self.out.write_all(&line)?)
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
