//! Answers: as a table, a chart or one value a line for people, as CSV or JSON Lines for programs.

mod chart;
mod csv;
mod fit;
mod records;
mod table;

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_cast::display::FormatOptions;
use arrow_json::writer::{LineDelimited, Writer as JsonWriter, WriterBuilder as JsonBuilder};
use arrow_schema::SchemaRef;
use clap::ValueEnum;

use crate::CliError;
use crate::screen::Screen;
use crate::size::{counted, grouped};

use chart::ChartSink;
use csv::{CsvSink, TIMESTAMP};
use records::RecordSink;
use table::TableSink;

pub use table::plain_table;

/// A form of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Table,
    /// A header line, then one line per row
    Csv,
    /// One object per row and line
    Json,
}

/// A form of the answers to statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// For people
    Table,
    /// A header line, then one line per row
    Csv,
    /// One object per row and line
    Json,
    /// A line per value, for rows with many columns
    #[value(alias = "line")]
    Expanded,
    /// Bars: of a column of labels, and one of numbers
    Chart,
}

impl AnswerFormat {
    /// Returns true for forms that only people read, among which messages do not disturb.
    #[must_use]
    pub fn is_for_people(self) -> bool {
        !matches!(self, Self::Csv | Self::Json)
    }
}

impl From<OutputFormat> for AnswerFormat {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Table => Self::Table,
            OutputFormat::Csv => Self::Csv,
            OutputFormat::Json => Self::Json,
        }
    }
}

/// How answers are printed.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Their form.
    pub format: AnswerFormat,
    /// Rows shown at most, but for CSV and JSON; 0 shows all.
    pub max_rows: usize,
    /// The terminal that they are fitted to; `None` for a file or a pipe.
    pub screen: Option<Screen>,
}

impl Style {
    /// Creates a style for answers on stdout.
    #[must_use]
    pub fn new(format: impl Into<AnswerFormat>, max_rows: usize) -> Self {
        Self {
            format: format.into(),
            max_rows,
            screen: Screen::of_stdout(),
        }
    }

    /// Returns the number of rows that are still to be shown after `rows`.
    fn rows_left(&self, rows: u64) -> usize {
        match self.max_rows {
            0 => usize::MAX,
            limit => limit.saturating_sub(usize::try_from(rows).unwrap_or(usize::MAX)),
        }
    }

    /// Says how many rows there are, and how many are shown.
    fn row_count(&self, rows: u64) -> String {
        let count = counted(rows, "row");
        if self.max_rows == 0 || rows <= self.max_rows as u64 {
            return count;
        }
        let first = grouped(self.max_rows as u64);
        format!("{count}, the first {first} shown (--max-rows 0 shows all)")
    }

    fn has_colours(&self) -> bool {
        self.screen.is_some_and(|screen| screen.has_colours)
    }
}

/// Returns the formats of values that are shown to people.
fn shown_values() -> FormatOptions<'static> {
    FormatOptions::default()
        .with_null("NULL")
        .with_timestamp_format(Some(TIMESTAMP))
}

/// Takes the batches of one answer in order and prints them.
pub struct Sink<W: Write>(FormatSink<W>);

enum FormatSink<W: Write> {
    Table(Box<TableSink<W>>),
    Csv(Box<CsvSink<W>>),
    Json(Box<JsonWriter<W, LineDelimited>>),
    Expanded(Box<RecordSink<W>>),
    Chart(Box<ChartSink<W>>),
}

impl<W: Write> Sink<W> {
    /// Starts an answer with the columns of `schema`.
    pub fn new(style: Style, schema: SchemaRef, out: W) -> Self {
        Self(match style.format {
            AnswerFormat::Table => FormatSink::Table(Box::new(TableSink::new(schema, style, out))),
            AnswerFormat::Csv => FormatSink::Csv(Box::new(CsvSink::new(schema, out))),
            AnswerFormat::Json => FormatSink::Json(Box::new(
                JsonBuilder::new()
                    .with_explicit_nulls(true)
                    .build::<_, LineDelimited>(out),
            )),
            AnswerFormat::Expanded => FormatSink::Expanded(Box::new(RecordSink::new(schema, style, out))),
            AnswerFormat::Chart => FormatSink::Chart(Box::new(ChartSink::new(schema, style, out))),
        })
    }

    /// Prints (or, for a table or a chart, keeps) a batch.
    ///
    /// # Errors
    /// The output cannot be written; a column has a type that cannot be printed; the columns make no chart.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        match &mut self.0 {
            FormatSink::Table(table) => table.write(batch),
            FormatSink::Csv(csv) => csv.write(batch),
            FormatSink::Json(writer) => Ok(writer.write(batch)?),
            FormatSink::Expanded(records) => records.write(batch),
            FormatSink::Chart(chart) => chart.write(batch),
        }
    }

    /// Prints what is left.
    ///
    /// # Errors
    /// The output cannot be written; the columns make no chart.
    pub fn finish(self) -> Result<(), CliError> {
        match self.0 {
            FormatSink::Table(table) => table.finish(),
            FormatSink::Csv(csv) => csv.finish(),
            FormatSink::Json(mut writer) => {
                writer.finish()?;
                Ok(writer.into_inner().flush()?)
            }
            FormatSink::Expanded(records) => records.finish(),
            FormatSink::Chart(chart) => chart.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("name", DataType::Utf8, true),
            Field::new("price", DataType::Decimal128(10, 2), true),
            Field::new("day", DataType::Date32, true),
            Field::new("x", DataType::Float64, true),
        ]));
        RecordBatch::try_new(
            schema,
            vec![
                Arc::new(Int64Array::from(vec![Some(1), None])),
                Arc::new(StringArray::from(vec![Some("a, \"b\""), None])),
                Arc::new(
                    Decimal128Array::from(vec![Some(1250), None])
                        .with_precision_and_scale(10, 2)
                        .unwrap(),
                ),
                Arc::new(Date32Array::from(vec![Some(8035), None])),
                Arc::new(Float64Array::from(vec![Some(0.5), None])),
            ],
        )
        .unwrap()
    }

    fn printed(format: OutputFormat, max_rows: usize, batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let style = Style {
            screen: None,
            ..Style::new(format, max_rows)
        };
        let mut sink = Sink::new(style, batch().schema(), &mut out);
        for batch in batches {
            sink.write(batch).unwrap();
        }
        sink.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_has_one_header_and_quotes_what_needs_it() {
        let text = printed(OutputFormat::Csv, 0, &[batch(), batch()]);
        let row = "1,\"a, \"\"b\"\"\",12.50,1992-01-01,0.5\n,,,,\n";
        assert_eq!(text, format!("id,name,price,day,x\n{row}{row}"));
        assert_eq!(printed(OutputFormat::Csv, 0, &[]), "id,name,price,day,x\n");
    }

    #[test]
    fn json_has_one_object_per_line_with_all_fields() {
        let text = printed(OutputFormat::Json, 0, &[batch()]);
        let rows: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["id"], 1);
        assert_eq!(rows[0]["name"], "a, \"b\"");
        assert_eq!(
            rows[0]["price"].to_string(),
            "12.50".parse::<f64>().unwrap().to_string()
        );
        assert_eq!(rows[0]["day"], "1992-01-01");
        assert!(
            rows[1]
                .as_object()
                .unwrap()
                .values()
                .all(serde_json::Value::is_null)
        );
        assert_eq!(printed(OutputFormat::Json, 0, &[]), "");
    }

    #[test]
    fn tables_show_names_values_and_how_many_rows() {
        let text = printed(OutputFormat::Table, 0, &[batch()]);
        for part in ["id", "price", "12.50", "1992-01-01", "NULL", "2 rows"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(printed(OutputFormat::Table, 0, &[]).contains("0 rows"));
    }

    #[test]
    fn long_tables_are_cut_and_say_so() {
        let text = printed(OutputFormat::Table, 3, &[batch(), batch(), batch()]);
        assert_eq!(
            text.matches("NULL").count(),
            5,
            "one of the three shown rows is all NULL:\n{text}"
        );
        assert!(
            text.contains("6 rows, the first 3 shown (--max-rows 0 shows all)"),
            "{text}"
        );
    }
}
