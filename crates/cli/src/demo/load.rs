//! Step 1: generates lineitem, imports it, and builds an index over four of its columns.

use std::fs;
use std::io::{Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use halocline_engine::{Database, ImportOptions, ImportReport, IndexInfo, IndexSpec};
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::{display, grouped};
use halocline_terminal::{CliError, program, progress};

use super::{aligned_table, seconds};
use crate::args::DemoArgs;

/// The name of the index.
pub(crate) const INDEX: &str = "lineitem_elf";

const COLUMNS: [&str; 4] = ["l_discount", "l_quantity", "l_shipdate", "l_partkey"];

/// The table and its index.
pub(crate) struct LoadedTable {
    pub(crate) rows: u64,
    /// Bytes of the index in the pool.
    pub(crate) index_bytes: u64,
}

/// Makes the Parquet file, the table and the index, and prints rates and sizes.
pub(crate) fn run(
    args: &DemoArgs,
    file: &Path,
    database: &Database,
    out: &mut Stdout,
) -> Result<LoadedTable, CliError> {
    let start = Instant::now();
    let rows = generate(args.sf, file)?;
    let generating = start.elapsed();
    let imported = import(database, "lineitem", file)?;
    if imported.rows != rows {
        return Err(CliError::failed(format!(
            "{rows} rows were generated, but {} imported",
            imported.rows
        )));
    }
    let start = Instant::now();
    let index = build_index(database)?;
    let building = start.elapsed();
    writeln!(
        out,
        "\n1. TPC-H lineitem at scale factor {}: {} rows; an Elf over {}",
        args.sf,
        grouped(rows),
        index.columns.join(", ")
    )?;
    let mut table = aligned_table(&["step", "time", "rows/s", "size"]);
    for (step, time, bytes) in [
        ("generate Parquet", generating, fs::metadata(file)?.len()),
        ("import into the pool", imported.elapsed, imported.stored_bytes),
        ("build the index", building, index.bytes),
    ] {
        table.add_row([
            step.to_owned(),
            seconds(time),
            grouped((rows as f64 / time.as_secs_f64()) as u64),
            display(bytes),
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(LoadedTable {
        rows,
        index_bytes: index.bytes,
    })
}

/// Writes the file in a process of its own, so that the generator's memory is not part of this process.
fn generate(scale_factor: f64, file: &Path) -> Result<u64, CliError> {
    let output = Command::new(program::current()?)
        .args(["internal", "generate", &scale_factor.to_string()])
        .arg(file)
        .stderr(Stdio::inherit())
        .output()?;
    let rows = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    rows.filter(|_| output.status.success())
        .ok_or_else(|| CliError::failed(format!("{} could not be generated", file.display())))
}

/// Imports a Parquet file as a new table.
pub(crate) fn import(database: &Database, table: &str, file: &Path) -> Result<ImportReport, CliError> {
    let guard = Guard::new();
    let bar = progress::bytes(0);
    bar.set_message(format!("importing {table}"));
    let files: [PathBuf; 1] = [file.to_owned()];
    let report = database.import(
        table,
        &files,
        &ImportOptions::default(),
        &mut |state| {
            bar.set_length(state.total_bytes);
            bar.set_position(state.bytes);
        },
        guard.requested(),
    );
    bar.finish_and_clear();
    let report = report?;
    guard.end()?;
    Ok(report)
}

fn build_index(database: &Database) -> Result<IndexInfo, CliError> {
    let spinner = progress::spinner("building the index");
    let index = database.create_index(&IndexSpec::new(INDEX, "lineitem", COLUMNS));
    spinner.finish_and_clear();
    Ok(index?)
}
