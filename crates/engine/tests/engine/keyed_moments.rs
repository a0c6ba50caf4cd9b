//! Tables with and without a primary key as other handles see them: both as of one moment.

use std::fs;
use std::time::{Duration, Instant};

use halocline_engine::{Database, DatabaseOptions};

use super::support::{error, new_pool, query, run};

/// Transfers between the two kinds of tables.
const TRANSFERS: usize = 300;

const SUMS: &str = "SELECT (SELECT sum(balance) FROM keyed) + (SELECT sum(balance) FROM plain)";

async fn pool_with_both_kinds() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE keyed (id bigint PRIMARY KEY, balance bigint)").await;
    run(
        &db,
        "INSERT INTO keyed SELECT value, 1000 FROM generate_series(1, 50)",
    )
    .await;
    run(
        &db,
        "CREATE TABLE plain AS SELECT value AS id, 0 AS balance FROM generate_series(1, 50)",
    )
    .await;
    (dir, db)
}

async fn transfer(db: &Database, id: usize) {
    run(db, "BEGIN").await;
    run(
        db,
        &format!("UPDATE keyed SET balance = balance - 7 WHERE id = {id}"),
    )
    .await;
    run(
        db,
        &format!("UPDATE plain SET balance = balance + 7 WHERE id = {id}"),
    )
    .await;
    run(db, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_handle_sees_all_or_nothing_of_a_transaction() {
    let (dir, db) = pool_with_both_kinds().await;
    let path = dir.path().join("test.pool");
    let writer = tokio::spawn(async move {
        for number in 0..TRANSFERS {
            transfer(&db, number % 50 + 1).await;
        }
    });
    let reading = DatabaseOptions::default().with_read_only(true);
    let mut reads = 0;
    while reads < 20 || !writer.is_finished() {
        // Each handle opens the stores with its first query.
        let reader = Database::open(&path, &reading).unwrap();
        for _ in 0..2 {
            assert_eq!(query(&reader, SUMS).await, ["50000"]);
        }
        run(&reader, "BEGIN").await;
        let plain = query(&reader, "SELECT sum(balance) FROM plain").await;
        let keyed = query(&reader, "SELECT sum(balance) FROM keyed").await;
        let sum: i64 = [plain, keyed]
            .concat()
            .iter()
            .map(|sum| sum.parse::<i64>().unwrap())
            .sum();
        assert_eq!(sum, 50_000);
        run(&reader, "COMMIT").await;
        reads += 1;
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_does_not_mix_two_moments() {
    let (dir, db) = pool_with_both_kinds().await;
    let reading = DatabaseOptions::default().with_read_only(true);
    let reader = Database::open(&dir.path().join("test.pool"), &reading).unwrap();
    run(&reader, "BEGIN").await;
    assert_eq!(query(&reader, "SELECT sum(balance) FROM plain").await, ["0"]);
    transfer(&db, 1).await;
    let message = error(&reader, "SELECT sum(balance) FROM keyed").await;
    assert!(message.contains("ROLLBACK, then begin again"), "{message}");
    run(&reader, "ROLLBACK").await;
    assert_eq!(query(&reader, SUMS).await, ["50000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_into_a_pool_that_was_replaced() {
    let (dir, db) = pool_with_both_kinds().await;
    let path = dir.path().join("test.pool");
    let copy = dir.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let begun = Instant::now();
    let mut id = 1000;
    let refused = loop {
        id += 1;
        match db.sql(&format!("INSERT INTO keyed VALUES ({id}, 1)")).await {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{id} rows were acknowledged"
            ),
        }
    };
    assert!(refused.contains("was deleted, moved or replaced"), "{refused}");
    let message = error(&db, "INSERT INTO plain VALUES (1, 1)").await;
    assert!(message.contains("was deleted, moved or replaced"), "{message}");
}
