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
    let full = CompactOptions::default().with_full(true);
    let ended = db.compact(Some("t"), &full, &mut |_| (), &cancel);
    assert!(matches!(ended, Err(EngineError::Cancelled)), "{ended:?}");
    // All rows are merged when it is heard; only the index is left to build.
    cancel.store(false, std::sync::atomic::Ordering::Relaxed);
    let mut last = |at: &halocline_engine::CompactProgress| {
        cancel.store(at.done == at.total, std::sync::atomic::Ordering::Relaxed);
    };
    let generation = db.info().unwrap().pool.generation;
    let ended = db.compact(Some("t"), &full, &mut last, &cancel);
    assert!(matches!(ended, Err(EngineError::Cancelled)), "{ended:?}");
    assert_eq!(db.info().unwrap().pool.generation, generation);
    assert_eq!(query(&db, "SELECT count(*), sum(i), max(s) FROM t").await, sums);
    run(&db, "TRUNCATE t").await;
    let said = run(&db, "VACUUM").await;
    assert!(said.contains("bytes back to the file system"), "{said}");
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

/// The same answers from `t`, through its index and without, as from `u` without one.
async fn t_answers_like_u(db: &Database, when: &str) {
    let conditions = [
        "a BETWEEN 3 AND 20",
        "a = 5",
        "a = 5 AND b = 'k3'",
        "a IS NULL AND b IN ('k1', 'k11', 'nothing')",
        "b >= 'k5'",
        "a >= 10 AND c < 500",
        "a = 9 AND c < 500",
        "a < 12 AND d % 3 = 1",
        "a > 2 AND d BETWEEN 100 AND 9000",
        "a IN (1, 9, 30) AND b > 'k3' AND d % 2 = 0",
    ];
    for condition in conditions {
        for what in ["count(*)", "count(*), sum(d), min(c), max(b)"] {
            let ask = |table: &str| format!("SELECT {what} FROM {table} WHERE {condition}");
            run(db, "SET halocline.index = 'off'").await;
            let expected = query(db, &ask("u")).await;
            for mode in ["off", "force", "auto"] {
                run(db, &format!("SET halocline.index = '{mode}'")).await;
                assert_eq!(
                    query(db, &ask("t")).await,
                    expected,
                    "{when}, {mode}: {condition}"
                );
            }
        }
        run(db, "SET halocline.index = 'force'").await;
        let rows = |table| format!("SELECT d, b FROM {table} WHERE {condition} ORDER BY d");
        assert_eq!(
            query(db, &rows("t")).await,
            query(db, &rows("u")).await,
            "{when}: {condition}"
        );
        let some = format!("SELECT count(*) FROM (SELECT d FROM t WHERE {condition} LIMIT 7)");
        let of = |rows: &[String]| rows[0].parse::<u64>().unwrap();
        let all = query(db, &format!("SELECT count(*) FROM t WHERE {condition}")).await;
        assert_eq!(
            of(&query(db, &some).await),
            of(&all).min(7),
            "{when}: {condition}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clustered_indexes_find_ranges_of_rows() {
    let (dir, db) = new_pool();
    for (table, with) in [("t", " WITH (cluster = 'a, b')"), ("u", "")] {
        run(
            &db,
            &format!("CREATE TABLE {table} (a bigint, b varchar, c double, d bigint NOT NULL){with}"),
        )
        .await;
        // The order of the dimensions is that of the clustering.
        run(&db, &format!("CREATE INDEX {table}_ab ON {table} (b, a)")).await;
    }
    let both = async |text: &str| {
        for table in ["t", "u"] {
            run(&db, &text.replace("TABLE", table)).await;
        }
    };
    let rows = |from: u32, to: u32| {
        format!(
            "INSERT INTO TABLE SELECT nullif(i % 40, 7), 'k' || (i * 31 % 17), i / 3.0, i FROM generate_series({from}, {to}) AS s(i)"
        )
    };
    both(&rows(1, 20_000)).await;
    both(&rows(20_001, 26_000)).await;
    run(&db, "SET halocline.index = 'force'").await;
    let explain = async |table: &str| {
        let text = format!("EXPLAIN SELECT sum(c) FROM {table} WHERE a > 20");
        query(&db, &text).await.join("\n")
    };
    assert!(explain("t").await.contains("rows=in ranges"));
    assert!(!explain("u").await.contains("rows=in ranges"));
    t_answers_like_u(&db, "loaded").await;
    both("DELETE FROM TABLE WHERE d % 97 = 0").await;
    t_answers_like_u(&db, "some rows deleted").await;
    both("DELETE FROM TABLE WHERE a BETWEEN 5 AND 9 AND d % 5 > 1").await;
    both("UPDATE TABLE SET a = 41, b = NULL WHERE d % 50 = 3").await;
    t_answers_like_u(&db, "changed").await;
    run(&db, "VACUUM FULL t").await;
    assert_eq!(segments(&db, "t").0, 1);
    assert!(explain("t").await.contains("rows=in ranges"));
    t_answers_like_u(&db, "compacted").await;
    both("DELETE FROM TABLE WHERE d % 101 < 30").await;
    t_answers_like_u(&db, "deleted after that").await;
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    t_answers_like_u(&db, "reopened").await;
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_shrinks_again() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE large AS SELECT i * 4614241324093 % 9007199254740881 AS a, i * 7919 % 1000003 AS b \
         FROM generate_series(1, 1500000) AS s(i)",
    )
    .await;
    run(&db, "CREATE INDEX x ON large (a, b)").await;
    let space = || db.info().unwrap().pool;
    let (len, used) = (space().bytes, space().used_bytes);
    assert!(
        used > 20 << 20 && len <= used + used / 8 + (8 << 20),
        "{len} {used}"
    );
    run(
        &db,
        "CREATE TABLE small AS SELECT i FROM generate_series(1, 1000) AS s(i)",
    )
    .await;
    run(&db, "INSERT INTO small VALUES (0)").await;
    run(&db, "DROP TABLE large").await;
    let reader = reopen(&dir, &DatabaseOptions::default());
    let said = run(&db, "VACUUM").await;
    assert!(said.contains("the file keeps its length"), "{said}");
    assert!(
        space().bytes > 20 << 20 && space().allocated_bytes < 12 << 20,
        "{:?}",
        space()
    );
    drop(reader);
    run(&db, "VACUUM").await;
    assert!(space().bytes <= 8 << 20, "{:?}", space());
    let sums = "SELECT count(*), sum(i) FROM small";
    assert_eq!(query(&db, sums).await, ["1001|500500"]);
    run(
        &db,
        "INSERT INTO small SELECT i FROM generate_series(1, 100000) AS s(i)",
    )
    .await;
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, sums).await, ["101001|5000550500"]);
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}
