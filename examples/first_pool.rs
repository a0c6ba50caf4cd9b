//! A pool, a table, an Elf index and a query; then the same query after a restart, with nothing rebuilt.
//!
//! `cargo run --release -p halocline --example first_pool`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Instant;

use halocline::{Database, DatabaseOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("orders.pool");
    let query = "SELECT count(*) AS orders, sum(amount) AS total FROM orders WHERE month = 3 AND amount < 20";

    let db = Database::create(&path, &DatabaseOptions::default())?;
    db.sql(
        "CREATE TABLE orders AS SELECT i AS id, i % 12 AS month, i * 7 % 500 AS amount
         FROM generate_series(1, 1000000) AS s(i)",
    )
    .await?;
    db.sql("CREATE INDEX by_month ON orders USING elf (month, amount)")
        .await?;
    let before = db.sql(query).await?.collect().await?;
    drop(db);

    let start = Instant::now();
    let db = Database::open(&path, &DatabaseOptions::default())?;
    println!("opened in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let after = db.sql(query).await?.collect().await?;
    assert_eq!(before, after);
    println!("{after:#?}");
    Ok(())
}
