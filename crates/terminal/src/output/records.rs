//! Answers with one value a line, for rows that are wider than a terminal.

use std::io::Write;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::ArrayFormatter;
use arrow_schema::SchemaRef;
use comfy_table::{Attribute, Cell, ContentArrangement, Table, TableComponent, presets};

use super::{Style, shown_values};
use crate::CliError;

/// Writes each row below a line with its number.
pub(super) struct RecordSink<W: Write> {
    schema: SchemaRef,
    style: Style,
    rows: u64,
    out: W,
}

impl<W: Write> RecordSink<W> {
    pub(super) fn new(schema: SchemaRef, style: Style, out: W) -> Self {
        Self {
            schema,
            style,
            rows: 0,
            out,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        let wanted = self.style.rows_left(self.rows);
        let options = shown_values();
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let nulls = batch.columns().iter().map(|column| column.logical_nulls());
        let nulls: Vec<_> = nulls.collect();
        for row in 0..batch.num_rows().min(wanted) {
            writeln!(self.out, "-[ RECORD {} ]-", self.rows + row as u64 + 1)?;
            let mut record = self.empty();
            let columns = columns.iter().zip(&nulls).zip(self.schema.fields());
            for ((column, nulls), field) in columns {
                let mut value = Cell::new(column.value(row));
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    value = value.add_attribute(Attribute::Dim);
                }
                record.add_row([Cell::new(field.name()), value]);
            }
            if let Some(names) = record.column_mut(0) {
                names.set_padding((0, 1));
            }
            for line in record.lines() {
                writeln!(self.out, "{}", line.trim_end())?;
            }
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        writeln!(self.out, "{}", self.style.row_count(self.rows))?;
        Ok(self.out.flush()?)
    }

    /// Creates the table of one row: names and values, with a line between them.
    fn empty(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_style(TableComponent::VerticalLines, '│');
        table.force_no_tty();
        if self.style.has_colours() {
            table.enforce_styling();
        }
        if let Some(screen) = self.style.screen {
            table.set_width(u16::try_from(screen.width).unwrap_or(u16::MAX));
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn each_value_has_a_line() {
        let texts = StringArray::from(vec![Some("a"), None]);
        let numbers = Int64Array::from(vec![7, 8]);
        let batch =
            RecordBatch::try_from_iter([("name", Arc::new(texts) as _), ("n", Arc::new(numbers) as _)])
                .unwrap();
        let style = Style {
            screen: None,
            ..Style::new(crate::output::AnswerFormat::Expanded, 0)
        };
        let mut out = Vec::new();
        let mut sink = RecordSink::new(batch.schema(), style, &mut out);
        sink.write(&batch).unwrap();
        sink.finish().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "-[ RECORD 1 ]-\nname │ a\nn    │ 7\n-[ RECORD 2 ]-\nname │ NULL\nn    │ 8\n2 rows\n"
        );
    }
}
