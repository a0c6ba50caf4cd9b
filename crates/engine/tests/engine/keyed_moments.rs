//! Tables with and without a primary key as other handles see them: both as of one moment.

use std::fs;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::StreamExt;
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
    let path = dir.path().join("test.pool");
    let reading = DatabaseOptions::default().with_read_only(true);
    let reader = Database::open(&path, &reading).unwrap();
    let (plain, keyed) = ("SELECT sum(balance) FROM plain", "SELECT sum(balance) FROM keyed");
    // Another process may change both: the transaction sees its first moment, whichever it reads later.
    for first in [plain, keyed] {
        run(&reader, "BEGIN").await;
        let before = [query(&reader, first).await, query(&db, plain).await].concat();
        transfer(&db, 1).await;
        transfer(&db, 2).await;
        for _ in 0..2 {
            assert_eq!(query(&reader, SUMS).await, ["50000"]);
            assert_eq!(query(&reader, first).await, before[..1]);
            assert_eq!(query(&reader, plain).await, before[1..]);
        }
        run(&reader, "COMMIT").await;
    }
    // Nobody had the stores open when the transaction began to read.
    drop((db, reader));
    let reader = Database::open(&path, &reading).unwrap();
    run(&reader, "BEGIN").await;
    assert_eq!(query(&reader, plain).await, ["28"]);
    let db = Database::open(&path, &DatabaseOptions::default()).unwrap();
    transfer(&db, 1).await;
    let message = error(&reader, keyed).await;
    assert!(message.contains("ROLLBACK, then begin again"), "{message}");
    run(&reader, "ROLLBACK").await;
    assert_eq!(query(&reader, SUMS).await, ["50000"]);
}

/// A stream that is read while others commit shows both kinds of tables as of its beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_cursor_sees_one_moment() {
    let (dir, db) = pool_with_both_kinds().await;
    let reading = DatabaseOptions::default().with_read_only(true);
    let reader = Database::open(&dir.path().join("test.pool"), &reading).unwrap();
    for sees in [&reader, &db] {
        let both = "SELECT balance FROM keyed UNION ALL SELECT balance FROM plain";
        let mut rows = sees.sql(both).await.unwrap().stream();
        for id in 1..20 {
            transfer(&db, id).await;
        }
        let mut sum = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch.unwrap();
            let balances = batch.column(0).as_primitive::<Int64Type>();
            sum += balances.iter().flatten().sum::<i64>();
        }
        assert_eq!(sum, 50_000);
    }
}

/// The growth of the stores publishes generations, and changes no table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_over_plain_tables_go_on_while_the_stores_grow() {
    let (dir, db) = pool_with_both_kinds().await;
    let other = Database::open(&dir.path().join("test.pool"), &DatabaseOptions::default()).unwrap();
    run(&other, "BEGIN").await;
    assert_eq!(query(&other, "SELECT sum(balance) FROM plain").await, ["0"]);
    let long = "INSERT INTO keyed SELECT value, value FROM generate_series(1000, 60000)";
    run(&db, long).await;
    run(&other, "UPDATE plain SET balance = 1 WHERE id = 1").await;
    run(&other, "COMMIT").await;
    assert_eq!(query(&db, "SELECT sum(balance) FROM plain").await, ["1"]);
}

/// Reads of tables with a primary key are validated at COMMIT, whichever process has the stores open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_transactions_are_the_same_beside_another_writer() {
    let (dir, db) = pool_with_both_kinds().await;
    let other = Database::open(&dir.path().join("test.pool"), &DatabaseOptions::default()).unwrap();
    let own = db.session();
    for reader in [&other, &own] {
        for (changed, conflicts) in [(1, true), (2, false)] {
            run(reader, "BEGIN").await;
            let read = query(reader, "SELECT count(*) FROM keyed WHERE id = 1").await;
            assert_eq!(read, ["1"]);
            run(reader, "INSERT INTO plain VALUES (100, 0)").await;
            run(
                &db,
                &format!("UPDATE keyed SET balance = balance WHERE id = {changed}"),
            )
            .await;
            if conflicts {
                let message = error(reader, "COMMIT").await;
                assert!(message.contains("run the transaction again"), "{message}");
            } else {
                drop(run(reader, "COMMIT").await)
            }
        }
    }
    let added = query(&db, "SELECT count(*) FROM plain WHERE id = 100").await;
    assert_eq!(added, ["2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_write_wait_for_whoever_has_the_stores_open() {
    let (dir, db) = pool_with_both_kinds().await;
    let other = Database::open(&dir.path().join("test.pool"), &DatabaseOptions::default()).unwrap();
    let add = "UPDATE keyed SET balance = balance + 1 WHERE id = 1";
    run(&other, "SET halocline.lock_wait = '20ms'").await;
    for statement in [
        add,
        "CREATE TABLE more (a int PRIMARY KEY)",
        "CREATE TABLE more (PRIMARY KEY (a)) AS SELECT 1 AS a",
        "DROP TABLE keyed",
        "TRUNCATE keyed",
        "ALTER TABLE keyed RENAME TO renamed",
        "VACUUM keyed",
    ] {
        let message = error(&other, statement).await;
        assert!(
            message.contains("is open in another process"),
            "{statement}: {message}"
        );
    }
    // Whoever waits can be interrupted, and others of the process read meanwhile.
    run(&other, "SET halocline.lock_wait = '600s'").await;
    let session = other.session();
    let interrupted = tokio::time::timeout(Duration::from_millis(50), other.sql(add)).await;
    assert!(interrupted.is_err());
    assert_eq!(query(&session, SUMS).await, ["50000"]);
    // A transaction that has read goes on if nothing has changed when it gets the stores.
    run(&other, "BEGIN").await;
    assert_eq!(query(&other, SUMS).await, ["50000"]);
    let waiting = async {
        run(&other, add).await;
        run(&other, "COMMIT").await;
    };
    let closing = async {
        tokio::task::yield_now().await;
        drop(db);
    };
    tokio::join!(waiting, closing);
    assert_eq!(query(&session, SUMS).await, ["50001"]);
}

/// No error that a user of SQL meets names a call of the Rust interface.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_has_ended_is_renewed() {
    let (dir, db) = pool_with_both_kinds().await;
    let path = dir.path().join("test.pool");
    let reading = DatabaseOptions::default().with_read_only(true);
    let reader = Database::open(&path, &reading).unwrap();
    let within = reader.session();
    assert_eq!(query(&reader, SUMS).await, ["50000"]);
    run(&within, "BEGIN").await;
    assert_eq!(query(&within, SUMS).await, ["50000"]);
    drop(db);
    let db = Database::open(&path, &DatabaseOptions::default()).unwrap();
    transfer(&db, 3).await;
    assert_eq!(query(&reader, SUMS).await, ["50000"]);
    let balance = "SELECT balance FROM keyed WHERE id = 3";
    assert_eq!(query(&reader, balance).await, ["993"]);
    let message = error(&within, balance).await;
    assert!(message.contains("read again"), "{message}");
    assert!(!message.contains("::"), "{message}");
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
