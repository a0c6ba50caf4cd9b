//! BEGIN, COMMIT and ROLLBACK; writers after each other, readers beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halocline_engine::{Database, DatabaseOptions, EngineError};

use super::support::{error, lines, new_pool, query, reopen, run};

async fn sum(db: &Database) -> String {
    query(db, "SELECT count(*), sum(i) FROM t").await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_seen_by_itself_until_it_commits() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint NOT NULL)").await;
    let (other, reader) = (db.session(), reopen(&dir, &DatabaseOptions::default()));
    assert_eq!(run(&db, "BEGIN").await, "begun");
    run(&db, "INSERT INTO t VALUES (1), (2)").await;
    run(&db, "CREATE TABLE u AS SELECT i * 10 AS i FROM t").await;
    run(&db, "INSERT INTO t SELECT i FROM u").await;
    run(&db, "CREATE INDEX x ON t (i)").await;
    run(
        &db,
        "INSERT INTO t SELECT i FROM generate_series(100, 3000) AS s(i)",
    )
    .await;
    run(&db, "UPDATE t SET i = i + 1 WHERE i = 20").await;
    run(&db, "DELETE FROM t WHERE i > 100").await;
    run(&db, "SET halocline.index = force").await;
    assert_eq!(sum(&db).await, "5|134");
    assert_eq!(
        query(&db, "SELECT i FROM t WHERE i < 22 ORDER BY i").await,
        ["1", "2", "10", "21"]
    );
    for outside in [&other, &reader] {
        assert_eq!(sum(outside).await, "0|NULL");
    }
    assert_eq!(run(&db, "COMMIT").await, "committed");
    for session in [&db, &other, &reader] {
        assert_eq!(sum(session).await, "5|134");
        assert_eq!(query(session, "SELECT sum(i) FROM u").await, ["30"]);
    }
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_transactions_are_one_record() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    run(&db, "INSERT INTO t VALUES (1)").await;
    let generation = db.info().unwrap().pool.generation;
    for text in [
        "START TRANSACTION",
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET i = 5 WHERE i = 1",
        "END",
    ] {
        run(&db, text).await;
    }
    assert_eq!(
        (sum(&db).await.as_str(), db.info().unwrap().pool.generation),
        ("2|7", generation)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_rolled_back_leaves_nothing() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    run(&db, "INSERT INTO t VALUES (1)").await;
    let changes = [
        "INSERT INTO t SELECT i FROM generate_series(1, 3000) AS s(i)",
        "INSERT INTO t VALUES (7)",
        "DELETE FROM t WHERE i = 1",
        "ALTER TABLE t ADD COLUMN n int",
        "ALTER TABLE t RENAME TO u",
        "CREATE TABLE t (j int)",
        "DROP TABLE u",
    ];
    for end in ["ROLLBACK", "ABORT", ""] {
        let session = db.session();
        run(&session, "BEGIN").await;
        for text in changes {
            run(&session, text).await;
        }
        match end {
            "" => drop(session),
            end => assert_eq!(run(&session, end).await, "rolled back"),
        }
        assert_eq!(sum(&db).await, "1|1", "{end}");
    }
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(sum(&db).await, "1|1");
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_statement_takes_back_only_itself() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint NOT NULL, s varchar)").await;
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO t VALUES (1, '1')").await;
    for text in [
        "INSERT INTO t VALUES (2, 'x'), (NULL, 'x')",
        "INSERT INTO t SELECT CASE WHEN i < 2500 THEN i END, 'x' FROM generate_series(1, 3000) AS s(i)",
        "CREATE OR REPLACE TABLE t AS SELECT 1 / (i - 1) AS i FROM t",
        "UPDATE t SET i = NULL",
        "ALTER TABLE t ADD COLUMN n int NOT NULL",
        "SELEC 1",
    ] {
        error(&db, text).await;
        assert_eq!(query(&db, "SELECT * FROM t").await, ["1|1"], "{text}");
    }
    assert_eq!(
        error(&db, "BEGIN").await,
        "BEGIN is not possible while a transaction is open; COMMIT or ROLLBACK first"
    );
    run(&db, "INSERT INTO t VALUES (2, '2')").await;
    run(&db, "COMMIT").await;
    assert_eq!(sum(&db.session()).await, "2|3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_wait_for_each_other() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    let insert = |session: Database| async move {
        for _ in 0..25 {
            run(&session, "INSERT INTO t VALUES (1)").await;
        }
    };
    let writers: Vec<_> = (0..4).map(|_| tokio::spawn(insert(db.session()))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(sum(&db).await, "100|100");
}

/// Each commit gives every row the next version and adds a row; whoever reads sees one version of all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_committed_versions_only() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint, version bigint)").await;
    run(
        &db,
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 1500) AS s(i)",
    )
    .await;
    run(&db, "CREATE INDEX x ON t (version)").await;
    let over = Arc::new(AtomicBool::new(false));
    let read = |reader: Database, over: Arc<AtomicBool>| async move {
        let (mut last, mut answers) = (0, 0);
        while !over.load(Ordering::Relaxed) || answers == 0 {
            let row = query(
                &reader,
                "SELECT min(version), max(version), count(*), sum(i) FROM t WHERE version >= 0",
            )
            .await;
            let numbers: Vec<i64> = row[0].split('|').map(|n| n.parse().unwrap()).collect();
            let version = numbers[0];
            assert_eq!(numbers, [version, version, 1500 + version, 1500 * 1501 / 2]);
            assert!(version >= last, "{version} after {last}");
            (last, answers) = (version, answers + 1);
        }
        answers
    };
    let readers = [db.session(), reopen(&dir, &DatabaseOptions::default())];
    let readers: Vec<_> = readers
        .into_iter()
        .map(|r| tokio::spawn(read(r, Arc::clone(&over))))
        .collect();
    for version in 1..=12 {
        run(&db, "BEGIN").await;
        run(
            &db,
            &format!("UPDATE t SET version = {version} WHERE version < {version}"),
        )
        .await;
        run(&db, &format!("INSERT INTO t VALUES (0, {version})")).await;
        run(&db, "COMMIT").await;
    }
    over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert_eq!(
        query(&db, "SELECT max(version), count(*) FROM t").await,
        ["12|1512"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_keeps_its_version() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i FROM generate_series(1, 20000) AS s(i)",
    )
    .await;
    run(&db, "INSERT INTO t VALUES (0)").await;
    let other = reopen(&dir, &DatabaseOptions::default());
    let open = [
        db.sql("SELECT i FROM t").await.unwrap(),
        other.sql("SELECT i FROM t").await.unwrap(),
    ];
    run(&db, "DELETE FROM t WHERE i % 2 = 0").await;
    run(&other, "UPDATE t SET i = 1").await;
    run(&db, "TRUNCATE TABLE t").await;
    run(
        &db,
        "CREATE OR REPLACE TABLE t AS SELECT i FROM generate_series(1, 50000) AS s(i)",
    )
    .await;
    for kept in open {
        assert_eq!(lines(&kept.collect().await.unwrap()).len(), 20_001);
    }
    assert_eq!(query(&other, "SELECT count(*) FROM t").await, ["50000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_statement_leaves_nothing() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    run(&db, "INSERT INTO t VALUES (1)").await;
    let long = "INSERT INTO t SELECT a.i FROM generate_series(1, 100000) AS a(i), generate_series(1, 100000) AS b(i)";
    for within in [false, true] {
        if within {
            run(&db, "BEGIN").await;
            run(&db, "INSERT INTO t VALUES (2)").await;
        }
        let session = db.clone();
        let running = tokio::spawn(async move { session.sql(long).await.map(|_| ()) });
        // Within a transaction, a session says when a statement of it has begun.
        while within && !matches!(db.sql("SELECT 1").await, Err(EngineError::TransactionBusy)) {
            tokio::task::yield_now().await;
        }
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        if within {
            let mut lost = error(&db, "INSERT INTO t VALUES (3)").await;
            while lost.contains("still running") {
                lost = error(&db, "INSERT INTO t VALUES (3)").await;
            }
            assert!(
                lost.contains("was given up") && lost.contains("ROLLBACK"),
                "{lost}"
            );
            run(&db, "ROLLBACK").await;
        }
        assert_eq!(sum(&db).await, "1|1");
        run(&db, "UPDATE t SET i = 1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_kept_is_told() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    let hasty = reopen(
        &dir,
        &DatabaseOptions::default().with_lock_wait(Some(Duration::ZERO)),
    );
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO t VALUES (2)").await;
    let locked = error(&hasty, "INSERT INTO t VALUES (1)").await;
    assert!(locked.contains("is being written by another process"), "{locked}");
    run(&db, "COMMIT").await;
    run(&hasty, "INSERT INTO t VALUES (1)").await;
    assert_eq!(sum(&db).await, "2|3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_says_how_long_it_waits() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    let other = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(
        query(&other, "SHOW halocline.lock_wait").await,
        ["halocline.lock_wait|5s"]
    );
    run(&other, "SET halocline.lock_wait = '0'").await;
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO t VALUES (2)").await;
    let locked = error(&other, "INSERT INTO t VALUES (1)").await;
    assert!(locked.contains("is being written by another process"), "{locked}");
    run(&other, "RESET halocline.lock_wait").await;
    assert_eq!(
        query(&other, "SHOW halocline.lock_wait").await,
        ["halocline.lock_wait|5s"]
    );
    let wrong = error(&other, "SET halocline.lock_wait = 'long'").await;
    assert!(
        wrong.contains("halocline.lock_wait") && wrong.contains("500ms"),
        "{wrong}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_only_reads_keeps_nobody_waiting() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    run(&db, "INSERT INTO t VALUES (1)").await;
    let hasty = DatabaseOptions::default().with_lock_wait(Some(Duration::ZERO));
    for other in [db.session(), reopen(&dir, &hasty)] {
        run(&db, "BEGIN").await;
        let before = sum(&db).await;
        run(&other, "INSERT INTO t VALUES (10)").await;
        run(
            &other,
            "INSERT INTO t SELECT i FROM generate_series(1, 3000) AS s(i)",
        )
        .await;
        assert_eq!(sum(&db).await, before, "it sees one version");
        // What it has read is no longer so.
        for text in [
            "INSERT INTO t VALUES (5)",
            "UPDATE t SET i = 0",
            "CREATE TABLE u (i int)",
            "DROP TABLE t",
        ] {
            let changed = error(&db, text).await;
            assert!(
                changed.contains("since the open transaction began to read"),
                "{changed}"
            );
            assert_eq!(sum(&db).await, before, "{text}");
        }
        run(&db, "COMMIT").await;
        assert_eq!(sum(&db).await, sum(&other).await);
    }
    // Nothing was read before: the newest version is what it writes over.
    let other = db.session();
    run(&db, "BEGIN").await;
    run(&other, "DELETE FROM t").await;
    run(&db, "INSERT INTO t VALUES (7)").await;
    assert_eq!(sum(&db).await, "1|7");
    run(&db, "COMMIT").await;
    // Nobody has changed what was read.
    run(&db, "BEGIN").await;
    assert_eq!(sum(&db).await, "1|7");
    run(&db, "UPDATE t SET i = i + 1").await;
    run(&db, "COMMIT").await;
    assert_eq!(sum(&other).await, "1|8");
    let reader = reopen(&dir, &DatabaseOptions::default().with_read_only(true));
    run(&reader, "BEGIN").await;
    assert_eq!(sum(&reader).await, "1|8");
    assert!(error(&reader, "DELETE FROM t").await.contains("read-only"));
    run(&reader, "COMMIT").await;
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_changes_nothing_that_was_read() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint)").await;
    let other = db.session();
    for expected in ["4|13", "8|26"] {
        run(&db, "INSERT INTO t SELECT i FROM generate_series(1, 3) AS s(i)").await;
        run(&db, "BEGIN").await;
        sum(&db).await;
        // The first folds the log into a segment; the others write the segments anew.
        for _ in 0..3 {
            run(&other, "VACUUM FULL").await;
        }
        run(&db, "INSERT INTO t VALUES (7)").await;
        assert_eq!(sum(&db).await, expected);
        run(&db, "COMMIT").await;
    }
    run(&db, "BEGIN").await;
    sum(&db).await;
    run(&other, "INSERT INTO t VALUES (1)").await;
    run(&other, "VACUUM FULL").await;
    let changed = error(&db, "INSERT INTO t VALUES (5)").await;
    assert!(
        changed.contains("since the open transaction began to read"),
        "{changed}"
    );
    run(&db, "ROLLBACK").await;
    assert_eq!(sum(&db).await, "9|27");
}
