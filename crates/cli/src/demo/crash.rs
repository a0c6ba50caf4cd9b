//! Step 5: processes that insert rows are killed with SIGKILL while they write.
//!
//! The writer reports the last row of each `INSERT` when the statement has returned. What it reported must be
//! there after the kill; the statement in progress may be there as a whole, or not at all.

use std::io::{self, BufRead, BufReader, Stdout, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use halocline_engine::{Database, DatabaseOptions};
use halocline_measure::answer;
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, program, progress};

use super::systems::{collect, numbers};
use crate::opening;

/// The table that is written to.
pub(crate) const TABLE: &str = "arrivals";

/// Number of processes that are killed, one after the other.
const KILLS: u64 = 3;
/// Time for which each of them inserts.
const WRITING: Duration = Duration::from_millis(400);
/// Rows per statement.
const ROWS: u64 = 10;

/// Kills writers of the pool, and prints what is there afterwards.
///
/// # Errors
/// A writer fails by itself; an acknowledged row is missing, or a statement is there in part.
pub(crate) fn run(pool: &Path, options: &DatabaseOptions, out: &mut Stdout) -> Result<(), CliError> {
    let create = format!("CREATE TABLE {TABLE} (id bigint NOT NULL, note text)");
    collect(&opening::open(pool, options)?, &create)?;
    let bar = progress::steps(KILLS);
    bar.set_message("killing writers");
    let (mut found, mut acknowledged, mut slowest_ms) = (0, 0, 0.0_f64);
    for _ in 0..KILLS {
        let last = kill_a_writer(pool, found)?;
        // Rows that were stored but not yet reported are found, and not acknowledged.
        acknowledged += last - found;
        let start = Instant::now();
        let database = opening::open(pool, options)?;
        slowest_ms = slowest_ms.max(start.elapsed().as_secs_f64() * 1e3);
        found = verified(&database, last)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    writeln!(
        out,
        "\n5. kill -9 of {KILLS} processes that insert into the pool: {} rows were acknowledged,\n   all of them are \
         among the {} found; opened again in {slowest_ms:.1} ms at most",
        grouped(acknowledged),
        grouped(found)
    )?;
    Ok(())
}

/// Starts a writer that inserts after row `last`, kills it after [`WRITING`], and returns the last row that
/// it reported.
fn kill_a_writer(pool: &Path, last: u64) -> Result<u64, CliError> {
    let mut child = Command::new(program::current()?)
        .args(["internal", "append"])
        .arg(pool)
        .arg(last.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let reported = read_reports(&mut child);
    child.kill()?;
    child.wait()?;
    reported
}

fn read_reports(child: &mut Child) -> Result<u64, CliError> {
    let failed = || CliError::failed("the process that inserts rows failed");
    let mut lines = BufReader::new(child.stdout.take().ok_or_else(failed)?).lines();
    let mut line = lines.next().ok_or_else(failed)?;
    // A sleep ends at any moment of a statement, whereas a report would always mark its end.
    thread::sleep(WRITING);
    if child.try_wait()?.is_some() {
        return Err(failed());
    }
    child.kill()?;
    // The pipe still has the reports of before the kill, each as a whole.
    loop {
        let last = line?.parse().map_err(|_| failed())?;
        line = match lines.next() {
            Some(line) => line,
            None => return Ok(last),
        };
    }
}

/// Returns the number of rows in the table.
///
/// # Errors
/// A row up to `acknowledged` is missing, a row is there twice, or a statement is there in part.
fn verified(database: &Database, acknowledged: u64) -> Result<u64, CliError> {
    let text = format!("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM {TABLE}");
    let lines = answer::lines(&collect(database, &text)?)?;
    let counts = numbers(&lines);
    let complete = matches!(counts[..], [count, distinct, 1, last]
        if count == distinct && count == last && count >= acknowledged && count.is_multiple_of(ROWS));
    if complete {
        Ok(counts[0])
    } else {
        Err(CliError::failed(format!(
            "rows 1 to {acknowledged} were acknowledged before the kill, but count, distinct count, first and \
             last row are {}",
            lines.join("; ")
        )))
    }
}

/// Inserts rows after row `last` until the process is killed or the reader of its output is gone.
pub(crate) fn append_forever(pool: &Path, last: u64) -> Result<(), CliError> {
    let database = opening::open(pool, &DatabaseOptions::default())?;
    let mut out = io::stdout();
    let mut first = last + 1;
    loop {
        let rows = first..first + ROWS;
        let values: Vec<String> = rows.clone().map(|id| format!("({id}, 'row {id}')")).collect();
        collect(
            &database,
            &format!("INSERT INTO {TABLE} VALUES {}", values.join(", ")),
        )?;
        writeln!(out, "{}", rows.end - 1)?;
        out.flush()?;
        first = rows.end;
    }
}
