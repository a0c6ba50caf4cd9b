//! Tables for people.
//!
//! On a terminal a table is no wider than a line: long texts are cut, columns without room are left out and
//! counted. Everywhere else it has all columns at their full width.

use std::io::{self, IsTerminal, Write};

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::ArrayFormatter;
use arrow_schema::{DataType, SchemaRef};
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets,
};

use super::fit::{ColumnWidth, fit};
use super::{Style, shown_values};
use crate::CliError;

/// Width of the blanks on both sides of a value.
const PADDING: usize = 2;

/// Keeps the first rows of an answer, counts the others, and prints them as a table.
pub(super) struct TableSink<W: Write> {
    schema: SchemaRef,
    style: Style,
    shown: Table,
    rows: u64,
    out: W,
}

impl<W: Write> TableSink<W> {
    pub(super) fn new(schema: SchemaRef, style: Style, out: W) -> Self {
        let mut shown = Table::new();
        shown.load_preset(presets::UTF8_FULL_CONDENSED);
        shown.force_no_tty();
        if style.has_colours() {
            shown.enforce_styling();
        }
        Self {
            schema,
            style,
            shown,
            rows: 0,
            out,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        let wanted = self.style.rows_left(self.rows);
        self.rows += batch.num_rows() as u64;
        let options = shown_values();
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let nulls = batch.columns().iter().map(|column| column.logical_nulls());
        let nulls: Vec<_> = nulls.collect();
        for row in 0..batch.num_rows().min(wanted) {
            let columns = columns.iter().zip(&nulls).zip(self.schema.fields());
            let cells = columns.map(|((column, nulls), field)| {
                let cell = aligned(Cell::new(column.value(row)), field.data_type());
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    cell.add_attribute(Attribute::Dim)
                } else {
                    cell
                }
            });
            self.shown.add_row(cells);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        let of_values = self.shown.column_max_content_widths();
        self.shown.set_header(self.header());
        let columns = self.schema.fields().len();
        let shown = match self.style.screen {
            Some(screen) => self.fit(screen.width, &of_values),
            None => columns,
        };
        writeln!(self.out, "{}", self.shown)?;
        let mut footer = self.style.row_count(self.rows);
        if shown < columns {
            let hidden = columns - shown;
            footer += &format!("; {shown} of {columns} columns, {hidden} hidden (\\x shows all)");
        }
        writeln!(self.out, "{footer}")?;
        Ok(self.out.flush()?)
    }

    /// Returns the names of the columns, each above its values.
    fn header(&self) -> Row {
        let cells = self.schema.fields().iter();
        Row::from(cells.map(|field| aligned(Cell::new(field.name()), field.data_type())))
    }

    /// Narrows and hides columns so that a line fits `width`, where `of_values` has the widths of the values
    /// alone. Returns the number of columns that remain.
    fn fit(&mut self, width: usize, of_values: &[u16]) -> usize {
        let contents = self.shown.column_max_content_widths();
        let fields = self.schema.fields().iter().enumerate();
        let columns: Vec<ColumnWidth> = fields
            .map(|(at, field)| {
                let content = contents.get(at).copied().map_or(0, usize::from);
                if is_number(field.data_type()) {
                    ColumnWidth::of_numbers(content, of_values.get(at).copied().map_or(0, usize::from))
                } else {
                    ColumnWidth::of_texts(content)
                }
            })
            .collect();
        let widths = fit(&columns, width);
        let is_cut =
            |(at, content): (usize, &u16)| widths.get(at).is_some_and(|w| *w < usize::from(*content));
        if contents.iter().enumerate().any(is_cut) {
            self.cut_rows();
        }
        for (at, column) in self.shown.column_iter_mut().enumerate() {
            column.set_constraint(match widths.get(at) {
                Some(width) => {
                    let width = u16::try_from(width + PADDING).unwrap_or(u16::MAX);
                    ColumnConstraint::Absolute(Width::Fixed(width))
                }
                None => ColumnConstraint::Hidden,
            });
        }
        widths.len()
    }

    /// Has each row take one line, in which values that are too long are cut.
    fn cut_rows(&mut self) {
        self.shown.set_truncation_indicator("…");
        let mut header = self.header();
        header.max_height(1);
        self.shown.set_header(header);
        for row in self.shown.row_iter_mut() {
            row.max_height(1);
        }
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

/// Aligns numbers to the right.
fn aligned(cell: Cell, data_type: &DataType) -> Cell {
    if is_number(data_type) {
        cell.set_alignment(CellAlignment::Right)
    } else {
        cell
    }
}

/// Returns true for types whose values are numbers.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Screen;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    fn printed(style: Style, columns: Vec<(String, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        let mut sink = TableSink::new(batch.schema(), style, &mut out);
        sink.write(&batch).unwrap();
        sink.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    fn on_screen(width: usize, has_colours: bool) -> Style {
        Style {
            screen: Some(Screen { width, has_colours }),
            ..Style::new(crate::output::AnswerFormat::Table, 0)
        }
    }

    #[test]
    fn wide_answers_lose_columns_and_say_how_many() {
        let columns = (0..9).map(|at| {
            let text = StringArray::from(vec!["some text of more than thirty characters"]);
            (format!("column {at}"), Arc::new(text) as ArrayRef)
        });
        let columns: Vec<_> = columns.collect();
        let text = printed(on_screen(62, false), columns.clone());
        assert!(text.contains("4 of 9 columns, 5 hidden"), "{text}");
        assert!(text.contains('…') && !text.contains("column 4"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 62), "{text}");
        let style = Style {
            screen: None,
            ..on_screen(62, false)
        };
        let text = printed(style, columns);
        assert!(text.contains("column 8") && !text.contains("hidden"), "{text}");
    }

    #[test]
    fn missing_values_are_set_off_where_there_are_colours() {
        let columns = || {
            let texts = StringArray::from(vec![Some("NULL"), None]);
            let numbers = Int64Array::from(vec![Some(1), None]);
            vec![
                ("s".to_owned(), Arc::new(texts) as ArrayRef),
                ("n".to_owned(), Arc::new(numbers) as ArrayRef),
            ]
        };
        let text = printed(on_screen(80, true), columns());
        assert_eq!(text.matches("\u{1b}[2m").count(), 2, "{text:?}");
        assert!(!printed(on_screen(80, false), columns()).contains('\u{1b}'));
    }
}
