//! Defaults of columns: where they come from, where they are used, and what keeps them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use halocline_engine::{CompactOptions, Database, DatabaseOptions, EngineError, ImportOptions};

use super::support::{error, new_pool, query, reopen, run};

/// Every type, its default as SQL, and that as a query shows it.
const TYPES: [(&str, &str, &str); 17] = [
    ("boolean", "TRUE", "true"),
    ("tinyint", "-128", "-128"),
    ("smallint", "'7'", "7"),
    ("int", "42", "42"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ("real", "0.5", "5.000000000e-1"),
    ("double", "-1e100", "-1.000000000e100"),
    ("decimal(10,2)", "-1.25", "-1.25"),
    ("date", "DATE '2024-02-29'", "2024-02-29"),
    ("date", "'1969-12-31'", "1969-12-31"),
    ("time", "'23:59:59.5'", "23:59:59.500"),
    (
        "timestamp(3)",
        "TIMESTAMP '2024-02-29 12:30:00'",
        "2024-02-29T12:30:00",
    ),
    (
        "timestamp(6) with time zone",
        "'2024-02-29T12:30:00Z'",
        "2024-02-29T12:30:00Z",
    ),
    (
        "varchar",
        "'it''s a text that fits no view'",
        "it's a text that fits no view",
    ),
    ("varchar", "''", ""),
    ("bytea", "'ab'", "6162"),
];

fn list<T>(of: impl Fn(usize) -> T) -> Vec<T> {
    (0..TYPES.len()).map(of).collect()
}

async fn rows(db: &Database, condition: &str) -> Vec<String> {
    query(db, &format!("SELECT * FROM t WHERE {condition} ORDER BY i")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_has_defaults() {
    let (dir, db) = new_pool();
    let columns = list(|c| format!("c{c} {} NOT NULL DEFAULT {}", TYPES[c].0, TYPES[c].1)).join(", ");
    run(&db, &format!("CREATE TABLE t (i bigint, {columns})")).await;
    let shown = list(|c| TYPES[c].2).join("|");
    let words = list(|_| "DEFAULT").join(", ");
    // A record of the log, a plan, a query, many rows; with the columns left out or named.
    run(&db, "INSERT INTO t (i) VALUES (1), (2)").await;
    run(&db, &format!("INSERT INTO t VALUES (3, {words})")).await;
    run(&db, &format!("INSERT INTO t VALUES (2 + 2, {words})")).await;
    run(&db, "INSERT INTO t (i) SELECT 5").await;
    run(
        &db,
        "INSERT INTO t (i) SELECT i FROM generate_series(6, 3000) AS s(i)",
    )
    .await;
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![3001, 3002]));
    db.insert("t", &RecordBatch::try_from_iter([("i", numbers)]).unwrap())
        .unwrap();
    let all = rows(&db, "TRUE").await;
    assert_eq!(all.len(), 3002);
    for (number, row) in (1..).zip(&all) {
        assert_eq!(*row, format!("{number}|{shown}"));
    }
    run(&db, "UPDATE t SET c3 = 1, c14 = 'other', c8 = 0 WHERE i < 10").await;
    let set = "c3 = default, c14 = DEFAULT, c8 = Default";
    run(&db, &format!("UPDATE t SET {set}, i = -i WHERE i IN (2, 2000)")).await;
    assert_eq!(
        rows(&db, "i < 0").await,
        [format!("-2000|{shown}"), format!("-2|{shown}")]
    );
    run(&db, "UPDATE t SET c3 = DEFAULT, c8 = DEFAULT, c14 = DEFAULT").await;
    assert_eq!(
        query(
            &db,
            "SELECT count(*) FROM t WHERE c3 = 42 AND c8 = -1.25 AND c14 LIKE 'it''s%'"
        )
        .await,
        ["3002"]
    );
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_word_stands_beside_values_of_any_kind() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (i bigint, n int DEFAULT 7, s varchar DEFAULT 'it''s', p decimal(10,2))",
    )
    .await;
    run(
        &db,
        "INSERT INTO t VALUES (1, DEFAULT, 'x', DEFAULT), (2, 8, default, 1.5), (3, '9', NULL, '2')",
    )
    .await;
    run(&db, "INSERT INTO t (s, i) VALUES (DEFAULT, 4), (upper('y'), 5)").await;
    run(
        &db,
        "INSERT INTO t VALUES (6, 1 + 1, DEFAULT, DEFAULT), (7, DEFAULT, 'z', 3.25)",
    )
    .await;
    assert_eq!(
        rows(&db, "TRUE").await,
        [
            "1|7|x|NULL",
            "2|8|it's|1.50",
            "3|9|NULL|2.00",
            "4|7|it's|NULL",
            "5|7|Y|NULL",
            "6|2|it's|NULL",
            "7|7|z|3.25"
        ]
    );
    // A column may be named like the word, if it is quoted.
    run(&db, "CREATE TABLE u (\"default\" int DEFAULT 3, b int DEFAULT 4)").await;
    run(&db, "INSERT INTO u VALUES (1, 1)").await;
    run(&db, "UPDATE u SET b = \"default\" + 1, \"default\" = DEFAULT").await;
    assert_eq!(query(&db, "SELECT * FROM u").await, ["3|2"]);
    run(&db, "UPDATE u SET b = \"default\"").await;
    assert_eq!(query(&db, "SELECT * FROM u").await, ["3|3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_a_table_keeps_them() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (i bigint NOT NULL, k int DEFAULT 5) WITH (cluster = 'k')",
    )
    .await;
    run(&db, "CREATE INDEX x ON t (k)").await;
    run(&db, "INSERT INTO t (i) VALUES (1)").await;
    run(&db, "ALTER TABLE t ADD COLUMN s varchar NOT NULL DEFAULT 'new'").await;
    run(&db, "ALTER TABLE t ADD COLUMN m varchar").await;
    run(&db, "INSERT INTO t (i) VALUES (2)").await;
    run(&db, "ALTER TABLE t RENAME COLUMN k TO number").await;
    run(&db, "ALTER TABLE t RENAME TO u").await;
    run(&db, "DELETE FROM u WHERE i = 1").await;
    run(&db, "INSERT INTO u (i) VALUES (3)").await;
    let cancel = AtomicBool::new(false);
    let full = CompactOptions::default().with_full(true);
    db.compact(Some("u"), &full, &mut |_| (), &cancel).unwrap();
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    run(&db, "INSERT INTO u (i, m) VALUES (4, 'm')").await;
    run(&db, "BEGIN").await;
    run(&db, "ALTER TABLE u ADD COLUMN gone int DEFAULT 1").await;
    run(&db, "INSERT INTO u (i) VALUES (5)").await;
    assert_eq!(
        query(&db, "SELECT * FROM u WHERE i = 5").await,
        ["5|5|new|NULL|1"]
    );
    run(&db, "ROLLBACK").await;
    run(&db, "SET halocline.index = force").await;
    assert_eq!(
        query(&db, "SELECT * FROM u WHERE number = 5 ORDER BY i").await,
        ["2|5|new|NULL", "3|5|new|NULL", "4|5|new|m"]
    );
    run(&db, "TRUNCATE u").await;
    run(&db, "INSERT INTO u (i) VALUES (6)").await;
    assert_eq!(query(&db, "SELECT * FROM u").await, ["6|5|new|NULL"]);
    let columns = &db.info().unwrap().tables[0].columns;
    let defaults: Vec<Option<&str>> = columns.iter().map(|column| column.default.as_deref()).collect();
    assert_eq!(defaults, [None, Some("5"), Some("new"), None]);
    // A file has all columns.
    let file = dir.path().join("u.csv");
    std::fs::write(&file, "i,number,s,m\n7,,x,\n").unwrap();
    let options = ImportOptions::default().with_append(true);
    db.import("u", &[file], &options, &mut |_| (), &cancel).unwrap();
    assert_eq!(query(&db, "SELECT * FROM u WHERE i = 7").await, ["7|NULL|x|NULL"]);
    // A new table of the name has its own.
    run(&db, "CREATE OR REPLACE TABLE u (i int, number int)").await;
    run(&db, "INSERT INTO u (i) VALUES (8)").await;
    assert_eq!(query(&db, "SELECT * FROM u").await, ["8|NULL"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_is_a_literal_that_fits() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i int NOT NULL)").await;
    for (default, reason) in [
        ("int DEFAULT 'x'", "'x' is not a value of type int"),
        ("tinyint DEFAULT 128", "'128' is not a value of type tinyint"),
        (
            "date DEFAULT '2023-02-29'",
            "'2023-02-29' is not a value of type date",
        ),
        ("date DEFAULT DATE 'x'", "'x' is not a value of type date"),
        ("timestamp DEFAULT now()", "now() is no literal; give a number"),
        ("int DEFAULT 1 + 1", "1 + 1 is no literal"),
        ("int DEFAULT default", "default is no literal"),
        ("int DEFAULT i", "i is no literal"),
        ("int NOT NULL DEFAULT NULL", "is NULL, but the column is NOT NULL"),
        (
            "decimal(38,2) DEFAULT '1234567890123456789012345678901234567'",
            "'1234567890123456789012345678901234567' is not a value of type decimal(38,2)",
        ),
    ] {
        for text in [
            format!("CREATE TABLE u (a int, n {default})"),
            format!("ALTER TABLE t ADD COLUMN n {default}"),
        ] {
            let refused = db.sql(&text).await.err();
            assert!(
                matches!(&refused, Some(EngineError::Default { column, .. }) if column == "n"),
                "{text}: {refused:?}"
            );
            let found = refused.map(|error| error.to_string()).unwrap_or_default();
            let expected = format!(", column n: its default {reason}");
            assert!(found.contains(&expected), "{text}: {found}");
        }
    }
    assert_eq!(db.info().unwrap().tables.len(), 1);
    // Without a default the word means NULL.
    run(&db, "ALTER TABLE t ADD COLUMN n int DEFAULT NULL").await;
    run(&db, "INSERT INTO t VALUES (1, DEFAULT)").await;
    assert_eq!(rows(&db, "TRUE").await, ["1|NULL"]);
    for text in ["INSERT INTO t VALUES (DEFAULT, 1)", "UPDATE t SET i = DEFAULT"] {
        let found = error(&db, text).await;
        assert!(found.contains("row 1, column i: is NULL"), "{text}: {found}");
    }
    assert!(error(&db, "SELECT DEFAULT").await.contains("default"));
}
