//! `import`: files become a table.

use std::io::{self, Write};

use halocline_engine::{ImportFormat, ImportOptions, ImportReport, parse_column, parse_schema};
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::{display, grouped};
use halocline_terminal::{CliError, progress};

use crate::args::{FileFormat, ImportArgs};
use crate::opening;

pub(crate) fn import(args: &ImportArgs) -> Result<(), CliError> {
    let options = import_options(args)?;
    if let Some(missing) = args.files.iter().find(|file| !file.exists()) {
        return Err(CliError::failed(format!(
            "there is no file {}",
            missing.display()
        )));
    }
    let opened = opening::open_or_create(&args.pool, &opening::options(&args.open, false))?;
    let guard = Guard::new();
    let bar = progress::bytes(0);
    let result = opened.database.import(
        &args.table,
        &args.files,
        &options,
        &mut |state| {
            bar.set_length(state.total_bytes);
            bar.set_position(state.bytes);
            bar.set_message(format!("{}: {} rows", args.table, grouped(state.rows)));
        },
        guard.requested(),
    );
    bar.finish_and_clear();
    match result {
        Ok(report) => print(&args.table, &report),
        Err(error) => {
            opened.discard_if_empty();
            Err(error.into())
        }
    }
}

fn import_options(args: &ImportArgs) -> Result<ImportOptions, CliError> {
    let schema = match &args.schema {
        None => None,
        Some(text) => Some(parse_schema(text).map_err(|error| {
            CliError::Usage {
                message: format!("--schema: {error}"),
                hint:
                    "write columns as in CREATE TABLE: 'id bigint not null, name text, price decimal(10,2)'"
                        .to_owned(),
            }
        })?),
    };
    let types = args.types.iter().map(|text| {
        parse_column(text).map_err(|error| CliError::Usage {
            message: format!("--type: {error}"),
            hint: "write COLUMN=TYPE with a type of CREATE TABLE: --type zip=varchar".to_owned(),
        })
    });
    let types = types.collect::<Result<_, _>>()?;
    Ok(ImportOptions::default()
        .with_format(match args.format {
            None => ImportFormat::Auto,
            Some(FileFormat::Parquet) => ImportFormat::Parquet,
            Some(FileFormat::Csv) => ImportFormat::Csv,
            Some(FileFormat::Tbl) => ImportFormat::Tbl,
            Some(FileFormat::Arrow) => ImportFormat::Arrow,
        })
        .with_schema(schema)
        .with_types(types)
        .with_header(args.header.or(args.no_header.then_some(false)))
        .with_delimiter(args.delimiter)
        .with_quote(args.quote.unwrap_or_default())
        .with_nulls(args.null.clone())
        .with_append(args.append)
        .with_cluster(args.sort.clone()))
}

/// Columns whose types are printed.
const SHOWN_COLUMNS: usize = 200;

fn print(table: &str, report: &ImportReport) -> Result<(), CliError> {
    let seconds = report.elapsed.as_secs_f64();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "table {table}: {} rows, {} from {} of files, {seconds:.1} s",
        grouped(report.rows),
        display(report.stored_bytes),
        display(report.input_bytes),
    )?;
    for dialect in &report.dialects {
        writeln!(out, "{dialect}")?;
    }
    for column in report.columns.iter().take(SHOWN_COLUMNS) {
        writeln!(out, "  {column}")?;
    }
    if let Some(more @ 1..) = report.columns.len().checked_sub(SHOWN_COLUMNS) {
        writeln!(out, "  and {more} more columns")?;
    }
    Ok(())
}
