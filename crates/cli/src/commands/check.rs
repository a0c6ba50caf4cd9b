//! `check`: is everything in the pool as it should be.

use std::io::{self, Write};

use halocline_engine::{Database, DatabaseOptions};
use halocline_pool::Pool;

use super::kv;
use crate::args::CheckArgs;
use crate::error::CliError;
use crate::size::display;
use crate::{opening, progress};

pub(crate) fn check(args: &CheckArgs) -> Result<(), CliError> {
    if args.repair {
        repair(args)?;
    }
    let options = DatabaseOptions {
        read_only: true,
        ..DatabaseOptions::default()
    };
    let database = opening::open(&args.pool, &options).map_err(|error| suggest_repair(error, args))?;
    report(&database, args)
}

fn report(database: &Database, args: &CheckArgs) -> Result<(), CliError> {
    let bar = progress::steps(0);
    let mut report = database.check(&mut |state| {
        bar.set_length(state.total);
        bar.set_position(state.done);
        bar.set_message(state.part.to_owned());
    })?;
    let trees = kv::check_all(&args.pool, |name| bar.set_message(format!("tree {name}")))?;
    bar.finish_and_clear();
    report.problems.extend(trees.problems);
    let mut out = io::stdout();
    for skipped in &trees.skipped {
        writeln!(out, "not checked: {skipped}")?;
    }
    for problem in &report.problems {
        writeln!(out, "damaged: {problem}")?;
    }
    let verified = format!(
        "{} of checksums verified, {} tables, {} indexes, {} trees",
        display(report.bytes),
        report.tables,
        report.indexes,
        trees.trees
    );
    if report.problems.is_empty() {
        writeln!(out, "{}: no damage found; {verified}", args.pool.display())?;
        return Ok(());
    }
    let count = report.problems.len();
    let things = if count == 1 { "thing is" } else { "things are" };
    Err(CliError::with_hint(
        format!("{}: {count} {things} damaged; {verified}", args.pool.display()),
        "drop the tables and indexes named above and import them again; a damaged index can simply be built anew, of a \
         damaged tree the other nodes can be read",
    ))
}

fn repair(args: &CheckArgs) -> Result<(), CliError> {
    if !args.pool.exists() {
        return Err(CliError::failed(format!(
            "there is no pool {}",
            args.pool.display()
        )));
    }
    let bar = progress::bytes(0);
    let report = Pool::repair(&args.pool, |state| {
        bar.set_length(state.total);
        bar.set_position(state.done);
    })
    .map_err(|error| CliError::failed(error.to_string()))?;
    bar.finish_and_clear();
    let mut out = io::stdout();
    for problem in &report.problems {
        writeln!(out, "given up: {problem}")?;
    }
    if report.lost_changes() {
        writeln!(
            out,
            "went back from generation {} to {}, the newest whole one",
            report.newest, report.kept
        )?;
    } else {
        writeln!(
            out,
            "generation {} is whole; nothing had to be given up",
            report.kept
        )?;
    }
    Ok(())
}

/// A pool that does not open may open after a repair.
fn suggest_repair(error: CliError, args: &CheckArgs) -> CliError {
    match error {
        CliError::Failed { message, hint: None } if !args.repair => CliError::with_hint(
            message,
            format!(
                "`halocline check {} --repair` goes back to the newest whole state",
                args.pool.display()
            ),
        ),
        other => other,
    }
}
