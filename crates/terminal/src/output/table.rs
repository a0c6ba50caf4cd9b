//! Tables for people.

use std::io::{self, IsTerminal, Write};

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, SchemaRef};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::csv::TIMESTAMP;
use crate::CliError;
use crate::size::grouped;

/// Keeps the first rows of an answer, counts the others, and prints them as a table.
pub(super) struct TableSink<W: Write> {
    schema: SchemaRef,
    max_rows: usize,
    shown: Table,
    rows: u64,
    out: W,
}

impl<W: Write> TableSink<W> {
    pub(super) fn new(schema: SchemaRef, max_rows: usize, out: W) -> Self {
        let mut shown = plain_table(schema.fields().len());
        shown.set_header(schema.fields().iter().map(|field| field.name()));
        Self {
            schema,
            max_rows,
            shown,
            rows: 0,
            out,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        let wanted = match self.max_rows {
            0 => usize::MAX,
            limit => limit.saturating_sub(usize::try_from(self.rows).unwrap_or(usize::MAX)),
        };
        self.rows += batch.num_rows() as u64;
        let options = FormatOptions::default()
            .with_null("NULL")
            .with_timestamp_format(Some(TIMESTAMP));
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows().min(wanted) {
            let cells = columns.iter().zip(self.schema.fields()).map(|(column, field)| {
                let cell = Cell::new(column.value(row));
                if is_number(field.data_type()) {
                    cell.set_alignment(CellAlignment::Right)
                } else {
                    cell
                }
            });
            self.shown.add_row(cells);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        writeln!(self.out, "{}", self.shown)?;
        let rows = grouped(self.rows);
        let unit = if self.rows == 1 { "row" } else { "rows" };
        if self.max_rows > 0 && self.rows > self.max_rows as u64 {
            let shown = grouped(self.max_rows as u64);
            writeln!(
                self.out,
                "{rows} {unit}, the first {shown} shown (--max-rows 0 shows all)"
            )?;
        } else {
            writeln!(self.out, "{rows} {unit}")?;
        }
        Ok(self.out.flush()?)
    }
}

/// Creates an empty table in the style of the program. On a terminal it fits the width, unless that would
/// make its columns too narrow to read.
#[must_use]
pub fn plain_table(columns: usize) -> Table {
    const MIN_COLUMN_WIDTH: usize = 8;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let fits = |width: u16| usize::from(width) >= columns * MIN_COLUMN_WIDTH;
    if io::stdout().is_terminal() && table.width().is_some_and(fits) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || matches!(data_type, DataType::Decimal128(_, _))
}
