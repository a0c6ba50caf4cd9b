//! Keys of sorts and groups that DataFusion does not plan, or takes for others. Expected rows are those of
//! DuckDB.

use halocline_engine::Database;

use super::support::{new_pool, query, run};

async fn table() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (id INT PRIMARY KEY, k SMALLINT, x SMALLINT, n INT)",
    )
    .await;
    run(
        &db,
        "INSERT INTO t VALUES (1, 1, 10, NULL), (2, 9, 9, 2), (3, 0, NULL, 3), (4, 12, 10, 4)",
    )
    .await;
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_may_compare_anything() {
    let (_dir, db) = table().await;
    run(&db, "SET datafusion.execution.target_partitions = 2").await;
    for (text, rows) in [
        ("SELECT id FROM t ORDER BY coalesce(x, 1) < k, id", "1 2 3 4"),
        (
            "SELECT id FROM t ORDER BY coalesce(x, 1) < k DESC, id DESC LIMIT 3",
            "4 3 2",
        ),
        (
            "SELECT id FROM t ORDER BY CASE WHEN coalesce(x, 11) < (SELECT max(k) FROM t u WHERE u.x = t.x) \
             THEN 0 ELSE 1 END, id",
            "1 4 2 3",
        ),
        (
            "SELECT t.id FROM t LEFT JOIN t u ON u.x = t.x AND u.k = t.k \
             ORDER BY CAST(t.x AS double) NOT BETWEEN 3 AND CAST(t.k AS double), t.id",
            "2 4 1 3",
        ),
        (
            "SELECT t.id, (SELECT count(*) FROM t u WHERE u.x = t.x) FROM t \
             ORDER BY x BETWEEN (SELECT min(k) FROM t) AND 9 DESC, t.id",
            "3|0 2|1 1|2 4|2",
        ),
        (
            "SELECT id, rank() OVER (ORDER BY coalesce(x, 1) < k) FROM t ORDER BY id",
            "1|1 2|1 3|1 4|4",
        ),
        (
            "SELECT id, row_number() OVER (PARTITION BY coalesce(x, 1) < k ORDER BY id) FROM t ORDER BY id",
            "1|1 2|2 3|3 4|1",
        ),
        (
            "SELECT array_agg(id ORDER BY coalesce(x, 1) < k DESC, id) FROM t",
            "[4, 1, 2, 3]",
        ),
        (
            "SELECT x, array_agg(id ORDER BY coalesce(x, 1) < k DESC, id) FROM t GROUP BY x ORDER BY x",
            "9|[2] 10|[4, 1] NULL|[3]",
        ),
        (
            "SELECT DISTINCT ON (coalesce(x, 1) < k) id FROM t ORDER BY coalesce(x, 1) < k, id DESC",
            "3 4",
        ),
        (
            "SELECT coalesce(x, 1) < k, count(*) FROM t GROUP BY coalesce(x, 1) < k ORDER BY coalesce(x, 1) < k",
            "false|3 true|1",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_by_the_operand_of_a_cast_is_not_that_of_the_cast() {
    let (_dir, db) = table().await;
    for (text, rows) in [
        (
            "SELECT CAST(max(x) AS text) FROM t GROUP BY id % 2, x ORDER BY max(x), id % 2",
            "9 10 10 NULL",
        ),
        (
            "SELECT CAST(x + 1 AS text) FROM t ORDER BY x + 1 DESC NULLS LAST",
            "11 11 10 NULL",
        ),
        (
            "SELECT max(CAST(x AS text)) FROM t GROUP BY id ORDER BY max(x) DESC NULLS LAST",
            "10 10 9 NULL",
        ),
        ("SELECT (id + 1) * 2 FROM t ORDER BY id + 1 * 2 DESC", "10 8 6 4"),
        ("SELECT CAST(max(x) AS text) FROM t ORDER BY max(x)", "10"),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_sets_may_repeat_and_combine_expressions() {
    let (_dir, db) = table().await;
    for (text, rows) in [
        (
            "SELECT x, count(*) FROM t GROUP BY ROLLUP (x, x) ORDER BY x, count(*)",
            "9|1 9|1 10|2 10|2 NULL|1 NULL|1 NULL|4",
        ),
        (
            "SELECT x, x, count(*) FROM t GROUP BY ROLLUP (x, x) ORDER BY 1, 3",
            "9|9|1 9|9|1 10|10|2 10|10|2 NULL|NULL|1 NULL|NULL|1 NULL|NULL|4",
        ),
        (
            "SELECT x, count(*) FROM t GROUP BY CUBE (x, x) ORDER BY x, count(*)",
            "9|1 9|1 9|1 10|2 10|2 10|2 NULL|1 NULL|1 NULL|1 NULL|4",
        ),
        (
            "SELECT x, n, count(*) FROM t GROUP BY ROLLUP ((x, n), x) ORDER BY x, n, count(*)",
            "9|2|1 9|2|1 10|4|1 10|4|1 10|NULL|1 10|NULL|1 NULL|3|1 NULL|3|1 NULL|NULL|4",
        ),
        (
            "SELECT x, count(*) FROM t GROUP BY GROUPING SETS ((x, x), ()) ORDER BY x, count(*)",
            "9|1 10|2 NULL|1 NULL|4",
        ),
        (
            "SELECT x, n, grouping(x), grouping(n) FROM t WHERE id < 3 GROUP BY CUBE ((x, n)) ORDER BY x, n, 3",
            "9|2|0|0 10|NULL|0|0 NULL|NULL|1|1",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
}
