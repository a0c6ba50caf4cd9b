//! Clauses that cannot be obeyed are refused by name, and CREATE OR REPLACE TABLE keeps indexes.

use super::support::{new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_clause_is_dropped_silently() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS a, v % 3 AS b FROM generate_series(1, 100) AS s(v)",
    )
    .await;
    let mut wrong = Vec::new();
    for (text, named) in [
        ("SELECT count(*) FROM t TABLESAMPLE BERNOULLI (a)", "TABLESAMPLE"),
        (
            "SELECT count(*) FROM t TABLESAMPLE SYSTEM (10) REPEATABLE (1)",
            "TABLESAMPLE",
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM t) AS s TABLESAMPLE (10 ROWS) REPEATABLE (1)",
            "TABLESAMPLE",
        ),
        (
            "SELECT a FROM t WHERE a IN (SELECT a FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1))",
            "TABLESAMPLE",
        ),
        (
            "WITH c AS (SELECT a FROM t FOR UPDATE) SELECT * FROM c",
            "FOR UPDATE",
        ),
        ("SELECT a FROM t FOR SHARE", "FOR UPDATE or FOR SHARE"),
        ("SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES", "FETCH"),
        ("SELECT a FROM t LIMIT 2 FETCH FIRST 3 ROWS ONLY", "FETCH"),
        ("SELECT * ILIKE 'a%' FROM t", "* ILIKE"),
        (
            "SELECT * EXCLUDE (a) REPLACE (1 AS a) FROM t",
            "REPLACE of a column",
        ),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))", "PIVOT"),
        (
            "SELECT * FROM t ASOF JOIN t AS u ON t.b = u.b AND t.a >= u.a",
            "ASOF JOIN",
        ),
        ("SELECT TOP 3 a FROM t", "TOP"),
        ("SELECT a INTO u FROM t", "INTO"),
        ("SELECT a FROM t PREWHERE a > 3", "PREWHERE"),
        ("SELECT a FROM t LIMIT 1 BY b", "LIMIT … BY"),
        ("SELECT a FROM t SETTINGS max_threads = 1", "SETTINGS"),
        ("SELECT a FROM t FORMAT JSON", "FORMAT"),
        ("SELECT b, count(*) FROM t GROUP BY b WITH ROLLUP", "WITH ROLLUP"),
        ("SELECT b, count(*) FROM t GROUP BY b WITH TOTALS", "TOTALS"),
        ("SELECT a FROM t WITH (NOLOCK)", "hint"),
        ("SELECT a FROM t PARTITION (p0)", "PARTITION"),
        ("SELECT a FROM t ORDER BY a WITH FILL", "WITH FILL"),
        ("SELECT a FROM t CONNECT BY a = b", "CONNECT BY"),
        ("SELECT a FROM t DISTRIBUTE BY a", "DISTRIBUTE BY"),
        ("SELECT a FROM t SORT BY a", "SORT BY"),
        ("SELECT a FROM t LATERAL VIEW explode(a) x AS y", "LATERAL VIEW"),
        ("SELECT abs(DISTINCT a) FROM t", "abs"),
        ("SELECT abs(a) FILTER (WHERE a > 3) FROM t", "abs"),
        ("SELECT abs(a) OVER () FROM t", "abs"),
        ("SELECT abs(a ORDER BY a) FROM t", "abs"),
        ("SELECT sum(a ORDER BY a) OVER () FROM t", "ORDER BY"),
        ("SELECT quantile(0.5)(a) FROM t", "second list"),
        (
            "SELECT * FROM generate_series(1, 3) WITH ORDINALITY",
            "WITH ORDINALITY",
        ),
        ("SELECT a FROM t GLOBAL JOIN t AS u USING (a)", "GLOBAL"),
        ("SELECT CAST(a AS VARCHAR) COLLATE \"C\" FROM t", "COLLATE"),
        (
            "COPY (SELECT a FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1)) TO '/nowhere/x.csv'",
            "TABLESAMPLE",
        ),
        (
            "EXPLAIN SELECT a FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1)",
            "TABLESAMPLE",
        ),
        (
            "CREATE TABLE u AS SELECT a FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1)",
            "TABLESAMPLE",
        ),
        (
            "INSERT INTO t SELECT a, b FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1)",
            "TABLESAMPLE",
        ),
        ("DELETE FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
        (
            "DELETE FROM t WHERE a IN (SELECT a FROM t TABLESAMPLE BERNOULLI (10))",
            "TABLESAMPLE",
        ),
        (
            "UPDATE t SET a = 1 WHERE a = (SELECT max(a) FROM t FOR UPDATE)",
            "FOR UPDATE",
        ),
        ("INSERT OVERWRITE TABLE t SELECT 1, 2", "OVERWRITE"),
        ("INSERT INTO t VALUES (1, 2) RETURNING a", "RETURNING"),
        ("UPDATE t SET a = 1 RETURNING a", "RETURNING"),
        ("DELETE FROM t USING t AS u WHERE t.a = u.a", "USING"),
        ("CREATE TABLE u (a INT) PARTITION BY a", "PARTITION BY"),
        ("CREATE TABLE u (a INT) ORDER BY a", "ORDER BY"),
        ("CREATE TABLE u (a INT) CLUSTER BY (a)", "CLUSTER BY"),
        ("CREATE TABLE u (a INT) INHERITS (t)", "INHERITS"),
        ("CREATE TABLE u (a INT) COMMENT 'x'", "option of CREATE TABLE"),
        ("CREATE TABLE u (a INT) STRICT", "STRICT"),
        ("CREATE TABLE u (a INT UNIQUE)", "UNIQUE"),
        ("CREATE TABLE u (a INT, UNIQUE (a))", "UNIQUE in u"),
        ("CREATE TABLE u (a VARCHAR COLLATE \"C\")", "COLLATE"),
        ("CREATE TRANSIENT TABLE u (a INT)", "TRANSIENT"),
        ("CREATE INDEX CONCURRENTLY i ON t (a)", "CONCURRENTLY"),
        ("CREATE INDEX i ON t (a) NULLS NOT DISTINCT", "NULLS"),
        ("CREATE INDEX i ON t (a text_ops)", "operator class"),
        ("TRUNCATE TABLE t RESTART IDENTITY", "IDENTITY"),
        ("TRUNCATE TABLE t CASCADE", "CASCADE"),
        ("DROP TABLE t PURGE", "PURGE"),
    ] {
        let found = match db.sql(text).await {
            Ok(_) => "it is accepted".to_string(),
            Err(error) => error.to_string(),
        };
        if !(found.contains(named) && found != "it is accepted") {
            wrong.push(format!("{text}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(query(&db, "SELECT count(*), sum(a) FROM t").await, ["100|5050"]);
    assert_eq!(query(&db, "SHOW TABLES").await, ["t|table"]);
    // What is understood goes on.
    for text in [
        "SELECT b, count(*) FROM t GROUP BY ROLLUP (b)",
        "SELECT sum(a) FILTER (WHERE b = 1), count(DISTINCT b) FROM t",
        "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b)",
        "SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t QUALIFY n = 1",
        "SELECT DISTINCT ON (b) b, a FROM t ORDER BY b, a",
        "SELECT first_value(a) IGNORE NULLS OVER (ORDER BY a) FROM t",
        "SELECT * EXCLUDE (b) FROM t LIMIT 3 OFFSET 2",
        "SELECT t.a FROM t, LATERAL (SELECT a FROM t AS u WHERE u.a = t.a) AS l",
    ] {
        assert!(!query(&db, text).await.is_empty(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_table_keeps_its_indexes() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS a, v % 3 AS b FROM generate_series(1, 3000) AS s(v)",
    )
    .await;
    run(
        &db,
        "CREATE INDEX both ON t (b, a) WITH (placement = 'static', dram = '1MiB')",
    )
    .await;
    run(&db, "CREATE INDEX gone ON t (a)").await;
    run(&db, "CREATE INDEX later ON t (b) WITH (placement = 'volatile')").await;
    let said = run(
        &db,
        "CREATE OR REPLACE TABLE t AS SELECT v % 5 AS b, v AS a FROM generate_series(1, 4000) AS s(v)",
    )
    .await;
    assert_eq!(said, "table t: 4000 rows, with index both, gone, later");
    let shown = query(&db, "SELECT 1").await;
    assert_eq!(shown, ["1"]);
    let indexes = query(&db, "SHOW INDEXES").await;
    assert_eq!(indexes.len(), 3, "{indexes:?}");
    assert!(
        indexes[0].starts_with("both|t|b, a|packed|4000|") && indexes[0].contains("|static|1048576|"),
        "{indexes:?}"
    );
    assert!(indexes[1].starts_with("gone|t|a|packed|4000|"), "{indexes:?}");
    assert!(indexes[2].contains("|volatile|"), "{indexes:?}");
    run(&db, "SET halocline.index = force").await;
    assert_eq!(
        query(&db, "SELECT count(*) FROM t WHERE b = 4 AND a < 1000").await,
        ["200"]
    );
    // Without a column, an index is dropped, and that is said.
    let said = run(
        &db,
        "CREATE OR REPLACE TABLE t AS SELECT v % 5 AS b FROM generate_series(1, 2000) AS s(v)",
    )
    .await;
    assert_eq!(
        said,
        "table t: 2000 rows, with index later; dropped index both, gone, whose columns are not there any more"
    );
    let said = run(&db, "CREATE OR REPLACE TABLE t (b INT, c INT)").await;
    assert_eq!(said, "table t: 0 rows, with index later");
    run(
        &db,
        "INSERT INTO t SELECT v, v FROM generate_series(1, 3000) AS s(v)",
    )
    .await;
    assert_eq!(query(&db, "SELECT c FROM t WHERE b = 77").await, ["77"]);
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
}
