//! Prepared statements: `Database::prepare` and PREPARE, EXECUTE, DEALLOCATE.

use datafusion::common::ScalarValue;
use halocline_engine::{Database, DatabaseOptions, EngineError, PreparedStatement, params};

use super::support::{error, lines, new_pool, query, reopen, run};

async fn answer<const N: usize>(statement: &PreparedStatement, values: [ScalarValue; N]) -> Vec<String> {
    let result = statement.execute(values.clone()).await;
    let result = result.unwrap_or_else(|error| panic!("{values:?}: {error}"));
    let batches = result
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{values:?}: {error}"));
    let mut rows = lines(&batches);
    rows.sort();
    rows
}

async fn refused<const N: usize>(statement: &PreparedStatement, values: [ScalarValue; N]) -> String {
    match statement.execute(values).await {
        Err(error @ EngineError::Parameter { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it ran"),
    }
}

/// A table of ten rows with `a` from 0 to 9.
async fn ten_rows() -> Database {
    let db = Database::in_memory(&DatabaseOptions::default()).unwrap();
    run(
        &db,
        "CREATE TABLE t AS SELECT CAST(i AS int) AS a, CAST(CAST(i AS decimal(9, 2)) / 10 AS decimal(9, 2)) AS price, 'row ' || i AS name, \
         DATE '2026-01-01' + CAST(i AS int) AS day, i % 2 = 0 AS even FROM generate_series(0, 9) AS s(i)",
    )
    .await;
    db
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_runs_with_different_values() {
    let db = ten_rows().await;
    let by_range = db
        .prepare("SELECT a FROM t WHERE a BETWEEN $1 AND $2")
        .await
        .unwrap();
    for (from, to) in [(2, 4), (4, 2), (0, 100), (-3, 0)] {
        let expected: Vec<String> = (from.max(0)..=to.min(9)).map(|a: i32| a.to_string()).collect();
        assert_eq!(answer(&by_range, params![from, to]).await, expected);
    }
    let by_name = db
        .prepare("SELECT count(*) FROM t WHERE name LIKE ? OR name = ?")
        .await
        .unwrap();
    assert_eq!(answer(&by_name, params!["row%", ""]).await, ["10"]);
    assert_eq!(answer(&by_name, params!["%1", "row 2"]).await, ["2"]);
    let again = db
        .prepare("SELECT $2, a FROM t WHERE a = $1 AND name <> $2")
        .await
        .unwrap();
    assert_eq!(answer(&again, params![3, "x"]).await, ["x|3"]);
    assert_eq!(answer(&again, params![3, "row 3"]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_change_the_plan_take_effect() {
    let db = ten_rows().await;
    let limited = db
        .prepare("SELECT a FROM t WHERE a >= $1 ORDER BY a LIMIT $2 OFFSET $3")
        .await
        .unwrap();
    assert_eq!(answer(&limited, params![2, 2, 1]).await, ["3", "4"]);
    assert_eq!(answer(&limited, params![2, 1, 0]).await, ["2"]);
    assert_eq!(answer(&limited, params![5, 2, 1]).await, ["6", "7"]);
    // A decimal in a division is a float, and in a list of outputs a column of that type.
    let divided = db
        .prepare("SELECT $1 / 3, arrow_typeof($1) FROM t WHERE a = $2")
        .await
        .unwrap();
    let decimal = ScalarValue::Decimal128(Some(870), 9, 2);
    let expected = db.sql_with(
        "SELECT $1 / 3, arrow_typeof($1) FROM t WHERE a = $2",
        [decimal.clone(), ScalarValue::from(1)],
    );
    let expected = lines(&expected.await.unwrap().collect().await.unwrap());
    assert_eq!(answer(&divided, [decimal, ScalarValue::from(1)]).await, expected);
    assert_eq!(answer(&divided, params![9, 1]).await, ["3|Int64"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_is_a_value_of_every_type() {
    let db = ten_rows().await;
    let equal = db.prepare("SELECT a FROM t WHERE a = $1").await.unwrap();
    assert_eq!(answer(&equal, [ScalarValue::Null]).await, Vec::<String>::new());
    assert_eq!(
        answer(&equal, [ScalarValue::Int32(None)]).await,
        Vec::<String>::new()
    );
    assert_eq!(answer(&equal, params![1]).await, ["1"]);
    let not_in = db
        .prepare("SELECT a FROM t WHERE a NOT IN ($1, 5)")
        .await
        .unwrap();
    assert_eq!(answer(&not_in, [ScalarValue::Null]).await, Vec::<String>::new());
    assert_eq!(answer(&not_in, params![4]).await.len(), 8);
    let same = db
        .prepare("SELECT a FROM t WHERE (name IS NOT DISTINCT FROM $1) OR a = $2")
        .await
        .unwrap();
    assert_eq!(
        answer(&same, [ScalarValue::Null, ScalarValue::from(7)]).await,
        ["7"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_and_counts_are_checked() {
    let db = ten_rows().await;
    let statement = db
        .prepare("SELECT a FROM t WHERE a = $1 AND name = $2 AND day < $3 AND even = $4")
        .await
        .unwrap();
    let types: Vec<String> = statement
        .parameter_types()
        .iter()
        .map(|t| t.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(types, ["Int32", "Utf8View", "Date32", "Boolean"]);
    let day = || ScalarValue::from("2026-01-05");
    let good = [
        ScalarValue::from(2),
        ScalarValue::from("row 2"),
        day(),
        ScalarValue::from(true),
    ];
    assert_eq!(answer(&statement, good).await, ["2"]);
    let text = refused(&statement, params![1, "x"]).await;
    assert!(
        text.contains("parameter $3: the statement has 4 parameters, and 2 values are given"),
        "{text}"
    );
    let text = refused(&statement, params![1, "x", "2026-01-01", true, 5]).await;
    assert!(text.contains("parameter $5"), "{text}");
    let text = refused(&statement, params!["one", "x", "2026-01-01", true]).await;
    assert!(text.starts_with("parameter $1: it is of type int"), "{text}");
    let text = refused(&statement, params![1, 2, "2026-01-01", true]).await;
    assert!(text.starts_with("parameter $2: it is of type"), "{text}");
    let text = refused(&statement, params![1, "x", "yesterday", true]).await;
    assert!(text.starts_with("parameter $3: it is of type date"), "{text}");
    let text = refused(&statement, params![1, "x", "2026-01-01", 1]).await;
    assert!(text.starts_with("parameter $4: it is of type boolean"), "{text}");
    // Numbers of any type can be compared with each other.
    let price = db.prepare("SELECT a FROM t WHERE price = $1").await.unwrap();
    assert_eq!(
        answer(&price, [ScalarValue::Decimal128(Some(30), 2, 2)]).await,
        ["3"]
    );
    assert_eq!(answer(&price, params![0.3]).await, ["3"]);
    assert_eq!(answer(&price, params![0]).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_prepared_is_refused_at_once() {
    let db = ten_rows().await;
    for (text, expected) in [
        (
            "SELECT a FROM missing WHERE a = $1",
            "there is no table 'missing'",
        ),
        ("SELECT b FROM t WHERE a = $1", "b"),
        (
            "SELECT a FROM t WHERE a = $2",
            "parameter $1: it is not in the statement",
        ),
        ("SELECT a FROM t WHERE a = $name", "write parameters as $1, $2"),
        ("SELECT a FROM t WHERE a = ? OR a = $1", "use one kind"),
        ("BEGIN", "preparing anything but SELECT"),
        ("CREATE TABLE u (a int)", "preparing anything but SELECT"),
        ("SELECT 1; SELECT 2", "send them one by one"),
        ("", "no statement"),
    ] {
        let error = db.prepare(text).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_change_rows() {
    let db = ten_rows().await;
    let insert = db
        .prepare("INSERT INTO t (a, name, price) VALUES ($1, upper($2), $3)")
        .await
        .unwrap();
    for a in 10..13 {
        let price = ScalarValue::Decimal128(Some(a * 5), 6, 1);
        insert
            .execute([ScalarValue::from(a as i64), ScalarValue::from("new"), price])
            .await
            .unwrap();
    }
    let update = db.prepare("UPDATE t SET name = $2 WHERE a = $1").await.unwrap();
    assert_eq!(
        update.execute(params![11, "it's"]).await.unwrap().message(),
        Some("updated 1 row")
    );
    let delete = db.prepare("DELETE FROM t WHERE a IN (?, ?)").await.unwrap();
    assert_eq!(
        delete.execute(params![0, 12]).await.unwrap().message(),
        Some("deleted 2 rows")
    );
    let rows = query(&db, "SELECT a, name, price FROM t WHERE a > 9 ORDER BY a").await;
    assert_eq!(rows, ["10|NEW|5.00", "11|it's|5.50"]);
    assert!(insert.execute(params![1, "x"]).await.is_err());
    assert!(insert.execute(params!["not a number", "x", 1]).await.is_err());
    assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["11"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_definitions_of_a_table_are_noticed() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS a, i * 2 AS b FROM generate_series(1, 100) AS s(i)",
    )
    .await;
    let statement = db.prepare("SELECT * FROM t WHERE a = $1").await.unwrap();
    assert_eq!(answer(&statement, params![7]).await, ["7|14"]);
    run(&db, "CREATE INDEX i ON t USING elf (a)").await;
    assert_eq!(answer(&statement, params![8]).await, ["8|16"]);
    run(&db, "ALTER TABLE t ADD COLUMN c int DEFAULT 5").await;
    assert_eq!(answer(&statement, params![7]).await, ["7|14|5"]);
    run(&db, "DROP INDEX i").await;
    assert_eq!(answer(&statement, params![8]).await, ["8|16|5"]);
    run(&db, "DROP TABLE t").await;
    let gone = match statement.execute(params![7]).await {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it ran"),
    };
    assert!(gone.contains("there is no table 't'"), "{gone}");
    run(
        &db,
        "CREATE TABLE t AS SELECT 'x' || i AS b, 'y' || i AS a FROM generate_series(1, 3) AS s(i)",
    )
    .await;
    assert_eq!(answer(&statement, params!["y2"]).await, ["x2|y2"]);
    assert!(refused(&statement, params![2]).await.contains("$1"));
    run(&db, "DROP TABLE t").await;
    run(&db, "CREATE TABLE t (a bigint PRIMARY KEY, b text)").await;
    run(&db, "INSERT INTO t VALUES (1, 'one'), (2, 'two')").await;
    assert_eq!(answer(&statement, params![2]).await, ["2|two"]);
    run(&db, "DROP TABLE t").await;
    let file = dir.path().join("t.parquet");
    let file = file.to_str().unwrap();
    query(&db, &format!("COPY (SELECT 4 AS a, 'file' AS b) TO '{file}'")).await;
    run(
        &db,
        &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{file}'"),
    )
    .await;
    assert_eq!(answer(&statement, params![4]).await, ["4|file"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_another_handle_are_seen() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS a, i * 2 AS b FROM generate_series(1, 100) AS s(i)",
    )
    .await;
    let other = reopen(&dir, &DatabaseOptions::default());
    let statement = other.prepare("SELECT b FROM t WHERE a = $1").await.unwrap();
    assert_eq!(answer(&statement, params![7]).await, ["14"]);
    run(&db, "INSERT INTO t VALUES (7, 0)").await;
    assert_eq!(answer(&statement, params![7]).await, ["0", "14"]);
    run(&db, "DELETE FROM t WHERE b = 14").await;
    assert_eq!(answer(&statement, params![7]).await, ["0"]);
    run(&db, "CREATE INDEX i ON t USING elf (a)").await;
    run(&db, "VACUUM FULL t").await;
    assert_eq!(answer(&statement, params![7]).await, ["0"]);
    run(&db, "CREATE OR REPLACE TABLE t AS SELECT 'new' AS b, 7 AS a").await;
    assert_eq!(answer(&statement, params![7]).await, ["new"]);
    run(&db, "DROP TABLE t").await;
    assert!(statement.execute(params![7]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_transaction_sees_its_own_version() {
    let db = ten_rows().await;
    let other = db.session();
    let text = "SELECT count(*) FROM t WHERE a >= $1";
    let (here, there) = (
        db.prepare(text).await.unwrap(),
        other.prepare(text).await.unwrap(),
    );
    let all = "SELECT count(*) FROM t WHERE a >= $1 AND a < $2";
    let (here_all, there_all) = (db.prepare(all).await.unwrap(), other.prepare(all).await.unwrap());
    run(&db, "BEGIN").await;
    assert_eq!(answer(&here, params![5]).await, ["5"]);
    run(&other, "INSERT INTO t (a) VALUES (100)").await;
    assert_eq!(answer(&here, params![5]).await, ["5"]);
    assert_eq!(answer(&there, params![5]).await, ["6"]);
    run(&db, "COMMIT").await;
    assert_eq!(answer(&here, params![5]).await, ["6"]);
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO t (a) VALUES (200), (300)").await;
    assert_eq!(answer(&here, params![5]).await, ["8"]);
    assert_eq!(answer(&here_all, params![5, 250]).await, ["7"]);
    assert_eq!(answer(&there, params![5]).await, ["6"]);
    assert_eq!(answer(&there_all, params![5, 250]).await, ["6"]);
    run(&db, "CREATE TABLE u (a int)").await;
    let inside = db.prepare("SELECT count(*) FROM u WHERE a = $1").await.unwrap();
    assert_eq!(answer(&inside, params![1]).await, ["0"]);
    run(&db, "INSERT INTO u VALUES (1)").await;
    assert_eq!(answer(&inside, params![1]).await, ["1"]);
    run(&db, "ROLLBACK").await;
    assert_eq!(answer(&here, params![5]).await, ["6"]);
    assert!(inside.execute(params![1]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_with_a_primary_key() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE users (org text, id bigint, name text, PRIMARY KEY (org, id))",
    )
    .await;
    let insert = db.prepare("INSERT INTO users VALUES ($1, $2, $3)").await.unwrap();
    for id in 0..50 {
        let org = if id % 2 == 0 { "even" } else { "odd" };
        insert
            .execute(params![org, id, format!("user {id}")])
            .await
            .unwrap();
    }
    let by_key = db
        .prepare("SELECT name FROM users WHERE org = ? AND id = ?")
        .await
        .unwrap();
    assert_eq!(answer(&by_key, params!["odd", 7]).await, ["user 7"]);
    assert_eq!(answer(&by_key, params!["even", 7]).await, Vec::<String>::new());
    let by_range = db
        .prepare("SELECT id FROM users WHERE org = $1 AND id < $2 AND name LIKE $3")
        .await
        .unwrap();
    assert_eq!(
        answer(&by_range, params!["odd", 6, "user%"]).await,
        ["1", "3", "5"]
    );
    let upsert = "INSERT INTO users VALUES ($1, $2, $3) ON CONFLICT (org, id) DO UPDATE SET name = excluded.name || $4";
    let upsert = db.prepare(upsert).await.unwrap();
    upsert.execute(params!["odd", 7, "seven", "!"]).await.unwrap();
    assert_eq!(answer(&by_key, params!["odd", 7]).await, ["seven!"]);
    let other = db.session();
    run(&db, "BEGIN").await;
    let delete = db.prepare("DELETE FROM users WHERE org = $1").await.unwrap();
    delete.execute(params!["odd"]).await.unwrap();
    assert_eq!(answer(&by_key, params!["odd", 7]).await, Vec::<String>::new());
    let beside = other
        .prepare("SELECT name FROM users WHERE org = ? AND id = ?")
        .await
        .unwrap();
    assert_eq!(answer(&beside, params!["odd", 7]).await, ["seven!"]);
    run(&db, "ROLLBACK").await;
    assert_eq!(answer(&by_key, params!["odd", 7]).await, ["seven!"]);
}

/// A statement that is prepared in a transaction does not decide which version the transaction sees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preparing_is_no_read_of_a_transaction() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE k (id bigint PRIMARY KEY, v int)").await;
    run(&db, "CREATE TABLE t (v int)").await;
    let other = db.session();
    run(&db, "BEGIN").await;
    let keyed = db.prepare("SELECT count(*) FROM k WHERE id > $1").await.unwrap();
    let plain = db.prepare("SELECT count(*) FROM t WHERE v > $1").await.unwrap();
    run(&other, "INSERT INTO k VALUES (1, 1)").await;
    run(&other, "INSERT INTO t VALUES (1)").await;
    assert_eq!(answer(&plain, params![0]).await, ["1"]);
    assert_eq!(answer(&keyed, params![0]).await, ["1"]);
    run(&other, "INSERT INTO k VALUES (2, 1)").await;
    run(&other, "INSERT INTO t VALUES (1)").await;
    assert_eq!(answer(&plain, params![0]).await, ["1"]);
    assert_eq!(answer(&keyed, params![0]).await, ["1"]);
    run(&db, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_sql_prepare_execute_and_deallocate() {
    let db = ten_rows().await;
    assert_eq!(
        run(
            &db,
            "PREPARE near (int, int) AS SELECT a FROM t WHERE a BETWEEN $1 AND $2"
        )
        .await,
        "prepared statement near"
    );
    assert_eq!(query(&db, "EXECUTE near (3, 1 + 3)").await, ["3", "4"]);
    assert_eq!(query(&db, "EXECUTE near(-1, 0);").await, ["0"]);
    assert_eq!(query(&db, "EXECUTE near (NULL, 2)").await, Vec::<String>::new());
    run(&db, "PREPARE by_name AS SELECT a FROM t WHERE name = ?").await;
    assert_eq!(query(&db, "EXECUTE by_name ('row ' || 7)").await, ["7"]);
    run(&db, "PREPARE add AS INSERT INTO t (a, name) VALUES ($1, $2)").await;
    assert_eq!(run(&db, "EXECUTE add (77, 'it''s')").await, "inserted 1 row");
    assert_eq!(query(&db, "EXECUTE by_name ('it''s')").await, ["77"]);
    run(&db, "PREPARE plain AS SELECT count(*) FROM t").await;
    assert_eq!(query(&db, "EXECUTE plain").await, ["11"]);

    let text = error(&db, "PREPARE near AS SELECT 1").await;
    assert!(
        text.contains("prepared statement") && text.contains("DEALLOCATE"),
        "{text}"
    );
    let text = error(&db, "EXECUTE far (1)").await;
    assert!(
        text.contains("no prepared statement 'far'; it has add, by_name, near, plain"),
        "{text}"
    );
    let text = error(&db, "EXECUTE near (1)").await;
    assert!(
        text.contains("parameter $2: the statement has 2 parameters, and 1 value is given"),
        "{text}"
    );
    let text = error(&db, "EXECUTE near (1, 1.5)").await;
    assert!(text.starts_with("parameter $2: it is of type int"), "{text}");
    let text = error(&db, "EXECUTE near (1, 'x')").await;
    assert!(text.starts_with("parameter $2: it is of type int"), "{text}");
    let text = error(&db, "PREPARE wrong (int) AS SELECT $1 + $2").await;
    assert!(text.contains("2 parameters, and 1 types are declared"), "{text}");
    assert!(
        error(&db, "PREPARE wrong AS SELECT a FROM missing WHERE a = $1")
            .await
            .contains("missing")
    );
    assert!(
        error(&db, "PREPARE wrong AS VACUUM")
            .await
            .contains("preparing anything but")
    );

    // Names belong to the session.
    assert!(
        error(&db.session(), "EXECUTE near (1, 2)")
            .await
            .contains("no prepared statement")
    );
    assert_eq!(
        run(&db, "DEALLOCATE near").await,
        "removed prepared statement near"
    );
    assert!(
        error(&db, "EXECUTE near (1, 2)")
            .await
            .contains("no prepared statement 'near'")
    );
    assert!(
        error(&db, "DEALLOCATE PREPARE near")
            .await
            .contains("no prepared statement 'near'")
    );
    assert_eq!(run(&db, "DEALLOCATE ALL").await, "removed 3 prepared statements");
    assert!(
        error(&db, "EXECUTE plain")
            .await
            .contains("it has no prepared statements yet")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_apply_to_statements_that_are_prepared() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS a, i AS b FROM generate_series(1, 1000) AS s(i)",
    )
    .await;
    run(&db, "CREATE INDEX i ON t USING elf (a)").await;
    let statement = db.prepare("SELECT b FROM t WHERE a = $1").await.unwrap();
    for setting in ["off", "force", "auto"] {
        run(&db, &format!("SET halocline.index = {setting}")).await;
        assert_eq!(answer(&statement, params![77]).await, ["77"]);
    }
    for setting in ["off", "on"] {
        run(&db, &format!("SET halocline.plan_cache = {setting}")).await;
        assert_eq!(answer(&statement, params![78]).await, ["78"]);
    }
    run(&db, "SET datafusion.execution.batch_size = 10").await;
    let many = db.prepare("SELECT b FROM t WHERE a < $1").await.unwrap();
    for _ in 0..2 {
        let batches = many.execute(params![100]).await.unwrap().collect().await.unwrap();
        assert!(batches.iter().all(|batch| batch.num_rows() <= 10));
        assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 99);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_sessions_at_the_same_time() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i % 100 AS a, i AS b FROM generate_series(0, 9999) AS s(i)",
    )
    .await;
    run(&db, "CREATE INDEX i ON t USING elf (a)").await;
    let shared = db
        .prepare("SELECT count(*) AS n, min(b), a FROM t WHERE a = $1 GROUP BY a")
        .await
        .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for reader in 0..4i64 {
        let statement = match reader {
            0 | 1 => shared.clone(),
            _ => db
                .session()
                .prepare("SELECT count(*) AS n, min(b), a FROM t WHERE a = $1 GROUP BY a")
                .await
                .unwrap(),
        };
        tasks.spawn(async move {
            for round in 0..50 {
                let a = (reader * 31 + round) % 100;
                let rows = answer(&statement, params![a]).await;
                // The writer adds rows with larger numbers.
                let [row] = rows.as_slice() else {
                    panic!("{rows:?}")
                };
                let parts: Vec<i64> = row.split('|').map(|part| part.parse().unwrap()).collect();
                assert!(parts[0] >= 100 && parts[1] == a && parts[2] == a, "{row}");
            }
        });
    }
    let insert = db
        .session()
        .prepare("INSERT INTO t VALUES ($1, $2)")
        .await
        .unwrap();
    tasks.spawn(async move {
        for b in 10_000..10_050i64 {
            insert.execute(params![b % 100, b]).await.unwrap();
        }
    });
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(answer(&shared, params![7]).await, ["101|7|7"]);
}
