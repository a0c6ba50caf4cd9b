//! Statements that are prepared once and run many times, and where the time of a query goes.
//!
//! `cargo run --release -p halocline --example prepared_statements`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Instant;

use halocline::datafusion::arrow::util::pretty::pretty_format_batches;
use halocline::{Database, DatabaseOptions, EngineError, params};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = Database::in_memory(&DatabaseOptions::default())?;
    db.sql(
        "CREATE TABLE readings AS
         SELECT i % 5000 AS sensor, i / 5000 AS hour, i * 7919 % 1000 AS level FROM generate_series(1, 200000) AS s(i)",
    )
    .await?;
    db.sql("CREATE INDEX by_sensor ON readings USING elf (sensor, hour)")
        .await?;

    let readings = db
        .prepare("SELECT hour, level FROM readings WHERE sensor = $1 AND hour < $2")
        .await?;
    println!("types of the parameters: {:?}", readings.parameter_types());
    let (start, mut rows) = (Instant::now(), 0);
    for sensor in 0..1000 {
        let answer = readings.execute(params![sensor, 10]).await?.collect().await?;
        rows += answer.iter().map(|batch| batch.num_rows()).sum::<usize>();
    }
    println!("1,000 executions, {rows} rows: {:?}", start.elapsed());

    // Values are checked before anything runs.
    match readings.execute(params!["all", 10]).await {
        Err(error @ EngineError::Parameter { .. }) => println!("{error}"),
        _ => return Err("a text is no number".into()),
    }

    // Every kind of value of a row can be a parameter.
    let correct = db
        .prepare("UPDATE readings SET level = ? WHERE sensor = ? AND hour = ?")
        .await?;
    let corrected = correct.execute(params![0, 17, 3]).await?;
    println!("{}", corrected.message().unwrap_or_default());

    // Texts that differ in literals only share a plan, too, from the third one on.
    for sensor in [1, 2, 3] {
        let text = format!("EXPLAIN ANALYZE SELECT level FROM readings WHERE sensor = {sensor}");
        let plan = db.sql(&text).await?.collect().await?;
        println!("{}", pretty_format_batches(&plan)?);
    }
    Ok(())
}
