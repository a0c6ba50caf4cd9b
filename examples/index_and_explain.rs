//! An Elf index over three columns: what the planner does with it, what it does without, and how to see that.
//!
//! `cargo run --release -p halocline --example index_and_explain`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Instant;

use halocline::datafusion::arrow::util::pretty::pretty_format_batches;
use halocline::{Database, DatabaseOptions, params};

const SELECTION: &str =
    "SELECT count(*) FROM readings WHERE sensor = $1 AND day BETWEEN $2 AND $3 AND level > 95";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let db = Database::create(
        &directory.path().join("readings.pool"),
        &DatabaseOptions::default(),
    )?;
    db.sql(
        "CREATE TABLE readings AS
         SELECT h / 64 % 500 AS sensor, h / 4096 % 365 AS day, h / 1048576 % 100 AS level, i AS id
         FROM (SELECT i, i * 2654435761 % 4294967296 AS h FROM generate_series(1, 1000000) AS s(i))",
    )
    .await?;
    // One index answers conditions on any of its columns, in any combination. The first column is best one
    // that most queries have a condition on.
    db.sql("CREATE INDEX by_sensor ON readings USING elf (sensor, day, level)")
        .await?;

    for mode in ["auto", "off"] {
        db.sql(&format!("SET halocline.index = '{mode}'")).await?;
        let explain = db
            .sql_with(&format!("EXPLAIN {SELECTION}"), params![17, 100, 110])
            .await?;
        println!("{}", pretty_format_batches(&explain.collect().await?)?);
        let start = Instant::now();
        let answer = db
            .sql_with(SELECTION, params![17, 100, 110])
            .await?
            .collect()
            .await?;
        println!(
            "index {mode}: {:?}\n{}",
            start.elapsed(),
            pretty_format_batches(&answer)?
        );
    }
    // Half of all rows: reading the columns is cheaper, and the planner says so.
    db.sql("SET halocline.index = 'auto'").await?;
    let explain = db
        .sql("EXPLAIN SELECT sum(id) FROM readings WHERE sensor < 250")
        .await?;
    println!("{}", pretty_format_batches(&explain.collect().await?)?);
    Ok(())
}
