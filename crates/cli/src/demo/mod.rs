//! `demo`: what the engine does, shown on generated data. Every figure printed is measured in the same run,
//! and systems whose times are compared must give the same answers.
//!
//! One file per step; [`run`] has them in order.

mod crash;
mod load;
mod restart;
mod selections;
mod slow_tier;
mod star;
mod summary;
mod systems;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table};
use halocline_engine::Database;
use halocline_measure::machine;
use halocline_terminal::output::plain_table;
use halocline_terminal::{CliError, interrupt};

use crate::args::DemoArgs;
use crate::opening;

pub(crate) use crash::append_forever;
use summary::DemoFigures;

const PARQUET: &str = "lineitem.parquet";
const POOL: &str = "demo.pool";

/// The selection, by its place, that is asked again after the restart: one row in ten thousand.
const REPEATED: usize = 2;

/// Runs the demo, in a directory of its own or in the given one.
pub(crate) fn demo(args: &DemoArgs) -> Result<(), CliError> {
    match &args.dir {
        Some(directory) => {
            fs::create_dir_all(directory)?;
            run(args, directory)?;
            let pool = directory.join(POOL);
            writeln!(io::stdout(), "\nGo on with: halocline sql {}", pool.display())?;
        }
        None => {
            let directory = tempfile::Builder::new().prefix("halocline-demo-").tempdir()?;
            interrupt::remove_on_exit(directory.path());
            run(args, directory.path())?;
            writeln!(
                io::stdout(),
                "\n--dir DIR keeps the files, so that you can go on with `halocline sql`."
            )?;
        }
    }
    Ok(())
}

fn run(args: &DemoArgs, directory: &Path) -> Result<(), CliError> {
    let start = Instant::now();
    let mut out = io::stdout();
    let file = directory.join(PARQUET);
    let pool = directory.join(POOL);
    if pool.exists() {
        return Err(CliError::with_hint(
            format!("{} exists already", pool.display()),
            "choose another --dir, or remove that file",
        ));
    }
    let options = opening::options(&args.open, false);
    let database = Database::create(&pool, &options)?;
    interrupt::exit_when_late();
    let threads = args
        .open
        .threads
        .map_or_else(machine::cpus, |threads| threads as usize);
    writeln!(
        out,
        "Everything below is measured in this run, with {threads} threads. Medium: {}.",
        database.info()?.pool.medium
    )?;
    let loaded = load::run(args, &file, &database, &mut out)?;
    let selections = selections::run(args, loaded.rows, &file, &database, &mut out)?;
    let stars = star::run(args, directory, &database, &mut out)?;
    // Writers in other processes need the pool.
    drop(database);
    let open_ms = restart::run(&pool, &selections[REPEATED], &mut out)?;
    let crash = crash::run(&pool, &options, &mut out)?;
    let tiers = slow_tier::run(&pool, &options, loaded.index_bytes, &selections, &mut out)?;
    let measured = DemoFigures {
        rows: loaded.rows,
        selections,
        stars,
        open_ms,
        crash,
        tiers,
    };
    writeln!(out, "\n7. {}", measured.sentence())?;
    writeln!(out, "   The demo took {}.", seconds(start.elapsed()))?;
    Ok(())
}

/// Returns a table with a header, whose columns but the first are aligned to the right.
fn aligned_table(header: &[&str]) -> Table {
    let mut table = plain_table(header.len());
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Writes a ratio with two or more digits.
fn times(ratio: f64) -> String {
    match ratio {
        10.0.. => format!("{ratio:.0}"),
        2.0..10.0 => format!("{ratio:.1}"),
        _ => format!("{ratio:.2}"),
    }
}

/// Writes a share of rows as `7.2e-7`.
fn selectivity(share: f64) -> String {
    match share {
        0.0 => "0".to_owned(),
        _ => format!("{share:.1e}"),
    }
}

/// Writes a time as `8.1 s`.
fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
