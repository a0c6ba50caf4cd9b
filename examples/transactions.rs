//! Transactions: changes of several statements become visible and durable at once, or not at all; other
//! sessions see the state before them until then.
//!
//! `cargo run --release -p halocline --example transactions`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use halocline::datafusion::arrow::array::AsArray;
use halocline::datafusion::arrow::datatypes::Int64Type;
use halocline::{Database, DatabaseOptions, params};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let db = Database::create(&directory.path().join("bank.pool"), &DatabaseOptions::default())?;
    db.sql("CREATE TABLE accounts (id bigint NOT NULL, cents bigint NOT NULL)")
        .await?;
    db.sql("INSERT INTO accounts VALUES (1, 10000), (2, 0)").await?;

    // A session has settings and a transaction of its own.
    let other = db.session();
    db.sql("BEGIN").await?;
    transfer(&db, 1, 2, 2_500).await?;
    assert_eq!((balance(&db, 2).await?, balance(&other, 2).await?), (2_500, 0));
    db.sql("COMMIT").await?;
    assert_eq!(balance(&other, 2).await?, 2_500);

    // A statement that fails changes nothing; the transaction goes on, or is given up.
    db.sql("BEGIN").await?;
    transfer(&db, 1, 2, 5_000).await?;
    let error = db.sql("INSERT INTO accounts VALUES (3, NULL)").await.err();
    println!("refused: {}", error.ok_or("a NULL was taken")?);
    db.sql("ROLLBACK").await?;
    assert_eq!((balance(&db, 1).await?, balance(&db, 2).await?), (7_500, 2_500));

    // One writer at a time: another one waits, by default for 5 seconds, and then reports it.
    db.sql("BEGIN").await?;
    transfer(&db, 2, 1, 500).await?;
    other.sql("SET halocline.lock_wait = '50ms'").await?;
    let error = other.sql("DELETE FROM accounts WHERE id = 2").await.err();
    println!("refused: {}", error.ok_or("two writers at once")?);
    db.sql("COMMIT").await?;
    println!(
        "balances: {} and {}",
        balance(&db, 1).await?,
        balance(&db, 2).await?
    );
    Ok(())
}

async fn transfer(db: &Database, from: i64, to: i64, cents: i64) -> Result<(), Box<dyn Error>> {
    for (account, cents) in [(from, -cents), (to, cents)] {
        db.sql_with(
            "UPDATE accounts SET cents = cents + $1 WHERE id = $2",
            params![cents, account],
        )
        .await?;
    }
    Ok(())
}

async fn balance(db: &Database, account: i64) -> Result<i64, Box<dyn Error>> {
    let rows = db
        .sql_with("SELECT cents FROM accounts WHERE id = $1", [account])
        .await?;
    Ok(rows.collect().await?[0]
        .column(0)
        .as_primitive::<Int64Type>()
        .value(0))
}
