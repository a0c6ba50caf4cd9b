//! `compact` and `vacuum`: fewer segments, fewer bytes.

use std::io::{self, Write};

use halocline_engine::{CompactOptions, CompactReport, Database, EngineError};
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::{counted, display};
use halocline_terminal::{CliError, progress};

use crate::args::{CompactArgs, VacuumArgs};
use crate::{opening, sql};

pub(crate) fn compact(args: &CompactArgs) -> Result<(), CliError> {
    let database = opening::open(&args.pool, &opening::options(&args.open, false))?;
    let options = CompactOptions::default()
        .with_bandwidth(args.bandwidth)
        .with_full(args.full);
    let report = run(&database, args.table.as_deref(), &options)?;
    print(&report)?;
    match report.skipped.len() {
        skipped if args.full && skipped > 0 => Err(CliError::with_hint(
            format!(
                "{} left as they are, which are damaged",
                counted(skipped as u64, "table")
            ),
            format!("`halocline check {}` shows the damage", args.pool.display()),
        )),
        _ => Ok(()),
    }
}

pub(crate) fn vacuum(args: &VacuumArgs) -> Result<(), CliError> {
    let database = opening::open(&args.pool, &opening::options(&args.open, false))?;
    let before = database.info()?.pool.allocated_bytes;
    match run(&database, None, &CompactOptions::default()) {
        // `VACUUM` merges those of other tables, and gives space back.
        Err(error) if error.is_full() => {
            writeln!(
                io::stdout(),
                "segments are left that could not be merged: {error}"
            )?;
        }
        report => print(&report?)?,
    }
    let spinner = progress::spinner("giving space back");
    let said = sql::runtime()?.block_on(async { database.sql("VACUUM").await.map(drop) });
    spinner.finish_and_clear();
    said?;
    let after = database.info()?.pool.allocated_bytes;
    Ok(writeln!(
        io::stdout(),
        "{}: {} allocated in the file system, {} before",
        args.pool.display(),
        display(after),
        display(before)
    )?)
}

/// Compacts a table, or all, with a bar; Ctrl-C ends it.
fn run(
    database: &Database,
    table: Option<&str>,
    options: &CompactOptions,
) -> Result<CompactReport, EngineError> {
    let guard = Guard::new();
    let bar = progress::steps(0);
    let report = database.compact(
        table,
        options,
        &mut |state| {
            bar.set_length(state.total);
            bar.set_position(state.done);
            bar.set_message(format!("compacting {}", state.table));
        },
        guard.requested(),
    );
    bar.finish_and_clear();
    report
}

fn print(report: &CompactReport) -> Result<(), CliError> {
    let mut out = io::stdout();
    for skipped in &report.skipped {
        writeln!(out, "left as it is: {skipped}")?;
    }
    if report.merged == 0 {
        return Ok(writeln!(out, "there was nothing worth merging")?);
    }
    Ok(writeln!(
        out,
        "merged {} into {}: {}, {} dropped, {} written",
        counted(report.merged as u64, "segment"),
        report.segments,
        counted(report.rows, "row"),
        counted(report.dropped, "deleted row"),
        display(report.bytes)
    )?)
}
