//! INSERT, UPDATE, DELETE, TRUNCATE, ALTER TABLE and COPY FROM: what they do and what they say.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use halocline_engine::{Database, DatabaseOptions, EngineError};

use super::support::{error, new_pool, query, reopen, run};

const TABLE: &str = "CREATE TABLE t (i int NOT NULL, s varchar, p decimal(10,2), d date)";

async fn filled() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    assert_eq!(run(&db, TABLE).await, "table t: 0 rows");
    let rows = "INSERT INTO t VALUES (1, 'a', 1.5, '2020-01-01'), (2, NULL, NULL, DATE '2021-02-03'), (3, 'c', -7, NULL)";
    assert_eq!(run(&db, rows).await, "inserted 3 rows");
    (dir, db)
}

async fn all(db: &Database) -> Vec<String> {
    query(db, "SELECT * FROM t ORDER BY i").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_and_go() {
    let (dir, db) = filled().await;
    let three = ["1|a|1.50|2020-01-01", "2|NULL|NULL|2021-02-03", "3|c|-7.00|NULL"];
    assert_eq!(all(&db).await, three);
    assert_eq!(
        run(&db, "INSERT INTO t (p, i) SELECT p * 2, i + 10 FROM t").await,
        "inserted 3 rows"
    );
    assert_eq!(
        query(&db, "SELECT i, s, p FROM t WHERE i > 10 ORDER BY i").await[0],
        "11|NULL|3.00"
    );
    assert_eq!(
        run(&db, "UPDATE t SET s = 'x', i = i + 1 WHERE i > 11").await,
        "updated 2 rows"
    );
    assert_eq!(
        run(&db, "DELETE FROM t AS u WHERE u.p IS NULL").await,
        "deleted 2 rows"
    );
    assert_eq!(
        all(&db).await,
        [
            "1|a|1.50|2020-01-01",
            "3|c|-7.00|NULL",
            "11|NULL|3.00|NULL",
            "14|x|-14.00|NULL"
        ]
    );
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(
        query(&db, "SELECT count(*), min(i), max(i), count(s) FROM t").await,
        ["4|1|14|3"]
    );
    assert_eq!(
        run(&db, "DELETE FROM t WHERE i IN (SELECT max(i) FROM t)").await,
        "deleted 1 row"
    );
    let largest =
        "UPDATE t SET p = (SELECT max(u.p) FROM t u) WHERE EXISTS (SELECT 1 FROM t v WHERE v.i = t.i + 2)";
    assert_eq!(run(&db, largest).await, "updated 1 row");
    assert_eq!(query(&db, "SELECT p FROM t WHERE i = 1").await, ["3.00"]);
    assert_eq!(run(&db, "DELETE FROM t").await, "deleted 3 rows");
    assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(run(&db, "DELETE FROM t WHERE i = 1").await, "deleted 0 rows");
    run(&db, "INSERT INTO t (i) VALUES (+5), (-5)").await;
    assert_eq!(run(&db, "TRUNCATE TABLE t").await, "truncated table t");
    assert_eq!(query(&db, "SELECT i FROM t").await, [""; 0]);
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_become_segments_and_indexes_follow() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i bigint, s varchar)").await;
    run(&db, "CREATE INDEX x ON t (i)").await;
    let many = "INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 5000) AS s(i)";
    assert_eq!(run(&db, many).await, "inserted 5000 rows");
    run(&db, "INSERT INTO t VALUES (5001, 'one more')").await;
    assert_eq!(
        run(&db, "UPDATE t SET i = -i WHERE i % 2 = 0").await,
        "updated 2500 rows"
    );
    assert_eq!(
        run(&db, "DELETE FROM t WHERE i BETWEEN 1 AND 99").await,
        "deleted 50 rows"
    );
    for mode in ["off", "auto", "force"] {
        run(&db, &format!("SET halocline.index = {mode}")).await;
        let counts = "SELECT count(*), count(DISTINCT i), min(i), max(i), max(s) FROM t WHERE i <> 0";
        assert_eq!(query(&db, counts).await, ["4951|4951|-5000|5001|row 999"]);
        assert_eq!(
            query(&db, "SELECT s FROM t WHERE i = 5001 OR i = -4998")
                .await
                .len(),
            2
        );
        assert_eq!(
            query(&db, "SELECT count(*) FROM t WHERE i BETWEEN -10 AND 110").await,
            ["10"]
        );
    }
    let plan = query(&db, "EXPLAIN SELECT s FROM t WHERE i = 4").await.join("\n");
    assert!(plan.contains("ElfScan"), "{plan}");
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    let info = db.info().unwrap();
    assert_eq!((info.tables[0].rows, info.indexes.len()), (4951, 1));
    assert!(info.tables[0].segments > 1, "{info:?}");
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_rows_share_a_log() {
    let (_dir, db) = filled().await;
    let generation = db.info().unwrap().pool.generation;
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(100..110));
    let batch = RecordBatch::try_from_iter([("i", values)]).unwrap();
    assert_eq!(db.insert("t", &batch).unwrap(), 10);
    for i in 0..50 {
        run(&db, &format!("INSERT INTO t (i, s) VALUES ({i}, 'it''s {i}')")).await;
    }
    run(&db, "UPDATE t SET s = s || '!' WHERE i < 3").await;
    run(&db, "DELETE FROM t WHERE i = 49").await;
    let info = db.info().unwrap();
    assert_eq!(info.pool.generation, generation, "nothing was published");
    assert_eq!(info.tables[0].rows, 62);
    assert_eq!(query(&db, "SELECT s FROM t WHERE i = 0").await, ["it's 0!"]);
    let plan = query(&db, "EXPLAIN SELECT s FROM t WHERE i = 4").await.join("\n");
    assert!(plan.contains("rows_in_log=61"), "{plan}");
    // A publish of anything folds it.
    run(&db, "CREATE TABLE u AS SELECT 1 AS one").await;
    assert_eq!(query(&db, "SELECT count(*), sum(i) FROM t").await, ["62|2227"]);
    let unknown = db.insert("v", &batch).unwrap_err();
    assert!(matches!(unknown, EngineError::NoTable { .. }), "{unknown}");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1", "2x"]));
    let wrong = RecordBatch::try_from_iter([("i", texts)]).unwrap();
    assert_eq!(
        db.insert("t", &wrong).unwrap_err().to_string(),
        "insert into t, row 2, column i: '2x' is not a value of type int"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ways_to_insert_agree() {
    let (_dir, db) = filled().await;
    // The second of each pair is planned, because an expression is no literal.
    for (literal, planned) in [
        (
            "VALUES (7, 'x', 1.005, '2020-02-29')",
            "VALUES (7 + 0, 'x', 1.005, '2020-02-29')",
        ),
        (
            "VALUES (7, 5, '3.20', DATE '2020-01-01')",
            "SELECT 7, 5, '3.20', DATE '2020-01-01'",
        ),
        (
            "VALUES (2147483648, 'x', 1, NULL)",
            "SELECT 2147483648, 'x', 1, NULL",
        ),
        (
            "VALUES (1, 'x', 1, NULL), (NULL, 'x', 1, NULL)",
            "SELECT * FROM (VALUES (1, 'x', 1, NULL), (NULL, 'x', 1, NULL))",
        ),
        ("VALUES (1, 'x', 'y', NULL)", "SELECT 1, 'x', 'y', NULL"),
        (
            "VALUES (1, 'x', 99999999999, NULL)",
            "SELECT 1, 'x', 99999999999, NULL",
        ),
        (
            "VALUES (1, TRUE, 2, '2020-13-01')",
            "SELECT 1, TRUE, 2, '2020-13-01'",
        ),
        (
            "VALUES (1.9, 'x', 1e3, '2020-01-01')",
            "SELECT 1.9, 'x', 1e3, '2020-01-01'",
        ),
    ] {
        let mut outcomes = Vec::new();
        for source in [literal, planned] {
            run(&db, "BEGIN").await;
            outcomes.push(match db.sql(&format!("INSERT INTO t {source}")).await {
                Ok(_) => all(&db).await,
                Err(error) => vec![error.to_string()],
            });
            run(&db, "ROLLBACK").await;
        }
        assert_eq!(outcomes[0], outcomes[1], "{literal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_statement_row_and_column() {
    let (_dir, db) = filled().await;
    for (text, expected) in [
        (
            "INSERT INTO t VALUES (1, 'x', 1, NULL), ('one', 'x', 1, NULL)",
            "INSERT INTO t, row 2, column i: 'one' is not a value of type int",
        ),
        (
            "INSERT INTO t (s) VALUES ('x')",
            "INSERT INTO t, row 1, column i: is NULL, but the column is NOT NULL",
        ),
        (
            "INSERT INTO t (i, p) VALUES (1, 123456789)",
            "INSERT INTO t, row 1, column p: '123456789' is not a value of type decimal(10,2)",
        ),
        (
            "INSERT INTO t VALUES (1, 2)",
            "INSERT INTO t, row 1: it has 2 values instead of 4",
        ),
        ("INSERT INTO t SELECT 1", "the rows have 1 columns instead of 4"),
        (
            "INSERT INTO t (j) VALUES (1)",
            "table 't' has no column 'j'; its columns are i, s, p, d",
        ),
        (
            "INSERT INTO u VALUES (1)",
            "there is no table 'u' in the pool; it has t",
        ),
        (
            "UPDATE t SET i = NULL WHERE i = 2",
            "UPDATE t, row 1, column i: is NULL, but the column is NOT NULL",
        ),
        (
            "UPDATE t SET d = s",
            "UPDATE t, row 1, column d: 'a' is not a value of type date",
        ),
        ("UPDATE t SET j = 1", "table 't' has no column 'j'"),
        ("UPDATE t SET i = 1, i = 2", "column 'i' is assigned twice"),
        ("UPDATE u SET i = 1", "there is no table 'u'"),
        (
            "DELETE FROM t WHERE j = 1",
            "Valid fields are t.i, t.s, t.p, t.d.",
        ),
        ("DELETE FROM u", "there is no table 'u'"),
        ("TRUNCATE TABLE u", "there is no table 'u'"),
        (
            "ALTER TABLE t ADD COLUMN i int",
            "column 'i' exists already; choose another name",
        ),
        ("ALTER TABLE t ADD COLUMN n int NOT NULL", "give a default"),
        (
            "ALTER TABLE t ADD COLUMN n int DEFAULT 'x'",
            "table t, column n: its default 'x' is not a value of type int",
        ),
        (
            "ALTER TABLE t RENAME COLUMN j TO k",
            "table 't' has no column 'j'",
        ),
        ("ALTER TABLE t RENAME COLUMN i TO s", "column 's' exists already"),
        ("ALTER TABLE u RENAME TO v", "there is no table 'u'"),
        ("ALTER TABLE t CLUSTER BY (j)", "table 't' has no column 'j'"),
        ("CREATE TABLE v (a int, a int)", "twice"),
        ("CREATE TABLE v (a int) WITH (cluster = 'b')", "no column `b`"),
        ("COPY t FROM 'no/such.csv'", "no/such.csv: cannot be read"),
        ("COMMIT", "COMMIT: no transaction is open; BEGIN opens one"),
        ("ROLLBACK", "ROLLBACK: no transaction is open"),
    ] {
        let found = error(&db, text).await;
        assert!(found.contains(expected), "{text}: {found}");
    }
    assert_eq!(all(&db).await.len(), 3);
    // DataFusion wants names of columns to differ; rows to insert need none.
    run(&db, "INSERT INTO t SELECT 4, NULL, NULL, NULL").await;
    assert_eq!(all(&db).await[3], "4|NULL|NULL|NULL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_get_other_columns_and_names() {
    let (dir, db) = filled().await;
    run(&db, "CREATE INDEX x ON t (i, s)").await;
    run(&db, "INSERT INTO t (i) VALUES (4)").await;
    assert_eq!(
        run(&db, "ALTER TABLE t ADD COLUMN n bigint DEFAULT 42").await,
        "table t: column n added"
    );
    run(&db, "ALTER TABLE t ADD COLUMN m varchar").await;
    run(&db, "INSERT INTO t (i, n) VALUES (5, NULL)").await;
    let rows = query(&db, "SELECT i, n, m FROM t ORDER BY i").await;
    assert_eq!(
        rows,
        ["1|42|NULL", "2|42|NULL", "3|42|NULL", "4|42|NULL", "5|NULL|NULL"]
    );
    run(&db, "ALTER TABLE t RENAME COLUMN n TO number").await;
    run(&db, "UPDATE t SET number = 43, m = 'm' WHERE number IS NULL").await;
    assert_eq!(run(&db, "ALTER TABLE t RENAME TO u").await, "table t is u now");
    run(&db, "SET halocline.index = force").await;
    assert_eq!(query(&db, "SELECT number, m FROM u WHERE i = 5").await, ["43|m"]);
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, "SELECT sum(number) FROM u").await, ["211"]);
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    assert_eq!(run(&db, "DROP TABLE u").await, "dropped table u with index x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_copied_into_tables() {
    let (dir, db) = filled().await;
    let csv = dir.path().join("more.csv");
    std::fs::write(&csv, "i,s,p,d\n4,d,1.25,2022-01-01\n5,,,\n").unwrap();
    let parquet = dir.path().join("t.parquet");
    query(&db, &format!("COPY t TO '{}'", parquet.display())).await;
    assert_eq!(
        run(&db, &format!("COPY t FROM '{}' (FORMAT csv)", csv.display())).await,
        "copied 2 rows"
    );
    assert_eq!(
        run(&db, &format!("COPY t FROM '{}'", parquet.display())).await,
        "copied 3 rows"
    );
    assert_eq!(
        query(&db, "SELECT count(*), sum(i), max(p) FROM t").await,
        ["8|21|1.50"]
    );
    let bare = dir.path().join("bare.csv");
    std::fs::write(&bare, "9;x;-;2022-01-01\n").unwrap();
    let text = format!(
        "COPY t FROM '{}' (FORMAT csv, HEADER false, DELIMITER ';', NULL '-')",
        bare.display()
    );
    run(&db, &text).await;
    assert_eq!(
        query(&db, "SELECT * FROM t WHERE i = 9").await,
        ["9|x|NULL|2022-01-01"]
    );
    std::fs::write(&csv, "i,s,p,d\n6,x,1,2022-01-01\nseven,,,\n").unwrap();
    let wrong = error(&db, &format!("COPY t FROM '{}'", csv.display())).await;
    assert!(
        wrong.contains("line 3, column i: 'seven' is not a value of type int"),
        "{wrong}"
    );
    assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["9"]);
}

/// The most rows that a container of a serialized bitmap stores as an array: one less, exactly these, and one
/// more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_rows_are_the_same_after_a_reopen() {
    for deleted in [4095_u64, 4096, 4097] {
        let (dir, db) = new_pool();
        let table = "CREATE TABLE t AS SELECT i, CASE WHEN i % 15 = 3 AND i / 15 < @ THEN 1 ELSE 0 END AS gone \
                     FROM generate_series(0, 65535) AS s(i)";
        run(&db, &table.replace('@', &deleted.to_string())).await;
        run(&db, "DELETE FROM t WHERE gone = 1").await;
        drop(db);
        let db = reopen(&dir, &DatabaseOptions::default());
        let left = query(&db, "SELECT count(*), sum(i), sum(gone) FROM t").await;
        let gone: u64 = (0..deleted).map(|row| row * 15 + 3).sum();
        let sum = 65_535 * 65_536 / 2 - gone;
        assert_eq!(left, [format!("{}|{sum}|0", 65_536 - deleted)], "{deleted} rows");
    }
}
