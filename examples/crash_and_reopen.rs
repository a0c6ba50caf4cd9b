//! A crash: a process that inserts rows is killed with SIGKILL; the pool opens again at once, with every row
//! that the process had reported as inserted.
//!
//! `cargo run --release -p halocline --example crash_and_reopen`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use halocline::datafusion::arrow::array::AsArray;
use halocline::datafusion::arrow::datatypes::Int64Type;
use halocline::{Database, DatabaseOptions, params};

/// Set for the process that is killed: the path of the pool.
const CHILD: &str = "CRASH_EXAMPLE_POOL";
/// Number of rows after which it is killed.
const ROWS: usize = 2_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(path) = std::env::var_os(CHILD) {
        return insert_forever(path.as_ref()).await;
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("events.pool");
    let db = Database::create(&path, &DatabaseOptions::default())?;
    db.sql("CREATE TABLE events (id bigint, note text)").await?;
    drop(db);

    let mut child = Command::new(std::env::current_exe()?)
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()?;
    let reports = BufReader::new(child.stdout.take().ok_or("no output")?);
    let last = reports
        .lines()
        .nth(ROWS - 1)
        .ok_or("the process ended by itself")??;
    child.kill()?;
    child.wait()?;
    let acknowledged: i64 = last.parse()?;

    let start = Instant::now();
    let db = Database::open(&path, &DatabaseOptions::default())?;
    println!("opened in {:?} after the kill", start.elapsed());
    let counts = db
        .sql_with(
            "SELECT count(*), count(*) FILTER (WHERE id <= $1) FROM events",
            [acknowledged],
        )
        .await?
        .collect()
        .await?;
    let count = |column: usize| counts[0].column(column).as_primitive::<Int64Type>().value(0);
    println!("{acknowledged} rows were acknowledged, {} are there", count(0));
    assert_eq!(count(1), acknowledged);
    assert!(db.check(&mut |_| ())?.problems.is_empty());
    Ok(())
}

/// Inserts rows one by one, and reports each when it is durable against the death of the process.
async fn insert_forever(path: &Path) -> Result<(), Box<dyn Error>> {
    let db = Database::open(path, &DatabaseOptions::default())?;
    let mut out = std::io::stdout();
    for id in 1i64.. {
        db.sql_with(
            "INSERT INTO events VALUES ($1, $2)",
            params![id, format!("event {id}")],
        )
        .await?;
        writeln!(out, "{id}")?;
        out.flush()?;
    }
    Ok(())
}
