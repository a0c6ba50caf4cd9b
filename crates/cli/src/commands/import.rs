//! `import`: files become a table.

use std::io::{self, Write};

use halocline_engine::{Format, ImportOptions, ImportReport};

use crate::args::{FileFormat, ImportArgs};
use crate::error::CliError;
use crate::interrupt::Guard;
use crate::size::{display, grouped};
use crate::{opening, progress};

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
        Some(text) => Some(ImportOptions::parse_schema(text).map_err(|error| {
            CliError::Usage {
                message: format!("--schema: {error}"),
                hint:
                    "write columns as in CREATE TABLE: 'id bigint not null, name text, price decimal(10,2)'"
                        .to_owned(),
            }
        })?),
    };
    Ok(ImportOptions {
        format: match args.format {
            None => Format::Auto,
            Some(FileFormat::Parquet) => Format::Parquet,
            Some(FileFormat::Csv) => Format::Csv,
            Some(FileFormat::Tbl) => Format::Tbl,
            Some(FileFormat::Arrow) => Format::Arrow,
        },
        schema,
        has_header: !args.no_header,
        delimiter: args.delimiter,
        null: args.null.clone(),
        append: args.append,
        cluster: args.sort.clone(),
        ..ImportOptions::default()
    })
}

fn print(table: &str, report: &ImportReport) -> Result<(), CliError> {
    let seconds = report.elapsed.as_secs_f64();
    writeln!(
        io::stdout(),
        "table {table}: {} rows, {} from {} of files, {seconds:.1} s",
        grouped(report.rows),
        display(report.stored_bytes),
        display(report.input_bytes),
    )?;
    Ok(())
}
