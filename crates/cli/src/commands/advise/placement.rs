//! `advise` with an index: which placement it should have.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use comfy_table::CellAlignment;
use halocline_engine::{Advised, Database, IndexAdvice};
use halocline_terminal::output::{Sink, Style, plain_table};
use halocline_terminal::size::display;
use halocline_terminal::{CliError, progress};

use super::{no_query, read, time};
use crate::args::{AdviseArgs, OutputFormat};
use crate::sql;

pub(super) fn advise(database: &Database, args: &AdviseArgs, index: &str, dram: u64) -> Result<(), CliError> {
    let queries = queries(database, args)?;
    let spinner = progress::spinner(&format!("trying out placements of {index}"));
    let asked = database.advise(index, &queries, dram, args.medium.as_deref());
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
    let queries = database
        .split(&read(file)?)
        .map_err(|error| CliError::failed(format!("{}: {error}", file.display())))?;
    if queries.is_empty() {
        Err(no_query(file))
    } else {
        Ok(queries)
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

/// Writes the predictions to stdout, one row per placement, in a format for programs.
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
    let style = Style::new(format, 0);
    let mut sink = Sink::new(style, schema, BufWriter::new(io::stdout()));
    sink.write(&batch)?;
    sink.finish()
}
