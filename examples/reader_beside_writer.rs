//! A reader beside a writer: each query sees one version of the database, while another session changes it.
//!
//! The same holds between processes: any number of them read a pool that one of them writes.
//!
//! `cargo run --release -p halocline --example reader_beside_writer`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use futures::StreamExt;
use halocline::datafusion::arrow::array::AsArray;
use halocline::datafusion::arrow::datatypes::Int64Type;
use halocline::{Database, DatabaseOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("log.pool");
    let writer = Database::create(&path, &DatabaseOptions::default())?;
    writer
        .sql("CREATE TABLE log AS SELECT i AS id, i % 100 AS kind FROM generate_series(1, 300000) AS s(i)")
        .await?;

    // A second handle of the file, as another process would open it.
    let reader = Database::builder(&path).read_only(true).open()?;
    let mut rows = reader.sql("SELECT id, kind FROM log").await?.stream();
    let mut seen = rows.next().await.ok_or("no rows")??.num_rows();

    // The reader is in the middle of its scan; what it has not read yet is deleted, and its space reclaimed.
    writer.sql("DELETE FROM log WHERE kind < 50").await?;
    writer.sql("VACUUM FULL log").await?;
    while let Some(batch) = rows.next().await {
        seen += batch?.num_rows();
    }
    assert_eq!(seen, 300_000);
    println!("the scan that had begun saw {seen} rows");

    let count = reader.sql("SELECT count(*) FROM log").await?.collect().await?;
    let count = count[0].column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(count, 150_000);
    println!("the next query sees {count}");

    let error = reader.sql("DELETE FROM log").await.err();
    println!("refused: {}", error.ok_or("a read-only handle wrote")?);
    Ok(())
}
