//! `check --repair`: gives up as little as possible, object by object, and says before what that is.
//!
//! First the pool itself: superblocks, directory, logs. Then the objects: a damaged index is built anew from
//! its table. A damaged table is left as it is, for its owner to read what is intact and to drop it. Whatever
//! gives up acknowledged changes is asked for first, and the state before is saved.

use std::fs;
use std::io::{self, IsTerminal, Write};

use halocline_engine::{DamagedKind, DamagedObject, Database, DatabaseOptions};
use halocline_pool::{Pool, RepairPlan, saved_state_path};
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, progress};

use crate::args::CheckArgs;
use crate::opening;

pub(super) fn repair(args: &CheckArgs) -> Result<(), CliError> {
    if !args.pool.exists() {
        return Err(CliError::failed(format!(
            "there is no pool {}",
            args.pool.display()
        )));
    }
    let bar = progress::bytes(0);
    let plan = Pool::plan_repair(&args.pool, |state| {
        bar.set_length(state.total);
        bar.set_position(state.done);
    })
    .map_err(|error| CliError::failed(error.to_string()))?;
    bar.finish_and_clear();
    announce(&plan)?;
    if args.dry_run {
        return announce_objects(&plan, args);
    }
    if plan.loses_changes() {
        confirm(args)?;
    }
    save(&plan, args)?;
    let report = plan
        .apply()
        .map_err(|error| CliError::failed(error.to_string()))?;
    let mut out = io::stdout();
    if report.lost_changes() {
        writeln!(
            out,
            "went back from generation {} to {}",
            report.newest, report.kept
        )?;
    }
    if !report.logs.is_empty() {
        writeln!(out, "kept what the log held before the damage")?;
    }
    objects(args)
}

/// Says what of the pool itself would be given up.
fn announce(plan: &RepairPlan) -> Result<(), CliError> {
    let (report, mut out) = (plan.report(), io::stdout());
    for problem in &report.problems {
        writeln!(out, "given up: {problem}")?;
    }
    for problem in &report.logs {
        writeln!(out, "damaged: {problem}")?;
    }
    if report.lost_changes() {
        writeln!(
            out,
            "generation {} cannot be kept; the newest that can is {}: all that was published since is lost",
            report.newest, report.kept
        )?
    } else {
        writeln!(
            out,
            "generation {} is kept; nothing that was published is given up",
            report.kept
        )?
    }
    Ok(())
}

/// Asks before acknowledged changes are given up.
fn confirm(args: &CheckArgs) -> Result<(), CliError> {
    if args.yes {
        return Ok(());
    }
    let refused = |message: &str| {
        CliError::with_hint(
            format!("{}: {message}; nothing was changed", args.pool.display()),
            "--yes gives up what is named above, --backup FILE keeps a copy of the whole pool",
        )
    };
    if !io::stdin().is_terminal() {
        return Err(refused("the repair would give up acknowledged changes"));
    }
    write!(io::stderr(), "give up what is named above? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(refused("not repaired")),
    }
}

/// Keeps what the repair is about to change.
fn save(plan: &RepairPlan, args: &CheckArgs) -> Result<(), CliError> {
    let mut out = io::stdout();
    if let Some(backup) = &args.backup {
        if backup.exists() {
            return Err(CliError::failed(format!(
                "{} exists and is not overwritten; give another file for the backup",
                backup.display()
            )));
        }
        fs::copy(&args.pool, backup).map_err(|error| {
            CliError::failed(format!("cannot copy the pool to {}: {error}", backup.display()))
        })?;
        writeln!(out, "copied the pool to {}", backup.display())?;
    } else if plan.loses_changes() || !plan.report().logs.is_empty() {
        let saved = saved_state_path(&args.pool);
        plan.save_state(&saved)
            .map_err(|error| CliError::failed(error.to_string()))?;
        writeln!(
            out,
            "saved superblocks, directories and logs as they were to {}",
            saved.display()
        )?;
    }
    Ok(())
}

/// Checks a pool, as far as it can be opened, and returns its damaged objects.
fn damaged(database: &Database) -> Result<Vec<DamagedObject>, CliError> {
    let bar = progress::steps(0);
    let report = database.check(&mut |state| {
        bar.set_length(state.total);
        bar.set_position(state.done);
        bar.set_message(state.part.to_owned());
    })?;
    bar.finish_and_clear();
    Ok(report.damaged)
}

/// Says what of the objects would be repaired.
///
/// # Errors
/// There is damage, to them or to the pool itself.
fn announce_objects(plan: &RepairPlan, args: &CheckArgs) -> Result<(), CliError> {
    let options = DatabaseOptions::default().with_read_only(true);
    let mut out = io::stdout();
    let Ok(database) = opening::open(&args.pool, &options) else {
        writeln!(
            out,
            "its objects can be looked at when the pool itself is repaired"
        )?;
        return Err(found_damage(args));
    };
    let objects = damaged(&database)?;
    for object in &objects {
        match object.kind {
            DamagedKind::Index => writeln!(
                out,
                "index {} is damaged: it would be built anew; nothing is lost",
                object.name
            )?,
            DamagedKind::Table => writeln!(out, "{}", table_text(object, args))?,
            DamagedKind::Log => {}
        }
    }
    let report = plan.report();
    let problems = [&report.problems, &report.objects, &report.logs];
    if objects.is_empty() && !report.lost_changes() && problems.iter().all(|problems| problems.is_empty()) {
        return Ok(());
    }
    Err(found_damage(args))
}

fn found_damage(args: &CheckArgs) -> CliError {
    let pool = args.pool.display();
    CliError::with_hint(
        format!("{pool}: damage was found; nothing was changed"),
        format!("`halocline check {pool} --repair` does what is said above"),
    )
}

/// Builds damaged indexes anew, and says what to do about damaged tables.
fn objects(args: &CheckArgs) -> Result<(), CliError> {
    let database = opening::open(&args.pool, &DatabaseOptions::default())?;
    let mut out = io::stdout();
    for object in damaged(&database)? {
        match object.kind {
            DamagedKind::Index => match database.rebuild_index(&object.name) {
                Ok(()) => writeln!(out, "built index {} anew; nothing is lost", object.name)?,
                Err(error) => writeln!(out, "cannot build index {} anew: {error}", object.name)?,
            },
            DamagedKind::Table => writeln!(out, "{}", table_text(&object, args))?,
            DamagedKind::Log => {}
        }
    }
    Ok(())
}

fn table_text(object: &DamagedObject, args: &CheckArgs) -> String {
    let rows = object
        .rows
        .map_or_else(String::new, |rows| format!(" of {} rows", grouped(rows)));
    format!(
        "table {name}{rows} is damaged and left as it is: {reason}; `halocline drop {pool} {name}` drops it with all its rows",
        name = object.name,
        reason = object.reason,
        pool = args.pool.display()
    )
}
