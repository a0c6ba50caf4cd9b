//! Entries and numbers of a tree on stdout.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use halocline_ordered::TreeStats;
use halocline_terminal::CliError;
use halocline_terminal::output::{Sink, Style};
use halocline_terminal::size::{display, grouped};

use crate::args::OutputFormat;

/// Entries that are printed together.
const BATCH: usize = 8192;

/// Prints entries as they come.
pub(super) struct EntryPrinter {
    sink: Sink<BufWriter<Stdout>>,
    schema: SchemaRef,
    keys: Vec<u64>,
    values: Vec<u64>,
}

impl EntryPrinter {
    pub(super) fn new(style: Style) -> Self {
        let schema = schema(&["key", "value"]);
        Self {
            sink: Sink::new(style, Arc::clone(&schema), BufWriter::new(io::stdout())),
            schema,
            keys: vec![],
            values: vec![],
        }
    }

    pub(super) fn push(&mut self, key: u64, value: u64) -> Result<(), CliError> {
        self.keys.push(key);
        self.values.push(value);
        if self.keys.len() < BATCH {
            Ok(())
        } else {
            self.print()
        }
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        if !self.keys.is_empty() {
            self.print()?;
        }
        self.sink.finish()
    }

    fn print(&mut self) -> Result<(), CliError> {
        let columns = [std::mem::take(&mut self.keys), std::mem::take(&mut self.values)];
        self.sink.write(&batch(&self.schema, columns)?)
    }
}

pub(super) fn stats(stats: &TreeStats, format: OutputFormat) -> Result<(), CliError> {
    if format == OutputFormat::Table {
        let each = match stats.entries {
            0 => String::new(),
            entries => format!(", {:.1} bytes an entry", stats.slow_bytes as f64 / entries as f64),
        };
        return Ok(writeln!(
            io::stdout(),
            "entries  {}\nnodes    {} leaves, {} inner nodes on {} levels\npool     {}{each}\nDRAM     {}",
            grouped(stats.entries),
            grouped(stats.leaves),
            grouped(stats.inner_nodes),
            stats.height,
            display(stats.slow_bytes),
            display(stats.dram_bytes)
        )?);
    }
    let all = [
        ("entries", stats.entries),
        ("leaves", stats.leaves),
        ("inner_nodes", stats.inner_nodes),
        ("height", u64::from(stats.height)),
        ("slow_bytes", stats.slow_bytes),
        ("dram_bytes", stats.dram_bytes),
    ];
    numbers(&all, format)
}

/// Prints numbers with their names: a line each for people, else one row.
pub(super) fn numbers(numbers: &[(&str, u64)], format: OutputFormat) -> Result<(), CliError> {
    if format == OutputFormat::Table {
        let width = numbers.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, number) in numbers {
            writeln!(
                io::stdout(),
                "{:width$}  {}",
                name.replace('_', " "),
                grouped(*number)
            )?;
        }
        return Ok(());
    }
    let names: Vec<_> = numbers.iter().map(|(name, _)| *name).collect();
    let schema = schema(&names);
    let mut sink = Sink::new(
        Style::new(format, 0),
        Arc::clone(&schema),
        BufWriter::new(io::stdout()),
    );
    sink.write(&batch(&schema, numbers.iter().map(|(_, number)| vec![*number]))?)?;
    sink.finish()
}

fn schema(names: &[&str]) -> SchemaRef {
    let fields = names
        .iter()
        .map(|name| Field::new(*name, DataType::UInt64, false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn batch(schema: &SchemaRef, columns: impl IntoIterator<Item = Vec<u64>>) -> Result<RecordBatch, CliError> {
    let columns = columns.into_iter();
    let columns = columns.map(|column| Arc::new(UInt64Array::from(column)) as ArrayRef);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}
