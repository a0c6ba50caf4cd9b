//! `check`: is everything in the pool as it should be; `check --repair` (see repair.rs) first makes it so.

use std::io::{self, Write};

use halocline_engine::{Database, DatabaseOptions};
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::{counted, display, grouped};
use halocline_terminal::{CliError, progress};

use super::{kv, repair};
use crate::args::CheckArgs;
use crate::opening;

pub(crate) fn check(args: &CheckArgs) -> Result<(), CliError> {
    if args.repair {
        repair::repair(args)?;
        if args.dry_run {
            return Ok(());
        }
    }
    let options = DatabaseOptions::default().with_read_only(true);
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
    let mut trees = kv::check_all(&args.pool, |name| bar.set_message(format!("tree {name}")))?;
    let guard = Guard::new();
    kv::check_stores(&args.pool, guard.requested(), &mut trees, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        bar.set_message("stores");
    })?;
    bar.set_message("memcached items");
    kv::check_memcached(&args.pool, guard.requested(), &mut trees)?;
    bar.finish_and_clear();
    report.problems.extend(trees.problems);
    let mut out = io::stdout();
    for skipped in &trees.skipped {
        writeln!(out, "not checked: {skipped}")?;
    }
    for problem in &report.problems {
        writeln!(out, "damaged: {problem}")?;
    }
    let items = match trees.items {
        0 => String::new(),
        items => format!(", {} in trees", counted(items, "memcached item")),
    };
    let indexes = match report.indexes {
        1 => "1 index".to_owned(),
        indexes => format!("{} indexes", grouped(indexes as u64)),
    };
    let verified = format!(
        "{} of checksums verified, {}, {indexes}, {}, {}{items}",
        display(report.bytes),
        counted(report.tables as u64, "table"),
        counted(trees.trees as u64, "tree"),
        counted(trees.stores, "store")
    );
    if report.problems.is_empty() && !trees.skipped.is_empty() {
        let count = trees.skipped.len();
        let things = if count == 1 { "object was" } else { "objects were" };
        return Err(CliError::with_hint(
            format!(
                "{}: no damage found, but {count} {things} not checked; {verified}",
                args.pool.display()
            ),
            "check again when nobody else has them open",
        ));
    }
    if report.problems.is_empty() {
        writeln!(out, "{}: no damage found; {verified}", args.pool.display())?;
        return Ok(());
    }
    let count = report.problems.len();
    let things = if count == 1 { "thing is" } else { "things are" };
    Err(CliError::with_hint(
        format!("{}: {count} {things} damaged; {verified}", args.pool.display()),
        format!(
            "`halocline check {0} --repair --dry-run` says what can be repaired and what that loses; `halocline drop {0} NAME` \
             drops a damaged table or index; of a damaged tree the other nodes can be read",
            args.pool.display()
        ),
    ))
}

/// Adds a hint to `--repair` to an error that has no hint. A pool that does not open may open after a repair.
fn suggest_repair(error: CliError, args: &CheckArgs) -> CliError {
    match error {
        CliError::Failed { message, hint: None } if !args.repair => CliError::with_hint(
            message,
            format!(
                "`halocline check {} --repair --dry-run` says what a repair would do and lose",
                args.pool.display()
            ),
        ),
        other => other,
    }
}
