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
mod systems;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table};
use halocline_engine::Database;
use halocline_measure::machine;
use halocline_terminal::output::plain_table;
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, interrupt};

use crate::args::DemoArgs;
use crate::opening;

pub(crate) use crash::append_forever;
use selections::MeasuredSelection;

const PARQUET: &str = "lineitem.parquet";
const POOL: &str = "demo.pool";

/// The selection, by its place, that is asked again after the restart and named at the end: one row in ten
/// thousand.
const REPEATED: usize = 2;

/// Runs the demo, in a directory of its own or in the given one.
pub(crate) fn demo(args: &DemoArgs) -> Result<(), CliError> {
    match &args.dir {
        Some(directory) => {
            fs::create_dir_all(directory)?;
            run(args, directory)?;
            let pool = directory.join(POOL);
            writeln!(io::stdout(), "\nGo on with `halocline sql {}`.", pool.display())?;
        }
        None => {
            let directory = tempfile::Builder::new().prefix("halocline-demo-").tempdir()?;
            interrupt::remove_on_exit(directory.path());
            run(args, directory.path())?;
            writeln!(
                io::stdout(),
                "\nTo go on with `halocline sql DIR/{POOL}`, run the demo with --dir DIR, which keeps its files."
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
    star::run(args, directory, &database, &mut out)?;
    // Writers in other processes need the pool.
    drop(database);
    restart::run(&pool, &selections[REPEATED], &mut out)?;
    crash::run(&pool, &options, &mut out)?;
    slow_tier::run(&pool, &loaded, &mut out)?;
    writeln!(out, "\n7. {}", conclusion(loaded.rows, &selections[REPEATED]))?;
    writeln!(out, "   The demo took {}.", seconds(start.elapsed()))?;
    Ok(())
}

/// Returns the sentence of the last step.
fn conclusion(rows: u64, selection: &MeasuredSelection) -> String {
    format!(
        "In this run, DataFusion over Parquet took {} times as long as the index to select {} of {} rows.",
        times(selection.datafusion_ms / selection.index_ms),
        grouped(selection.rows),
        grouped(rows)
    )
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

#[cfg(test)]
mod tests {
    use super::selections::DemoSelection;
    use super::*;

    #[test]
    fn the_conclusion_is_one_sentence_for_every_outcome() {
        let slower = MeasuredSelection {
            selection: DemoSelection::new(1, 1, 1),
            answer: vec![],
            rows: 1820,
            share: 1e-4,
            index_ms: 2.0,
            datafusion_ms: 100.0,
        };
        assert_eq!(
            conclusion(6_001_215, &slower),
            "In this run, DataFusion over Parquet took 50 times as long as the index to select 1,820 of 6,001,215 rows."
        );
        let faster = MeasuredSelection {
            datafusion_ms: 1.0,
            ..slower
        };
        assert!(conclusion(6_001_215, &faster).contains("took 0.50 times as long"));
    }
}
