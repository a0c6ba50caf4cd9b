//! Answers as bar charts: a column of labels, and one of numbers.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_cast::display::ArrayFormatter;
use arrow_schema::SchemaRef;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table, Width, presets};

use super::table::is_number;
use super::{Style, shown_values};
use crate::CliError;
use crate::size::counted;

/// Width of a chart that is not printed on a terminal.
const DEFAULT_WIDTH: usize = 80;
/// Least width of the longest bar.
const MIN_BAR_WIDTH: usize = 10;
/// Blanks between the parts of a line.
const GAPS: usize = 4;
/// The first one to seven eighths of a character.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Keeps the first rows of an answer, and draws a bar for each.
pub(super) struct ChartSink<W: Write> {
    schema: SchemaRef,
    style: Style,
    bars: Vec<Bar>,
    rows: u64,
    out: W,
}

struct Bar {
    label: String,
    /// The number as it is printed.
    text: String,
    /// The number; `None` for one that is missing, infinite or no number.
    value: Option<f64>,
}

impl<W: Write> ChartSink<W> {
    pub(super) fn new(schema: SchemaRef, style: Style, out: W) -> Self {
        Self {
            schema,
            style,
            bars: Vec::new(),
            rows: 0,
            out,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        let (label, value) = axes(&self.schema)?;
        let wanted = self.style.rows_left(self.rows);
        self.rows += batch.num_rows() as u64;
        let options = shown_values();
        let labels = ArrayFormatter::try_new(batch.column(label).as_ref(), &options)?;
        let values = ArrayFormatter::try_new(batch.column(value).as_ref(), &options)?;
        for row in 0..batch.num_rows().min(wanted) {
            let text = values.value(row).to_string();
            self.bars.push(Bar {
                label: labels.value(row).to_string(),
                value: text.parse().ok().filter(|value: &f64| value.is_finite()),
                text,
            });
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        let (label, value) = axes(&self.schema)?;
        if !self.bars.is_empty() {
            let names = [label, value].map(|at| self.schema.field(at).name().as_str());
            let width = self.style.screen.map_or(DEFAULT_WIDTH, |screen| screen.width);
            for line in draw(&self.bars, names, width).lines() {
                writeln!(self.out, "{}", line.trim_end())?;
            }
        }
        writeln!(self.out, "{}", self.style.row_count(self.rows))?;
        Ok(self.out.flush()?)
    }
}

/// Returns the columns of labels and of numbers. Of two columns of numbers, the first one has the labels.
fn axes(schema: &SchemaRef) -> Result<(usize, usize), CliError> {
    let numbers = schema.fields().iter().map(|field| is_number(field.data_type()));
    match numbers.collect::<Vec<_>>()[..] {
        [_, true] => Ok((0, 1)),
        [true, false] => Ok((1, 0)),
        ref columns => Err(CliError::with_hint(
            format!(
                "a chart needs a column of labels and one of numbers; this answer has {}, {} of numbers",
                counted(columns.len() as u64, "column"),
                columns.iter().filter(|number| **number).count()
            ),
            "select these two columns, or another form of the answer",
        )),
    }
}

/// Draws labels, numbers and bars in lines of `width` characters, below the names of the columns.
fn draw(bars: &[Bar], names: [&str; 2], width: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.force_no_tty();
    table.set_truncation_indicator("…");
    table.set_header(names);
    table.add_rows(bars.iter().map(|bar| [&bar.label, &bar.text]));
    let widths = table.column_max_content_widths();
    let [labels, numbers] = [0, 1].map(|at: usize| widths.get(at).copied().map_or(0, usize::from));
    let labels = labels.min((width / 3).max(MIN_BAR_WIDTH));
    let scale = Scale::new(
        bars,
        width.saturating_sub(labels + numbers + GAPS).max(MIN_BAR_WIDTH),
    );
    for (row, bar) in table.row_iter_mut().zip(bars) {
        row.max_height(1);
        row.add_cell(Cell::new(scale.bar(bar.value)));
    }
    table.discover_columns();
    let wanted = [labels, numbers + 1].into_iter().enumerate();
    for (at, width) in wanted {
        if let Some(column) = table.column_mut(at) {
            column.set_padding(if at == 0 { (0, 1) } else { (0, 0) });
            let padded = width + usize::from(at == 0);
            let padded = u16::try_from(padded).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(padded)));
        }
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The lengths of bars.
struct Scale {
    width: f64,
    /// The least number, 0 if none is negative.
    least: f64,
    /// The distance between the ends of the scale.
    span: f64,
}

impl Scale {
    fn new(bars: &[Bar], width: usize) -> Self {
        let values = || bars.iter().filter_map(|bar| bar.value);
        let least = values().fold(0.0, f64::min);
        Self {
            width: width as f64,
            least,
            span: values().fold(0.0, f64::max) - least,
        }
    }

    /// Returns a bar from 0 to `value`, with blanks before it.
    fn bar(&self, value: Option<f64>) -> String {
        let Some(value) = value.filter(|value| *value != 0.0 && self.span > 0.0) else {
            return String::new();
        };
        let characters = |value: f64| value / self.span * self.width;
        let zero = characters(-self.least).round() as usize;
        let length = characters(value.abs());
        if value < 0.0 {
            let full = (length.round() as usize).min(zero);
            return " ".repeat(zero - full) + &"█".repeat(full);
        }
        let room = (self.width as usize).saturating_sub(zero).max(1);
        let eighths = ((length * 8.0).round().max(1.0) as usize).min(room * 8);
        let mut bar = " ".repeat(zero) + &"█".repeat(eighths / 8);
        bar.extend((eighths % 8).checked_sub(1).map(|part| EIGHTHS[part]));
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn drawn(label: ArrayRef, value: ArrayRef) -> Result<String, CliError> {
        let batch =
            RecordBatch::try_from_iter_with_nullable([("day", label, true), ("n", value, true)]).unwrap();
        let style = Style {
            screen: None,
            ..Style::new(crate::output::AnswerFormat::Chart, 0)
        };
        let mut out = Vec::new();
        let mut sink = ChartSink::new(batch.schema(), style, &mut out);
        sink.write(&batch)?;
        sink.finish()?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn lengths(text: &str) -> Vec<usize> {
        let bars = text.lines().map(|line| line.matches('█').count());
        bars.filter(|length| *length > 0).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let days = Arc::new(StringArray::from(vec!["Monday", "Tuesday", "Friday"]));
        let text = drawn(days, Arc::new(Int64Array::from(vec![Some(10), Some(5), None]))).unwrap();
        let lengths = lengths(&text);
        assert_eq!(lengths.len(), 2, "{text}");
        assert_eq!(lengths[0] / 2, lengths[1], "{text}");
        assert!(text.contains("Friday") && text.contains("NULL"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= DEFAULT_WIDTH),
            "{text}"
        );
    }

    #[test]
    fn negative_numbers_go_to_the_left() {
        let labels = Arc::new(Int64Array::from(vec![1, 2]));
        let text = drawn(labels, Arc::new(Float64Array::from(vec![-1.0, 1.0]))).unwrap();
        let starts: Vec<_> = text.lines().filter_map(|line| line.find('█')).collect();
        assert!(starts[0] < starts[1], "{text}");
        let lengths = lengths(&text);
        assert!(lengths[0].abs_diff(lengths[1]) <= 1, "{text}");
    }

    #[test]
    fn other_answers_are_refused() {
        let texts = || Arc::new(StringArray::from(vec!["a"])) as ArrayRef;
        let report = drawn(texts(), texts()).unwrap_err().report();
        assert!(report.contains("2 columns, 0 of numbers"), "{report}");
    }
}
