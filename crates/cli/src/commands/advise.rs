//! `advise`: which placement an index should have.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use comfy_table::CellAlignment;
use halocline_engine::{Advised, Database, DatabaseOptions, IndexAdvice};

use crate::args::{AdviseArgs, OutputFormat};
use crate::error::CliError;
use crate::output::{Sink, Style, plain_table};
use crate::size::display;
use crate::{opening, progress, sql};

pub(crate) fn advise(args: &AdviseArgs) -> Result<(), CliError> {
    let options = DatabaseOptions::default().with_read_only(true);
    let database = opening::open(&args.pool, &options)?;
    let queries = queries(&database, args)?;
    let spinner = progress::spinner(&format!("trying out placements of {}", args.index));
    let asked = database.advise(&args.index, &queries, args.dram, args.medium.as_deref());
    let advice = sql::runtime()?.block_on(asked);
    spinner.finish_and_clear();
    let advice = advice?;
    match args.output {
        OutputFormat::Table => table(&advice, &mut io::stdout()),
        format => {
            rows(&advice, format)?;
            // What a program reads from stdout is rows only.
            explain(&advice, &mut io::stderr())
        }
    }
}

fn queries(database: &Database, args: &AdviseArgs) -> Result<Vec<String>, CliError> {
    let Some(file) = &args.queries else {
        return Ok(vec![]);
    };
    let shown = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| CliError::failed(format!("{shown} cannot be read: {error}")))?;
    let queries = database
        .split(&text)
        .map_err(|error| CliError::failed(format!("{shown}: {error}")))?;
    match queries.is_empty() {
        true => Err(CliError::with_hint(
            format!("there is no query in {shown}"),
            "write SELECT statements into it, separated by semicolons",
        )),
        false => Ok(queries),
    }
}

fn table(advice: &IndexAdvice, out: &mut impl Write) -> Result<(), CliError> {
    let mut table = plain_table(8);
    table.set_header(["", "placement", "DRAM", "lines", "units", "waits", "time", "note"]);
    for column in table.column_iter_mut().skip(2).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (at, row) in advice.advice.rows.iter().enumerate() {
        let possible = |text: String| if row.time.is_some() { text } else { "-".to_owned() };
        table.add_row([
            if at == advice.advice.pick { "*" } else { "" }.to_owned(),
            row.placement.to_string(),
            possible(display(row.dram_bytes)),
            possible(format!("{:.1}", row.lines)),
            possible(format!("{:.1}", row.units)),
            possible(time(row.stall)),
            row.time.map_or_else(|| "-".to_owned(), time),
            row.note.clone().unwrap_or_default(),
        ]);
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "of a query: lines and units of the slow tier, how long it waits for them, and all it takes (predicted)"
    )?;
    explain(advice, out)
}

fn explain(advice: &IndexAdvice, out: &mut impl Write) -> Result<(), CliError> {
    let IndexAdvice {
        advice: predicted,
        source,
        medium,
        statement,
        ..
    } = advice;
    writeln!(out, "medium   {medium}")?;
    writeln!(out, "queries  {source} ({} tried)", predicted.queries)?;
    writeln!(
        out,
        "pick     {}: {}",
        predicted.picked().placement,
        predicted.reason
    )?;
    Ok(writeln!(out, "apply    {statement};")?)
}

/// The table for programs.
fn rows(advice: &IndexAdvice, format: OutputFormat) -> Result<(), CliError> {
    let predicted = &advice.advice;
    let float = |of: fn(&Advised) -> Option<f64>| -> ArrayRef {
        Arc::new(Float64Array::from_iter(predicted.rows.iter().map(of)))
    };
    let text = |of: fn(&Advised) -> Option<String>| -> ArrayRef {
        Arc::new(StringArray::from_iter(predicted.rows.iter().map(of)))
    };
    let picked = (0..predicted.rows.len()).map(|at| Some(at == predicted.pick));
    let dram = predicted
        .rows
        .iter()
        .map(|row| row.time.is_some().then_some(row.dram_bytes));
    let columns: Vec<(&str, DataType, ArrayRef)> = vec![
        (
            "placement",
            DataType::Utf8,
            text(|row| Some(row.placement.to_string())),
        ),
        (
            "picked",
            DataType::Boolean,
            Arc::new(BooleanArray::from_iter(picked)),
        ),
        (
            "dram_bytes",
            DataType::UInt64,
            Arc::new(UInt64Array::from_iter(dram)),
        ),
        (
            "lines",
            DataType::Float64,
            float(|row| row.time.map(|_| row.lines)),
        ),
        (
            "units",
            DataType::Float64,
            float(|row| row.time.map(|_| row.units)),
        ),
        (
            "wait_ns",
            DataType::Float64,
            float(|row| row.time.map(|_| row.stall * 1e9)),
        ),
        (
            "time_ns",
            DataType::Float64,
            float(|row| row.time.map(|time| time * 1e9)),
        ),
        ("note", DataType::Utf8, text(|row| row.note.clone())),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, kind, _)| Field::new(*name, kind.clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let columns = columns.into_iter().map(|(_, _, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let style = Style { format, max_rows: 0 };
    let mut sink = Sink::new(style, schema, BufWriter::new(io::stdout()));
    sink.write(&batch)?;
    sink.finish()
}

/// Seconds as people read them.
fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.2} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        for (seconds, text) in [
            (0.0, "0"),
            (3e-7, "300 ns"),
            (1.5e-6, "1.50 us"),
            (0.25, "250.00 ms"),
            (2.0, "2.00 s"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
