//! Temporary tables: what they hold, what they hide, and when they end.

use halocline_engine::{DatabaseOptions, ImportOptions, ScalarValue};

use super::support::{error, new_pool, query, reopen, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_temporary_table_are_changed() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE other AS SELECT 2 AS id, 'two' AS word").await;
    assert_eq!(
        run(
            &db,
            "CREATE TEMP TABLE t (id int NOT NULL, v text DEFAULT 'none', d decimal(10, 2))"
        )
        .await,
        "table t for this session: 0 rows"
    );
    assert_eq!(
        run(&db, "INSERT INTO t VALUES (1, 'a', 1.5), (2, DEFAULT, NULL)").await,
        "inserted 2 rows"
    );
    assert_eq!(
        run(&db, "INSERT INTO t (id) SELECT id + 1 FROM other").await,
        "inserted 1 row"
    );
    let all = "SELECT id, v, d FROM t ORDER BY id, v";
    assert_eq!(query(&db, all).await, ["1|a|1.50", "2|none|NULL", "3|none|NULL"]);
    assert_eq!(
        run(
            &db,
            "UPDATE t SET v = (SELECT word FROM other WHERE other.id = t.id), d = id * 2 WHERE id > 1"
        )
        .await,
        "updated 2 rows"
    );
    assert_eq!(query(&db, all).await, ["1|a|1.50", "2|two|4.00", "3|NULL|6.00"]);
    assert_eq!(
        run(
            &db,
            "DELETE FROM t WHERE v IS NULL OR id IN (SELECT id FROM other)"
        )
        .await,
        "deleted 2 rows"
    );
    assert_eq!(query(&db, all).await, ["1|a|1.50"]);
    assert_eq!(run(&db, "UPDATE t SET v = DEFAULT").await, "updated 1 row");
    assert_eq!(query(&db, "SELECT v FROM t").await, ["none"]);
    assert_eq!(
        query(&db, "SELECT t.id, o.word FROM t JOIN other o ON o.id = t.id + 1").await,
        ["1|two"]
    );
    run(&db, "CREATE TABLE kept AS SELECT * FROM t").await;
    run(&db, "INSERT INTO kept SELECT id + 10, v, d FROM t").await;
    assert_eq!(query(&db, "SELECT id FROM kept ORDER BY id").await, ["1", "11"]);
    // A statement that fails changes nothing.
    for (text, reason) in [
        (
            "INSERT INTO t VALUES (5, 'x', 1), (NULL, 'y', 1)",
            "row 2, column id: is NULL",
        ),
        (
            "INSERT INTO t SELECT id, word, word FROM other",
            "'two' is not a value of type decimal",
        ),
        ("INSERT INTO t (nothing) VALUES (1)", "has no column 'nothing'"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
        ("UPDATE t SET id = NULL", "column id: is NULL"),
        ("UPDATE t SET nothing = 1", "has no column 'nothing'"),
        ("DELETE FROM t WHERE nothing = 1", "nothing"),
    ] {
        let said = error(&db, text).await;
        assert!(said.contains(reason), "{text}: {said}");
    }
    assert_eq!(query(&db, all).await, ["1|none|1.50"]);
    db.sql_with(
        "INSERT INTO t (id, v) VALUES ($1, $2)",
        [ScalarValue::from(7), ScalarValue::from("it's")],
    )
    .await
    .unwrap();
    assert_eq!(query(&db, "SELECT v FROM t WHERE id = 7").await, ["it's"]);
    run(&db, "PREPARE p AS SELECT count(*) FROM t WHERE id >= $1").await;
    assert_eq!(query(&db, "EXECUTE p (7)").await, ["1"]);
    assert_eq!(run(&db, "DELETE FROM t").await, "deleted 2 rows");
    run(
        &db,
        "INSERT INTO t SELECT i, 'many', NULL FROM generate_series(1, 20000) AS s(i)",
    )
    .await;
    assert_eq!(
        run(&db, "DELETE FROM t WHERE id % 3 = 0").await,
        "deleted 6666 rows"
    );
    assert_eq!(
        query(&db, "SELECT count(*), sum(id), max(id) FROM t").await,
        ["13334|133346667|20000"]
    );
    assert_eq!(run(&db, "TRUNCATE t, kept").await, "truncated table t, kept");
    assert_eq!(
        query(&db, "SELECT (SELECT count(*) FROM t) AS n, count(*) FROM kept").await,
        ["0|0"]
    );
    assert!(db.info().unwrap().tables.iter().all(|table| table.name != "t"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_temporary_table_hides_one_of_the_pool() {
    let (_dir, db) = new_pool();
    let other = db.session();
    run(&db, "CREATE TABLE t AS SELECT 1 AS a").await;
    run(&db, "CREATE TABLE k (a int PRIMARY KEY)").await;
    run(&db, "CREATE VIEW v AS SELECT a FROM t").await;
    for _ in 0..3 {
        assert_eq!(query(&db, "SELECT a FROM t WHERE a > 0").await, ["1"]);
    }
    run(
        &db,
        "CREATE TEMPORARY TABLE t AS SELECT 10 AS a UNION ALL SELECT 20",
    )
    .await;
    run(&db, "CREATE TEMP TABLE k AS SELECT a FROM main.t").await;
    for _ in 0..3 {
        assert_eq!(
            query(&db, "SELECT a FROM t WHERE a > 0 ORDER BY a").await,
            ["10", "20"]
        );
        assert_eq!(query(&db, "SELECT a FROM main.t WHERE a > 0").await, ["1"]);
        assert_eq!(query(&other, "SELECT a FROM t WHERE a > 0").await, ["1"]);
        assert_eq!(query(&db, "SELECT a FROM v").await, ["1"]);
        assert_eq!(query(&db, "SELECT a FROM k").await, ["1"]);
    }
    run(&db, "UPDATE t SET a = a + 1").await;
    run(&db, "DELETE FROM t WHERE a > 15").await;
    assert_eq!(query(&db, "SELECT a FROM t").await, ["11"]);
    assert_eq!(query(&other, "SELECT a FROM t").await, ["1"]);
    // No statement changes another table than it names.
    for text in [
        "DELETE FROM main.t",
        "UPDATE main.t SET a = 0",
        "INSERT INTO main.t VALUES (5)",
        "TRUNCATE main.t",
        "DROP TABLE main.t",
        "ALTER TABLE main.t ADD COLUMN b int",
        "CREATE INDEX i ON main.t (a)",
    ] {
        let said = error(&db, text).await;
        assert!(
            said.contains("while the session has a temporary table t"),
            "{text}: {said}"
        );
    }
    run(&other, "INSERT INTO main.t VALUES (2)").await;
    assert_eq!(
        query(&db, "SHOW TABLES").await,
        ["k|temporary table", "t|temporary table", "v|view"]
    );
    assert_eq!(query(&db, "DESCRIBE t").await, ["a|Int64|YES"]);
    assert_eq!(run(&db, "DROP TABLE t").await, "dropped table t");
    assert_eq!(query(&db, "SELECT a FROM t ORDER BY a").await, ["1", "2"]);
    assert_eq!(run(&db, "DROP TABLE t, k").await, "dropped table t, k");
    assert_eq!(query(&db, "SELECT count(*) FROM k").await, ["0"]);
    assert!(error(&db, "SELECT a FROM t").await.contains("no table 't'"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_takes_temporary_tables_back() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE pool (a int)").await;
    run(&db, "CREATE TEMP TABLE t AS SELECT 1 AS a").await;
    run(&db, "CREATE TEMP VIEW w AS SELECT 5 AS a").await;
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO t VALUES (2)").await;
    run(&db, "INSERT INTO pool SELECT * FROM t").await;
    run(&db, "CREATE TEMP TABLE u AS SELECT * FROM pool").await;
    run(&db, "DROP VIEW w").await;
    assert!(db.sql("INSERT INTO t VALUES ('x')").await.is_err());
    assert_eq!(
        query(&db, "SELECT count(*) FROM t UNION ALL SELECT count(*) FROM u").await,
        ["2", "2"]
    );
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, "SELECT a FROM t").await, ["1"]);
    assert_eq!(query(&db, "SELECT a FROM w").await, ["5"]);
    assert_eq!(query(&db, "SELECT count(*) FROM pool").await, ["0"]);
    assert!(error(&db, "SELECT * FROM u").await.contains("no table 'u'"));
    run(&db, "BEGIN").await;
    run(&db, "DROP TABLE t").await;
    run(&db, "CREATE TEMP TABLE t AS SELECT 9 AS b").await;
    run(&db, "COMMIT").await;
    assert_eq!(query(&db, "SELECT b FROM t").await, ["9"]);
    assert!(error(&db, "ROLLBACK").await.contains("no transaction"));
    assert_eq!(query(&db, "SELECT b FROM t").await, ["9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_tables_end_with_their_session() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t AS SELECT 1 AS a").await;
    let reader = reopen(&dir, &DatabaseOptions::default().with_read_only(true));
    run(&reader, "CREATE TEMP TABLE mine AS SELECT a + 1 AS b FROM t").await;
    run(&reader, "INSERT INTO mine VALUES (5)").await;
    assert_eq!(query(&reader, "SELECT sum(b) FROM mine").await, ["7"]);
    assert!(
        error(&reader.session(), "SELECT * FROM mine")
            .await
            .contains("no table 'mine'")
    );
    assert!(error(&db, "SELECT * FROM mine").await.contains("no table 'mine'"));
    drop((reader, db));
    let db = reopen(&dir, &DatabaseOptions::default());
    assert!(error(&db, "SELECT * FROM mine").await.contains("no table 'mine'"));
    assert_eq!(db.info().unwrap().tables.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_temporary_tables_do_not_have_is_refused() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TEMP VIEW w AS SELECT 1 AS a").await;
    run(&db, "CREATE TEMP TABLE t (a int)").await;
    assert_eq!(
        run(&db, "CREATE TEMP TABLE IF NOT EXISTS t (b int)").await,
        "table t is there already"
    );
    for (text, reason) in [
        ("CREATE TEMP TABLE t (b int)", "table 't' exists already"),
        ("CREATE TEMP TABLE w (b int)", "view 'w' exists already"),
        ("CREATE TEMP VIEW t AS SELECT 1", "table 't' exists already"),
        (
            "CREATE TEMP TABLE u (a int PRIMARY KEY)",
            "constraints in CREATE TEMP TABLE",
        ),
        (
            "CREATE TEMP TABLE u (a int, CHECK (a > 1))",
            "constraints in CREATE TEMP TABLE",
        ),
        (
            "CREATE TEMP TABLE u (a int) WITH (sort = 'a')",
            "WITH in CREATE TEMP TABLE",
        ),
        ("CREATE TEMP TABLE u (a int) ON COMMIT DROP", "ON COMMIT"),
        ("CREATE TEMP TABLE u (a int, A int)", "column a is named twice"),
        (
            "CREATE TEMP TABLE u AS SELECT * FROM nowhere",
            "no table 'nowhere'",
        ),
        (
            "ALTER TABLE t ADD COLUMN b int",
            "ALTER TABLE of the temporary table t",
        ),
        ("CREATE INDEX i ON t (a)", "an index on the temporary table t"),
        ("COPY t FROM 'x.csv'", "COPY into the temporary table t"),
        ("SHOW CREATE TABLE t", "temporary table t"),
        ("DROP VIEW t", "'t' is a table"),
        ("DROP TABLE w", "no table 'w'"),
    ] {
        let said = error(&db, text).await;
        assert!(said.contains(reason), "{text}: {said}");
    }
    let said = db.import(
        "t",
        &[],
        &ImportOptions::default(),
        &mut |_| (),
        &Default::default(),
    );
    assert!(
        said.unwrap_err()
            .to_string()
            .contains("import into the temporary table t")
    );
    run(&db, "CREATE OR REPLACE TEMP TABLE t AS SELECT 1 AS x, 'y' AS x").await;
    assert_eq!(query(&db, "SELECT x, x_1 FROM t").await, ["1|y"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_memory_is_that_of_queries() {
    let (dir, db) = new_pool();
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default().with_memory(Some(64 << 20)));
    let many = "CREATE TEMP TABLE t AS SELECT i AS a, repeat('x', 100) || i AS s FROM generate_series(1, 2000000) AS s(i)";
    let said = error(&db, many).await;
    assert!(said.contains("DRAM"), "{said}");
    assert!(error(&db, "SELECT * FROM t").await.contains("no table 't'"));
    // What was read is free again.
    run(
        &db,
        "CREATE TEMP TABLE t AS SELECT i AS a FROM generate_series(1, 100000) AS s(i)",
    )
    .await;
    for _ in 0..5 {
        run(&db, "UPDATE t SET a = a + 1").await;
    }
    assert_eq!(query(&db, "SELECT count(*), min(a) FROM t").await, ["100000|6"]);
}
