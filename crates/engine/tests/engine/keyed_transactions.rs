//! Tables with a primary key: transactions, also over tables without one, and several handles.

use halocline_engine::{Database, DatabaseOptions};

use super::support::{error, new_pool, query, reopen, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_span_statements() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)").await;
    run(&db, "INSERT INTO accounts VALUES (1, 100), (2, 100)").await;
    let other = db.session();
    let balances = "SELECT balance FROM accounts";
    run(&db, "BEGIN").await;
    run(&db, "UPDATE accounts SET balance = balance - 10 WHERE id = 1").await;
    run(&db, "UPDATE accounts SET balance = balance + 10 WHERE id = 2").await;
    let _failed = error(&db, "INSERT INTO accounts VALUES (3, 0), (1, 0)").await;
    assert_eq!(query(&db, balances).await, ["90", "110"]);
    assert_eq!(query(&other, balances).await, ["100", "100"]);
    run(&db, "COMMIT").await;
    assert_eq!(query(&other, balances).await, ["90", "110"]);
    run(&db, "BEGIN").await;
    run(&db, "DELETE FROM accounts").await;
    assert_eq!(query(&db, balances).await, Vec::<String>::new());
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, balances).await, ["90", "110"]);

    // Write skew: each withdraws because the other account covers it.
    for session in [&db, &other] {
        run(session, "BEGIN").await;
        assert_eq!(query(session, "SELECT sum(balance) FROM accounts").await, ["200"]);
    }
    run(&db, "UPDATE accounts SET balance = balance - 200 WHERE id = 1").await;
    run(&other, "UPDATE accounts SET balance = balance - 200 WHERE id = 2").await;
    run(&db, "COMMIT").await;
    let message = error(&other, "COMMIT").await;
    assert!(
        message.contains("begin again") || message.contains("run the transaction again"),
        "{message}"
    );
    assert_eq!(query(&other, balances).await, ["-110", "110"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_changes_tables_of_both_kinds() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)").await;
    run(&db, "INSERT INTO accounts VALUES (1, 100), (2, 100)").await;
    run(&db, "CREATE TABLE plain (a int)").await;
    let other = db.session();
    let both = "SELECT (SELECT count(*) FROM accounts) AS keyed, (SELECT count(*) FROM plain) AS plain";
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO accounts VALUES (9, 9)").await;
    run(&db, "INSERT INTO plain SELECT id FROM accounts").await;
    run(
        &db,
        "DELETE FROM accounts WHERE id IN (SELECT a FROM plain WHERE a < 2)",
    )
    .await;
    assert_eq!(query(&db, both).await, ["2|3"]);
    assert_eq!(query(&other, both).await, ["2|0"]);
    run(&db, "COMMIT").await;
    assert_eq!(query(&other, both).await, ["2|3"]);
    run(&db, "BEGIN").await;
    run(&db, "DELETE FROM plain").await;
    run(&db, "DELETE FROM accounts").await;
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, both).await, ["2|3"]);

    // What another session has changed in one kind undoes the changes of both, also if it was only read.
    for read in [
        "UPDATE accounts SET balance = 0 WHERE id = 2",
        "SELECT balance FROM accounts WHERE id = 2",
    ] {
        run(&db, "BEGIN").await;
        if read.starts_with("SELECT") {
            drop(query(&db, read).await)
        } else {
            drop(run(&db, read).await)
        }
        run(&db, "INSERT INTO plain VALUES (7)").await;
        run(&other, "UPDATE accounts SET balance = balance + 1 WHERE id = 2").await;
        let message = error(&db, "COMMIT").await;
        assert!(message.contains("run the transaction again"), "{message}");
        assert_eq!(query(&db, both).await, ["2|3"]);
    }
    run(&db, "BEGIN").await;
    run(&db, "UPDATE accounts SET balance = 0 WHERE id = 2").await;
    run(&db, "UPDATE plain SET a = 0 WHERE a = 77").await;
    run(&db, "COMMIT").await;
    drop((db, other));
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, both).await, ["2|3"]);
    assert_eq!(
        query(&db, "SELECT id, balance FROM accounts").await,
        ["2|0", "9|9"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_transactions_of_both_kinds_whole() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE keyed (id int PRIMARY KEY)").await;
    run(&db, "CREATE TABLE plain (id int)").await;
    let writer = db.session();
    let write = async move {
        for number in 0..30 {
            run(&writer, "BEGIN").await;
            run(&writer, &format!("INSERT INTO plain VALUES ({number})")).await;
            run(&writer, &format!("INSERT INTO keyed VALUES ({number})")).await;
            run(&writer, "COMMIT").await;
        }
    };
    let write = tokio::spawn(write);
    let both = "SELECT (SELECT count(*) FROM plain) - (SELECT count(*) FROM keyed)";
    while !write.is_finished() {
        assert_eq!(query(&db, both).await, ["0"]);
        run(&db, "BEGIN").await;
        let _plain = query(&db, "SELECT count(*) FROM plain").await;
        assert_eq!(query(&db, both).await, ["0"]);
        run(&db, "COMMIT").await;
    }
    write.await.unwrap();
    assert_eq!(query(&db, "SELECT count(*) FROM keyed").await, ["30"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_count_without_losing_any() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE counters (id int PRIMARY KEY, n bigint)").await;
    run(&db, "INSERT INTO counters VALUES (1, 0)").await;
    let count = |session: Database| async move {
        for _ in 0..50 {
            run(&session, "UPDATE counters SET n = n + 1 WHERE id = 1").await;
        }
    };
    let threads: Vec<_> = (0..4).map(|_| tokio::spawn(count(db.session()))).collect();
    for thread in threads {
        thread.await.unwrap();
    }
    assert_eq!(query(&db, "SELECT n FROM counters").await, ["200"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_handles_read_beside_the_one_that_writes() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE keyed (id int PRIMARY KEY, name text)").await;
    run(&db, "CREATE TABLE plain (id int)").await;
    run(&db, "INSERT INTO keyed VALUES (1, 'a')").await;
    let reader = reopen(&dir, &DatabaseOptions::default().with_read_only(true));
    let second = reopen(&dir, &DatabaseOptions::default());
    let all = "SELECT id, name FROM keyed";
    for other in [&reader, &second] {
        assert_eq!(query(other, all).await, ["1|a"]);
    }
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO keyed VALUES (2, 'b')").await;
    run(&db, "INSERT INTO plain VALUES (2)").await;
    run(&db, "COMMIT").await;
    run(&db, "CREATE TABLE late (id int PRIMARY KEY)").await;
    for other in [&reader, &second] {
        let both = "SELECT (SELECT count(*) FROM keyed) AS keyed, (SELECT count(*) FROM plain) AS plain";
        assert_eq!(query(other, both).await, ["2|1"]);
        assert_eq!(query(other, "SELECT count(*) FROM late").await, ["0"]);
        let message = error(other, "INSERT INTO keyed VALUES (3, 'c')").await;
        assert!(
            message.contains("read-only") || message.contains("in another process"),
            "{message}"
        );
    }
    run(&second, "BEGIN").await;
    assert_eq!(query(&second, "SELECT count(*) FROM keyed").await, ["2"]);
    run(&db, "INSERT INTO keyed VALUES (4, 'd')").await;
    assert_eq!(
        query(&second, "SELECT count(*) FROM keyed").await,
        ["2"],
        "a transaction sees one version"
    );
    run(&second, "COMMIT").await;
    assert_eq!(query(&second, "SELECT count(*) FROM keyed").await, ["3"]);
    drop(db);
    // Nobody writes the stores any more.
    run(&second, "INSERT INTO keyed VALUES (5, 'e')").await;
    assert_eq!(query(&reader, "SELECT count(*) FROM keyed").await, ["4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_has_read_beside_the_writer_changes_other_tables() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE keyed (id int PRIMARY KEY)").await;
    run(&db, "CREATE TABLE plain (id int)").await;
    run(&db, "INSERT INTO keyed VALUES (1)").await;
    let second = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&second, "SELECT id FROM keyed").await, ["1"]);
    for first in ["SELECT 1", "SELECT id FROM keyed"] {
        run(&second, "BEGIN").await;
        assert_eq!(query(&second, first).await, ["1"]);
        run(&second, "INSERT INTO plain VALUES (2)").await;
        run(&second, "COMMIT").await;
    }
    assert_eq!(query(&db, "SELECT count(*) FROM plain").await, ["2"]);
    // What the reader has seen ends when the stores are opened for writing again.
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    run(&db, "INSERT INTO keyed VALUES (2)").await;
    run(&second, "CREATE TABLE later (id int)").await;
    assert_eq!(query(&second, "SELECT count(*) FROM keyed").await, ["2"]);
}
