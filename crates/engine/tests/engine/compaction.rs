//! Compaction, VACUUM, clustering, and a log that becomes full.

use std::sync::atomic::AtomicBool;

use halocline_engine::{CompactOptions, Database, DatabaseOptions, EngineError};

use super::support::{error, new_pool, query, reopen, run};

fn segments(db: &Database, table: &str) -> (usize, u64, u64) {
    let info = db.info().unwrap();
    let table = info.tables.into_iter().find(|info| info.name == table).unwrap();
    (table.segments, table.deleted_rows, table.log_rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_are_merged_and_space_comes_back() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint, s varchar)").await;
    run(&db, "CREATE INDEX x ON t (i)").await;
    for part in 0..6 {
        let (from, to) = (part * 2000, part * 2000 + 1999);
        run(
            &db,
            &format!("INSERT INTO t SELECT i, 'row ' || i FROM generate_series({from}, {to}) AS s(i)"),
        )
        .await;
    }
    run(&db, "DELETE FROM t WHERE i % 3 = 0").await;
    // The first row makes the log.
    run(&db, "INSERT INTO t VALUES (-2, 'a segment of its own')").await;
    run(&db, "INSERT INTO t VALUES (-1, 'in the log')").await;
    assert_eq!(segments(&db, "t"), (7, 4000, 1));
    let sums = query(&db, "SELECT count(*), sum(i), max(s) FROM t").await;
    let reader = reopen(&dir, &DatabaseOptions::default());
    let open = reader.sql("SELECT i FROM t").await.unwrap();
    let mut told = 0;
    let mut progress = |at: &halocline_engine::CompactProgress| {
        assert!(at.table == "t" && at.done <= at.total);
        told += 1;
    };
    let cancel = AtomicBool::new(false);
    let report = db
        .compact(Some("t"), &CompactOptions::default(), &mut progress, &cancel)
        .unwrap();
    assert!(
        report.merged >= 6 && report.dropped == 4000 && told > 0,
        "{report:?}"
    );
    let again = db
        .compact(None, &CompactOptions::default(), &mut |_| (), &cancel)
        .unwrap();
    assert_eq!(again.merged, 0);
    assert_eq!((segments(&db, "t").0, segments(&db, "t").1), (1, 0));
    assert_eq!(
        open.collect()
            .await
            .unwrap()
            .iter()
            .map(|b| b.num_rows())
            .sum::<usize>(),
        8002
    );
    for mode in ["off", "force"] {
        run(&db, &format!("SET halocline.index = {mode}")).await;
        assert_eq!(query(&db, "SELECT count(*), sum(i), max(s) FROM t").await, sums);
        assert_eq!(
            query(&db, "SELECT count(*) FROM t WHERE i BETWEEN -5 AND 8").await,
            ["8"]
        );
    }
    cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let full = CompactOptions {
        full: true,
        ..CompactOptions::default()
    };
    let ended = db.compact(Some("t"), &full, &mut |_| (), &cancel);
    assert!(matches!(ended, Err(EngineError::Cancelled)), "{ended:?}");
    assert_eq!(query(&db, "SELECT count(*), sum(i), max(s) FROM t").await, sums);
    run(&db, "TRUNCATE t").await;
    let said = run(&db, "VACUUM").await;
    assert!(said.ends_with("bytes back to the file system"), "{said}");
    run(&db, "BEGIN").await;
    assert!(
        error(&db, "VACUUM t")
            .await
            .contains("VACUUM is not possible while a transaction is open")
    );
    run(&db, "ROLLBACK").await;
    assert!(error(&db, "VACUUM u").await.contains("there is no table 'u'"));
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clustered_tables_keep_their_rows_in_order() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint, k bigint) WITH (cluster = 'k')").await;
    run(
        &db,
        "INSERT INTO t SELECT i, i * 7919 % 3000 FROM generate_series(1, 3000) AS s(i)",
    )
    .await;
    assert_eq!(db.info().unwrap().tables[0].cluster, ["k"]);
    run(&db, "SET datafusion.execution.target_partitions = 1").await;
    let sorted = query(&db, "SELECT k FROM t").await;
    let numbers: Vec<i64> = sorted.iter().map(|k| k.parse().unwrap()).collect();
    assert!(numbers.is_sorted());
    let said = run(&db, "ALTER TABLE t CLUSTER BY (i)").await;
    assert!(said.contains("VACUUM FULL t sorts"), "{said}");
    run(&db, "VACUUM FULL t").await;
    assert_eq!(query(&db, "SELECT i FROM t LIMIT 3").await, ["1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_log_is_folded_and_grows() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint, s varchar)").await;
    let text = "x".repeat(100_000);
    for i in 0..30 {
        run(&db, &format!("INSERT INTO t VALUES ({i}, '{text}')")).await;
    }
    let (segments, _, log_rows) = segments(&db, "t");
    assert!(
        (2..6).contains(&segments) && log_rows > 0,
        "{segments} segments, {log_rows} rows"
    );
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(
        query(&db, "SELECT count(*), sum(i), sum(length(s)) FROM t").await,
        ["30|435|3000000"]
    );
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_rolled_back_or_replaced_takes_no_space() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint, s varchar)").await;
    run(&db, "CREATE INDEX x ON t (i)").await;
    let rows = "SELECT i, 'a text for row ' || i FROM generate_series(1, 20000) AS s(i)";
    let mut sizes = Vec::new();
    for _ in 0..6 {
        run(&db, "BEGIN").await;
        run(&db, &format!("INSERT INTO t {rows}")).await;
        run(&db, "CREATE INDEX y ON t (s)").await;
        assert_eq!(query(&db, "SELECT count(*) FROM t WHERE i > 0").await, ["20000"]);
        run(&db, "ROLLBACK").await;
        run(&db, &format!("INSERT INTO t {rows}")).await;
        run(&db, "TRUNCATE t").await;
        db.sync().unwrap();
        sizes.push(db.info().unwrap().pool.bytes);
    }
    assert_eq!(sizes[2], sizes[5], "{sizes:?}");
}
