//! Columns of the same name: in results, derived tables, new tables and files, as DuckDB has them.

use arrow_schema::SchemaRef;
use halocline_engine::Database;

use super::support::{lines, new_pool, query, run};

async fn two_tables() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a INT, b INT)").await;
    run(&db, "INSERT INTO t VALUES (1, 2), (4, 5)").await;
    run(&db, "CREATE TABLE u (a INT, c INT)").await;
    run(&db, "INSERT INTO u VALUES (1, 7)").await;
    (dir, db)
}

/// The names and the rows of a query.
async fn answer(db: &Database, text: &str) -> (Vec<String>, Vec<String>) {
    let result = db.sql(text).await.unwrap_or_else(|e| panic!("{text}: {e}"));
    let names = |schema: SchemaRef| -> Vec<String> {
        let fields = schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    };
    let shown = names(result.schema());
    let batches = result.collect().await.unwrap_or_else(|e| panic!("{text}: {e}"));
    for batch in &batches {
        assert_eq!(names(batch.schema()), shown, "{text}");
    }
    (shown, lines(&batches))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_may_have_equal_names() {
    let (_dir, db) = two_tables().await;
    for (text, names, rows) in [
        ("SELECT a, a FROM t ORDER BY a", "a a", "1|1 4|4"),
        ("SELECT a, b AS a FROM t ORDER BY b DESC", "a a", "4|5 1|2"),
        ("SELECT *, a FROM t ORDER BY 1", "a b a", "1|2|1 4|5|4"),
        ("SELECT *, * FROM u", "a c a c", "1|7|1|7"),
        ("SELECT *, a + 1 AS a FROM u", "a c a", "1|7|2"),
        (
            "SELECT t.*, u.*, t.* FROM t, u WHERE t.a = 4",
            "a b a c a b",
            "4|5|1|7|4|5",
        ),
        ("SELECT * EXCLUDE (c), a FROM u", "a a", "1|1"),
        ("SELECT DISTINCT a, a FROM u", "a a", "1|1"),
        ("SELECT a, CAST(a AS text) AS a FROM u", "a a", "1|1"),
        ("SELECT a AS x, c AS x FROM u ORDER BY x", "x x", "1|7"),
        (
            "SELECT a, a FROM u UNION ALL SELECT b, b FROM t ORDER BY 1",
            "a a",
            "1|1 2|2 5|5",
        ),
        ("(SELECT a, a FROM u) UNION (SELECT 1, 1)", "a a", "1|1"),
        (
            "WITH s(x, y) AS (SELECT a, a FROM u) SELECT x, y, x FROM s",
            "x y x",
            "1|1|1",
        ),
        (
            "SELECT a, a, count(*) FROM t GROUP BY a, a ORDER BY a",
            "a a count(*)",
            "1|1|1 4|4|1",
        ),
    ] {
        let (found, lines) = answer(&db, text).await;
        assert_eq!(
            (found.join(" ").as_str(), lines.join(" ").as_str()),
            (names, rows),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expression_may_stand_twice() {
    let (_dir, db) = two_tables().await;
    for (text, rows) in [
        ("SELECT a + 1, a + 1 FROM t ORDER BY 1", "2|2 5|5"),
        (
            "SELECT a + 1, t.a + 1, A + 1 FROM t ORDER BY a + 1",
            "2|2|2 5|5|5",
        ),
        (
            "SELECT DISTINCT a + 1, a + 1 FROM t ORDER BY a + 1 DESC",
            "5|5 2|2",
        ),
        ("SELECT count(*) FROM t GROUP BY a, CAST(a AS text)", "1 1"),
        (
            "SELECT a, CAST(a AS text), count(*) FROM t GROUP BY a, CAST(a AS text) ORDER BY a",
            "1|1|1 4|4|1",
        ),
        ("SELECT 1, 1, 'x', 'x'", "1|1|x|x"),
        ("SELECT (a + b) * 2, a + b * 2 FROM t ORDER BY 1", "6|5 18|14"),
        (
            "SELECT sum(a), sum(CAST(a AS double)), sum(a) FROM t",
            "5|5.000000000e0|5",
        ),
        ("SELECT sum((a + b) * 2), sum(a + b * 2) FROM t", "24|19"),
        ("SELECT sum(a) + sum(CAST(a AS bigint)) FROM t", "10"),
        ("SELECT count(*), count(*) FROM t", "2|2"),
        (
            "SELECT sum(a) OVER (), sum(CAST(a AS decimal(5, 1))) OVER (), sum(a) OVER () FROM u",
            "1|1.0|1",
        ),
        (
            "SELECT EXISTS (SELECT a, a FROM u WHERE u.a = t.a) FROM t ORDER BY t.a",
            "true false",
        ),
        (
            "SELECT (SELECT max(s.a) FROM (SELECT u.a, u.a FROM u) AS s) AS m, a, a FROM t ORDER BY a",
            "1|1|1 1|4|4",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
    // What is not shown makes no other name.
    let (names, _) = answer(
        &db,
        "SELECT a + 1, a + 1, sum(a) OVER (), sum(CAST(a AS double)) OVER () FROM t",
    )
    .await;
    assert!(names.iter().all(|name| !name.contains('\u{1}')), "{names:?}");
    assert_eq!(names[0], names[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn derived_tables_have_the_names_of_duckdb() {
    let (_dir, db) = two_tables().await;
    for (text, names, rows) in [
        ("SELECT * FROM (SELECT a, a FROM u) AS s", "a a_1", "1|1"),
        ("SELECT a_1 FROM (SELECT a, c AS a FROM u) AS s", "a_1", "7"),
        ("SELECT s.a FROM (SELECT a, c AS a FROM u) AS s", "a", "1"),
        (
            "SELECT * FROM (SELECT a, a, 3 AS a_1 FROM u) AS s",
            "a a_1 a_1_1",
            "1|1|3",
        ),
        (
            "SELECT * FROM (SELECT a, c AS a_1, a FROM u) AS s",
            "a a_1 a_2",
            "1|7|1",
        ),
        (
            "SELECT * FROM (SELECT t.a, u.a FROM t, u WHERE t.a = 4) AS s",
            "a a_1",
            "4|1",
        ),
        (
            "SELECT a_1 FROM (SELECT * FROM t JOIN u ON t.a = u.a) AS s",
            "a_1",
            "1",
        ),
        (
            "SELECT * FROM (SELECT * FROM t JOIN u ON t.a = u.a) AS s",
            "a b a_1 c",
            "1|2|1|7",
        ),
        (
            "WITH s AS (SELECT a, c AS a FROM u) SELECT * FROM s",
            "a a_1",
            "1|7",
        ),
        (
            "WITH s(x, x) AS (SELECT a, c FROM u) SELECT * FROM s",
            "x x_1",
            "1|7",
        ),
        ("SELECT * FROM (SELECT a, c FROM u) AS s(x, x)", "x x_1", "1|7"),
        (
            "SELECT * FROM (SELECT a, c AS a FROM u UNION ALL SELECT b, b FROM t) AS s ORDER BY 1",
            "a a_1",
            "1|7 2|2 5|5",
        ),
        (
            "SELECT * FROM (SELECT a, a FROM u) AS s, (SELECT a, a FROM u) AS r",
            "a a_1 a a_1",
            "1|1|1|1",
        ),
        (
            "WITH s AS (SELECT a, a FROM u), r AS (SELECT *, a FROM s) SELECT * FROM r",
            "a a_1 a_2",
            "1|1|1",
        ),
    ] {
        let (found, lines) = answer(&db, text).await;
        assert_eq!(
            (found.join(" ").as_str(), lines.join(" ").as_str()),
            (names, rows),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_columns_have_distinct_names() {
    let (dir, db) = two_tables().await;
    run(&db, "CREATE TABLE x AS SELECT a, a FROM t").await;
    assert_eq!(answer(&db, "SELECT * FROM x ORDER BY 1").await.0, ["a", "a_1"]);
    run(&db, "CREATE TABLE y AS SELECT * FROM t JOIN u ON t.a = u.a").await;
    assert_eq!(answer(&db, "SELECT * FROM y").await.0, ["a", "b", "a_1", "c"]);
    run(&db, "CREATE TABLE z (PRIMARY KEY (a)) AS SELECT a, b AS a FROM t").await;
    assert_eq!(answer(&db, "SELECT * FROM z").await.0, ["a", "a_1"]);
    run(&db, "INSERT INTO t SELECT a + 5, a + 5 FROM t").await;
    assert_eq!(query(&db, "SELECT count(*) FROM t WHERE a = b").await, ["2"]);
    run(&db, "CREATE TABLE k (a INT, s TEXT)").await;
    run(&db, "INSERT INTO k SELECT a, CAST(a AS text) FROM u").await;
    run(&db, "INSERT INTO k SELECT *, * FROM (SELECT a FROM u) AS s").await;
    assert_eq!(query(&db, "SELECT * FROM k").await, ["1|1", "1|1"]);
    for kind in ["csv", "parquet"] {
        let file = dir.path().join(format!("equal.{kind}"));
        let file = file.display();
        query(&db, &format!("COPY (SELECT a, a, c AS a FROM u) TO '{file}'")).await;
        let (names, rows) = answer(&db, &format!("SELECT * FROM '{file}'")).await;
        assert_eq!(
            (names.join(" ").as_str(), rows.join(" ").as_str()),
            ("a a_1 a_2", "1|1|7")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_is_used_again_has_the_same_names() {
    let (_dir, db) = two_tables().await;
    for round in 0..4 {
        let value = [1, 4][round % 2];
        for (text, names) in [
            (format!("SELECT a, b AS a FROM t WHERE a = {value}"), "a a"),
            (
                format!("SELECT t.a, u.a, t.a FROM t, u WHERE t.a = {value}"),
                "a a a",
            ),
        ] {
            let (found, rows) = answer(&db, &text).await;
            assert_eq!((found.join(" ").as_str(), rows.len()), (names, 1), "{text}");
        }
    }
    let prepared = db.prepare("SELECT a, a FROM t WHERE a = $1").await.unwrap();
    for value in [1, 4, 1] {
        let result = prepared.execute([value]).await.unwrap();
        assert_eq!(
            result
                .schema()
                .fields()
                .iter()
                .map(|f| f.name().as_str())
                .collect::<Vec<_>>(),
            ["a", "a"]
        );
        assert_eq!(
            lines(&result.collect().await.unwrap()),
            [format!("{value}|{value}")]
        );
    }
    run(
        &db,
        "UPDATE t SET b = 9 WHERE a IN (SELECT s.a FROM (SELECT a, a FROM u) AS s)",
    )
    .await;
    assert_eq!(query(&db, "SELECT a FROM t WHERE b = 9").await, ["1"]);
    run(
        &db,
        "DELETE FROM t WHERE EXISTS (SELECT *, a FROM u WHERE u.a = t.a)",
    )
    .await;
    assert_eq!(query(&db, "SELECT a FROM t").await, ["4"]);
}
