//! `CREATE TABLE … PRIMARY KEY … AS`, compared with an ordinary table of the same query.

use halocline_engine::{Database, DatabaseOptions, EngineError};

use super::support::{error, new_pool, query, reopen, run};

/// Returns the number of stores with rows of tables.
fn stores_with_rows(db: &Database) -> usize {
    let names = db.stores().unwrap().names();
    names.iter().filter(|name| name.starts_with("sql/rows/")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_and_types_are_those_of_the_query() {
    let (dir, db) = new_pool();
    let rows = "SELECT i % 7 AS a, 'x' || i AS b, DATE '2026-01-01' + CAST(i AS int) AS day, \
                CASE WHEN i % 3 = 0 THEN NULL ELSE CAST(i AS decimal(12, 2)) / 4 END AS d, i * 1.5e0 AS f, i > 9 AS g \
                FROM generate_series(1, 20000) AS s(i)";
    run(&db, &format!("CREATE TABLE plain AS {rows}")).await;
    let message = run(&db, &format!("CREATE TABLE keyed (PRIMARY KEY (b, a)) AS {rows}")).await;
    assert_eq!(message, "table keyed: 20000 rows");
    let types = |table: &str| {
        format!(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{table}' ORDER BY 1"
        )
    };
    assert_eq!(
        query(&db, &types("keyed")).await,
        query(&db, &types("plain")).await
    );
    let all = |table: &str| format!("SELECT * FROM {table} ORDER BY b, a");
    assert_eq!(query(&db, &all("keyed")).await, query(&db, &all("plain")).await);
    let message = error(&db, "INSERT INTO keyed (b, a) VALUES ('x7', 0)").await;
    assert!(message.contains("primary key (x7, 0) already"), "{message}");
    assert_eq!(query(&db, "SELECT a FROM keyed WHERE b = 'x13'").await, ["6"]);

    // From the table itself, which it replaces.
    run(
        &db,
        "CREATE OR REPLACE TABLE keyed (PRIMARY KEY (a)) AS SELECT a, count(*) AS n FROM keyed GROUP BY a",
    )
    .await;
    let counts = "SELECT a, n FROM keyed";
    let expected = query(&db, "SELECT a, count(*) FROM plain GROUP BY a ORDER BY a").await;
    assert_eq!(query(&db, counts).await, expected);
    assert_eq!(stores_with_rows(&db), 1);
    let message = run(
        &db,
        "CREATE TABLE IF NOT EXISTS keyed (PRIMARY KEY (z)) AS SELECT 1 AS z",
    )
    .await;
    assert_eq!(message, "table keyed is there already");
    run(
        &db,
        "CREATE TABLE none (PRIMARY KEY (a)) AS SELECT * FROM plain WHERE false",
    )
    .await;
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, counts).await, expected);
    assert_eq!(query(&db, "SELECT count(*) FROM none").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listed_columns_are_cast_to_and_kept() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (id bigint PRIMARY KEY, name text NOT NULL DEFAULT 'none', at date, n smallint DEFAULT 7) \
         AS SELECT CAST(i AS int) AS x, i, '2026-01-0' || i, i * 10 FROM generate_series(1, 3) AS s(i)",
    )
    .await;
    let all = "SELECT id, name, at, n, arrow_typeof(id), arrow_typeof(n) FROM t";
    let row = |i: i32| format!("{i}|{i}|2026-01-0{i}|{}|Int64|Int16", i * 10);
    assert_eq!(query(&db, all).await, [row(1), row(2), row(3)]);
    run(&db, "INSERT INTO t (id) VALUES (9)").await;
    assert_eq!(
        query(&db, "SELECT name, at, n FROM t WHERE id = 9").await,
        ["none|NULL|7"]
    );
    run(
        &db,
        "CREATE TABLE u (b text, \"A\" int, PRIMARY KEY (\"A\", b)) AS VALUES ('x', 2), ('y', 1)",
    )
    .await;
    assert_eq!(query(&db, "SELECT b FROM u").await, ["y", "x"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_leave_no_table() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE plain AS SELECT 1 AS a").await;
    run(
        &db,
        "CREATE TABLE old (PRIMARY KEY (a)) AS SELECT 1 AS a, 'kept' AS b",
    )
    .await;
    let series = "FROM generate_series(1, 30000) AS s(i)";
    for (text, reason) in [
        (
            format!("CREATE TABLE t (PRIMARY KEY (a)) AS SELECT i % 20000 AS a {series} ORDER BY i"),
            "CREATE TABLE t, row 20001: there is a row with the primary key (1) already; give one row for each key",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (a, b)) AS VALUES (1, 'x'), (2, 'y'), (1, 'x')".into(),
            "names a column that the table does not have",
        ),
        (
            "CREATE TABLE t (a int, b text, PRIMARY KEY (a, b)) AS VALUES (1, 'x'), (2, 'y'), (1, 'x')".into(),
            "CREATE TABLE t, row 3: there is a row with the primary key (1, x) already",
        ),
        (
            format!(
                "CREATE TABLE t (PRIMARY KEY (a)) AS SELECT CASE WHEN i < 25000 THEN i END AS a {series} ORDER BY i"
            ),
            "CREATE TABLE t, row 25000, primary key (NULL), column a: is NULL",
        ),
        (
            format!("CREATE TABLE t (id smallint PRIMARY KEY, b bigint) AS SELECT i + 10000, i {series} ORDER BY i"),
            "CREATE TABLE t, row 22768, primary key (32768), column id: '32768' is not a value of type smallint",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, b text NOT NULL) AS SELECT 1, NULL".into(),
            "row 1, primary key (1), column b: is NULL, but the column is NOT NULL",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (b)) AS SELECT 1 AS a, repeat('long', 300) AS b".into(),
            "row 1, primary key (longlonglonglonglonglonglonglonglonglong…): the key takes 1202 bytes",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY) AS SELECT 1, 2".into(),
            "the query has 2 columns, but 1 are listed",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (z)) AS SELECT 1 AS a".into(),
            "names a column that the table does not have",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (a)) AS SELECT 1 AS a, 1 / (i - 1) AS b FROM generate_series(1, 2) AS s(i)"
                .into(),
            "ivide by zero",
        ),
        (
            "CREATE OR REPLACE TABLE old (PRIMARY KEY (a)) AS SELECT NULL AS a".into(),
            "column a: is NULL",
        ),
        (
            "CREATE TABLE old (PRIMARY KEY (a)) AS SELECT 1 AS a".into(),
            "table 'old' exists already",
        ),
        (
            "CREATE OR REPLACE TABLE plain (PRIMARY KEY (a)) AS SELECT 1 AS a".into(),
            "differs in having a primary key",
        ),
    ] {
        let message = error(&db, &text).await;
        assert!(message.contains(reason), "{text}: {message}");
        assert_eq!(stores_with_rows(&db), 1, "{text}");
    }
    assert_eq!(query(&db, "SELECT a, b FROM old").await, ["1|kept"]);
    run(&db, "BEGIN").await;
    let within = db.sql("CREATE TABLE t (PRIMARY KEY (a)) AS SELECT 1 AS a").await;
    assert!(matches!(within.err(), Some(EngineError::InTransaction { .. })));
    run(&db, "ROLLBACK").await;
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    assert_eq!(query(&db, tables).await, ["old", "plain"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forms_that_cannot_be_read_say_what_to_write() {
    let (_dir, db) = new_pool();
    for (text, reason) in [
        (
            "CREATE TABLE t (a, b, PRIMARY KEY (a)) AS SELECT 1, 2",
            "the column a without a type in CREATE TABLE … AS is not supported; give each column its type, or none of \
             them: CREATE TABLE t (PRIMARY KEY (a, b)) AS SELECT …; or CREATE TABLE t (…) first, then INSERT",
        ),
        (
            "create or replace table t (a int, b PRIMARY KEY) as select 1, 2",
            "the column b without a type",
        ),
        (
            "CREATE TABLE IF NOT EXISTS x.t (d decimal(4, 1), key) AS SELECT 1, 2",
            "the column key without a type",
        ),
        (
            "CREATE TABLE t PRIMARY KEY (a) AS SELECT 1 AS a",
            "CREATE TABLE t (PRIMARY KEY (a)) AS SELECT",
        ),
        (
            "CREATE TABLE t (a int, b text) AS SELECT 1, 'x'",
            "a column list without PRIMARY KEY in CREATE TABLE … AS is not supported; name and cast the columns",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (a)) WITH (cluster = 'a') AS SELECT 1 AS a",
            "its rows are in the order of the key",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (a), UNIQUE (b)) AS SELECT 1 AS a, 2 AS b UNION ALL SELECT 2, 2",
            "UNIQUE (b): there is a row with (2) already",
        ),
    ] {
        let message = error(&db, text).await;
        assert!(message.contains(reason), "{text}: {message}");
    }
}
