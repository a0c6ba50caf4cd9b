//! Statements that change the pool: what they do, what they refuse, and that they do all or nothing.

use halocline_engine::{Database, DatabaseOptions, EngineError};

use super::support::{error, new_pool, query, reopen, run, write_parquet};
use super::types_table::batch;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_come_and_go() {
    let (dir, db) = new_pool();
    let made = run(
        &db,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 1.5), (2, NULL, 2.5)) AS v(i, s, f)",
    )
    .await;
    assert_eq!(made, "table t: 2 rows");
    assert_eq!(
        query(&db, "SELECT i, s FROM t ORDER BY i").await,
        ["1|a", "2|NULL"]
    );
    assert_eq!(
        query(&db, "SELECT i FROM halocline.public.t WHERE s IS NULL").await,
        ["2"]
    );
    let taken = error(&db, "CREATE TABLE t AS SELECT 1 AS a").await;
    assert_eq!(
        taken,
        "table 't' exists already; drop it first, choose another name, or use CREATE OR REPLACE TABLE"
    );
    assert_eq!(
        run(&db, "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS a").await,
        "table t is there already"
    );
    run(
        &db,
        "CREATE OR REPLACE TABLE t AS SELECT i + 10 AS i FROM t UNION ALL SELECT 5",
    )
    .await;
    assert_eq!(query(&db, "SELECT i FROM t ORDER BY i").await, ["5", "11", "12"]);
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, "SELECT sum(i) FROM t").await, ["28"]);
    assert_eq!(run(&db, "DROP TABLE t").await, "dropped table t");
    assert_eq!(
        error(&db, "SELECT * FROM t").await,
        "there is no table 't' in the pool; it has no tables yet"
    );
    assert_eq!(
        error(&db, "DROP TABLE t").await,
        "there is no table 't' in the pool; it has no tables yet"
    );
    assert_eq!(run(&db, "DROP TABLE IF EXISTS t").await, "nothing to drop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_come_and_go_with_their_tables() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(i, s)",
    )
    .await;
    assert_eq!(
        run(&db, "CREATE INDEX x ON t USING elf (i, s)").await,
        "index x on t"
    );
    assert_eq!(
        error(&db, "CREATE INDEX x ON t (i)").await,
        "index 'x' exists already; drop it first, or choose another name"
    );
    assert_eq!(
        run(&db, "CREATE INDEX IF NOT EXISTS x ON t (i)").await,
        "index x is there already"
    );
    assert_eq!(
        error(&db, "CREATE INDEX y ON t (j)").await,
        "table 't' has no column 'j'; its columns are i, s"
    );
    assert_eq!(
        error(&db, "CREATE INDEX y ON u (j)").await,
        "there is no table 'u' in the pool; it has t"
    );
    assert!(error(&db, "CREATE INDEX y ON t (i, i)").await.contains("twice"));
    assert_eq!(
        error(&db, "DROP INDEX y").await,
        "there is no index 'y' in the pool; it has x"
    );
    assert_eq!(run(&db, "DROP INDEX x").await, "dropped index x");
    run(&db, "CREATE INDEX x ON t (i)").await;
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(db.info().unwrap().indexes.len(), 1);
    assert_eq!(
        run(&db, "CREATE OR REPLACE TABLE t AS SELECT 7 AS i").await,
        "table t: 1 rows, with index x"
    );
    assert_eq!(
        db.info().unwrap().indexes.len(),
        1,
        "it is made again on the new table"
    );
    assert_eq!(run(&db, "DROP TABLE t").await, "dropped table t with index x");
    assert!(db.info().unwrap().indexes.is_empty() && db.info().unwrap().tables.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_query_leaves_nothing() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, '1'), (2, 'x')) AS v(i, s)",
    )
    .await;
    run(&db, "CREATE INDEX x ON t (i)").await;
    let before = db.info().unwrap();
    let failed = error(
        &db,
        "CREATE OR REPLACE TABLE t AS SELECT CAST(s AS int) AS n FROM t",
    )
    .await;
    assert!(
        failed.contains("Cannot cast string 'x' to value of Int32 type"),
        "{failed}"
    );
    error(&db, "CREATE TABLE u AS SELECT 1 / (i - 1) AS n FROM t").await;
    assert!(
        error(&db, "CREATE TABLE u AS SELECT interval '1' day AS span FROM t")
            .await
            .contains("column `span` has type Interval")
    );
    let after = db.info().unwrap();
    assert_eq!(
        (after.tables.len(), after.indexes.len(), after.pool.generation),
        (1, 1, before.pool.generation)
    );
    assert_eq!(query(&db, "SELECT count(*) FROM t WHERE i = 1").await, ["1"]);
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    drop(dir);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_writer_many_readers() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t AS SELECT 1 AS i").await;
    let other = reopen(&dir, &DatabaseOptions::default());
    let reader = reopen(&dir, &DatabaseOptions::default().with_read_only(true));
    // A snapshot taken before a change sees the state before it.
    let open = reader.sql("SELECT i FROM t").await.unwrap();
    run(&other, "CREATE OR REPLACE TABLE t AS SELECT 2 AS i").await;
    assert_eq!(super::support::lines(&open.collect().await.unwrap()), ["1"]);
    for session in [&db, &other, &reader] {
        assert_eq!(query(session, "SELECT i FROM t").await, ["2"]);
    }
    let refused = error(&reader, "CREATE TABLE u AS SELECT 1 AS i").await;
    assert_eq!(
        refused,
        "CREATE TABLE writes, but the pool is open read-only; open it for writing (or make the file writable)"
    );
    assert!(matches!(reader.drop("t"), Err(EngineError::ReadOnly { .. })));
    // The writer's lock is held by a transaction of the pool beneath.
    let hasty = DatabaseOptions::default().with_lock_wait(Some(std::time::Duration::ZERO));
    let hasty = reopen(&dir, &hasty);
    let pool = halocline_pool::Pool::open(dir.path().join("test.pool"), &Default::default()).unwrap();
    let txn = pool.begin().unwrap();
    for text in [
        "CREATE TABLE u AS SELECT 1 AS i",
        "DROP TABLE t",
        "CREATE INDEX x ON t (i)",
    ] {
        let locked = error(&hasty, text).await;
        assert!(locked.contains("is being written by another process"), "{locked}");
    }
    assert_eq!(query(&db, "SELECT i FROM t").await, ["2"]);
    drop(txn);
    run(&db, "CREATE TABLE u AS SELECT 1 AS i").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_in_place() {
    let (dir, db) = new_pool();
    let parquet = dir.path().join("a b.parquet");
    write_parquet(&parquet, [batch(100)]);
    let csv = dir.path().join("c.csv");
    std::fs::write(&csv, "k,v\n1,x\n2,y\n").unwrap();
    assert_eq!(
        query(&db, &format!("SELECT count(*) FROM '{}'", parquet.display())).await,
        ["100"]
    );
    let external = format!(
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        csv.display()
    );
    run(&db, &external).await;
    assert_eq!(query(&db, "SELECT v FROM e WHERE k = 2").await, ["y"]);
    run(
        &db,
        "CREATE TABLE t AS SELECT e.v, p.id FROM e JOIN t2 p ON e.k = p.id"
            .replace("t2", &format!("'{}'", parquet.display()))
            .as_str(),
    )
    .await;
    assert_eq!(query(&db, "SELECT * FROM t ORDER BY id").await, ["x|1", "y|2"]);
    assert!(
        error(&db.session(), "SELECT * FROM e")
            .await
            .contains("there is no table 'e' in the pool; it has t"),
        "external tables are the session's"
    );
    run(&db, "DROP TABLE e").await;
    assert!(error(&db, "SELECT * FROM e").await.contains("no table 'e'"));
    run(&db, &external).await;
    let taken = error(&db, &external.replace(" e ", " t ")).await;
    assert!(taken.contains("exists"), "{taken}");
    let missing = error(&db, "SELECT * FROM 'no/such/file.parquet'").await;
    assert_eq!(
        missing,
        "there is neither a table nor a Parquet or CSV file 'no/such/file.parquet'"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_catalog_can_be_asked() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t AS SELECT 1 AS i, 'x' AS s").await;
    let tables = query(&db, "SELECT table_catalog, table_schema, table_name FROM information_schema.tables WHERE table_schema = 'public'").await;
    assert_eq!(tables, ["halocline|public|t"]);
    assert_eq!(query(&db, "SHOW COLUMNS FROM t").await.len(), 2);
    assert_eq!(query(&db, "SHOW TABLES").await, ["t|table"]);
    assert_eq!(query(&db, "DESCRIBE t").await[0], "i|Int64|YES");
    assert!(
        error(&db, "SELECT j FROM t")
            .await
            .starts_with("No field named j.")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_in_dram_works_as_well() {
    let db = Database::in_memory(&DatabaseOptions::default().with_threads(Some(1))).unwrap();
    run(
        &db,
        "CREATE TABLE t AS SELECT * FROM generate_series(1, 100000) AS s(i)",
    )
    .await;
    run(&db, "CREATE INDEX x ON t (i)").await;
    assert_eq!(
        query(&db, "SELECT count(*) FROM t WHERE i BETWEEN 10 AND 19").await,
        ["10"]
    );
    let info = db.info().unwrap();
    assert_eq!(
        (info.pool.path, info.pool.medium.as_str(), info.tables[0].rows),
        (None, "DRAM", 100_000)
    );
    assert_eq!(info.indexes[0].columns, ["i"]);
    assert!(
        serde_json::to_string(&db.info().unwrap())
            .unwrap()
            .contains("\"name\":\"t\"")
    );
    let mut parts = Vec::new();
    let report = db.check(&mut |at| parts.push(at.part.to_string())).unwrap();
    assert_eq!((report.tables, report.indexes, report.problems.len()), (1, 1, 0));
    assert!(
        parts.contains(&"table t".to_string()) && parts.contains(&"index x".to_string()),
        "{parts:?}"
    );
}

#[test]
fn opening_what_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.pool");
    let missing = Database::open(&path, &DatabaseOptions::default())
        .unwrap_err()
        .to_string();
    assert!(missing.contains("none.pool"), "{missing}");
    std::fs::write(&path, vec![7u8; 10_000]).unwrap();
    assert!(Database::open(&path, &DatabaseOptions::default()).is_err());
    assert!(
        Database::create(&path, &DatabaseOptions::default()).is_err(),
        "an existing file is not overwritten"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_change_what_statements_mean_are_refused() {
    let (_dir, db) = new_pool();
    for text in [
        "SET datafusion.sql_parser.dialect = 'PostgreSQL'",
        "SET datafusion.sql_parser.enable_ident_normalization = false",
        "SET datafusion.sql_parser.parse_float_as_decimal = false",
        "RESET datafusion.sql_parser.parse_float_as_decimal",
        "SET datafusion.optimizer.enable_piecewise_merge_join = true",
    ] {
        let message = error(&db, text).await;
        assert!(message.contains("is not supported; "), "{text}: {message}");
    }
    assert_eq!(query(&db, "SELECT 0.1 + 0.2 = 0.3").await, ["true"]);
}

#[tokio::test]
async fn an_index_goes_when_its_column_cannot_have_codes_any_more() {
    let (_dir, db) = new_pool();
    for statement in [
        "CREATE TABLE t (a BIGINT, b INT)",
        "INSERT INTO t SELECT v, CAST(v AS INT) AS b FROM generate_series(1, 1000) AS s(v)",
        "CREATE TABLE one AS SELECT 1 AS one",
        "CREATE INDEX narrow ON t USING elf (b)",
        "CREATE INDEX wide ON t USING elf (a, b)",
        // NULL and all values of 64 bits are more than 64 bits can number.
        "INSERT INTO t VALUES (-9223372036854775808, 1), (9223372036854775807, 2), (NULL, 3)",
        "CREATE TABLE two AS SELECT 2 AS two",
        "INSERT INTO t VALUES (5, 5)",
    ] {
        run(&db, statement).await;
    }
    let rows = query(&db, "SELECT a FROM t WHERE b < 3 ORDER BY a").await;
    assert_eq!(rows, ["-9223372036854775808", "1", "2", "9223372036854775807"]);
    let text = error(&db, "DROP INDEX wide").await;
    assert!(text.contains("wide"), "{text}");
    run(&db, "DROP INDEX narrow").await;
}

#[tokio::test]
async fn errors_of_queries_with_table_functions_are_their_own() {
    let (_dir, db) = new_pool();
    for (statement, wanted) in [
        (
            "SELECT 'b' * v FROM generate_series(1, 3) AS s(v)",
            "Cannot coerce arithmetic",
        ),
        (
            "SELECT v FROM generate_series(1, 3) AS s(v), nothing",
            "there is no table 'nothing'",
        ),
        (
            "SELECT v FROM nothing, generate_series(1, 3) AS s(v)",
            "there is no table 'nothing'",
        ),
    ] {
        let text = error(&db, statement).await;
        assert!(text.contains(wanted), "{text}");
    }
}
