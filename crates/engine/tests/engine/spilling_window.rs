//! Windows over partitions that do not fit the memory.

use halocline_engine::Database;

use super::support::{error, new_pool, query, run};

const TABLE: &str = "CREATE TABLE t AS SELECT value AS k, value % 7 AS g, value / 50 AS many, \
    CASE WHEN value % 11 = 0 THEN NULL ELSE (value * 7919) % 1009 END AS x, \
    'a text of some length that takes room in memory, number ' || (value * 104729) % 250007 AS s \
    FROM generate_series(1, 150000) AS g(value)";

/// Compares the answers with those of more memory. `spilled` says whether partitions were in a file.
async fn compare(db: &Database, text: &str, spilled: bool) {
    run(db, "RESET halocline.memory").await;
    let expected = query(db, text).await;
    run(db, "SET halocline.memory = '32MiB'").await;
    assert_eq!(query(db, text).await, expected, "{text}");
    let plan = query(db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    assert!(plan.contains("SpillingWindow"), "{text}\n{plan}");
    let mut windows = plan.split("spilled_partitions=").skip(1);
    let has_spilled = windows.any(|count| !count.starts_with('0'));
    assert_eq!(has_spilled, spilled, "{text}\n{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_more_memory() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    for (text, spilled) in [
        (
            "SELECT sum(k), max(a), max(b), min(c), max(s) FROM (SELECT k, s, sum(k) OVER () AS a, count(x) OVER () AS b, \
          avg(x) OVER () AS c FROM t)",
            true,
        ),
        (
            "SELECT g, sum(k * a), sum(CAST(b * 1000000 AS BIGINT)), min(c), sum(length(s)) FROM (SELECT g, k, s, \
          ntile(100) OVER (PARTITION BY k > 140000 ORDER BY x, k) AS a, \
          percent_rank() OVER (PARTITION BY k > 140000 ORDER BY x) AS b, \
          rank() OVER (PARTITION BY k > 140000 ORDER BY x) AS c FROM t) GROUP BY g ORDER BY g",
            true,
        ),
        (
            "SELECT sum(a * k), sum(b), max(c) FROM (SELECT k, ntile(1000) OVER (ORDER BY k) AS a, \
          dense_rank() OVER (ORDER BY x) AS b, max(s) OVER (PARTITION BY g) AS c FROM t)",
            true,
        ),
        (
            "SELECT sum(a * k), sum(b), sum(CAST(c * 1000000 AS BIGINT)), max(d) FROM (SELECT k, many, sum(x) OVER (PARTITION BY many) AS a, \
          ntile(3) OVER (PARTITION BY many ORDER BY k) AS b, \
          cume_dist() OVER (PARTITION BY many ORDER BY x) AS c, \
          last_value(s) OVER (PARTITION BY many ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING \
          AND UNBOUNDED FOLLOWING) AS d FROM t)",
            false,
        ),
        (
            "SELECT sum(CAST(a * 1000000 AS BIGINT)), max(b), max(c), min(d), count(e), max(e) FROM (SELECT s, \
          cume_dist() OVER (PARTITION BY k > 140000 ORDER BY x) AS a, \
          first_value(s) OVER (PARTITION BY k > 140000 ORDER BY x, k ROWS BETWEEN UNBOUNDED PRECEDING \
          AND UNBOUNDED FOLLOWING) AS b, \
          last_value(x) OVER (PARTITION BY k > 140000 ORDER BY x, k ROWS BETWEEN UNBOUNDED PRECEDING \
          AND UNBOUNDED FOLLOWING) AS c, \
          last_value(k) OVER (PARTITION BY k > 140000 ORDER BY x NULLS FIRST, k ROWS BETWEEN UNBOUNDED PRECEDING \
          AND UNBOUNDED FOLLOWING) AS d, \
          nth_value(s, 100001) OVER (PARTITION BY k > 140000 ORDER BY x, k ROWS BETWEEN UNBOUNDED PRECEDING \
          AND UNBOUNDED FOLLOWING) AS e FROM t)",
            true,
        ),
        (
            "SELECT sum(a), max(b), min(c), max(d), max(s) FROM (SELECT s, sum(k) FILTER (WHERE x > 3) OVER () AS a, \
          count(*) FILTER (WHERE x % 2 = 0) OVER () AS b, min(s) FILTER (WHERE k > 7) OVER () AS c, \
          max(k) FILTER (WHERE FALSE) OVER () AS d FROM t)",
            true,
        ),
        (
            "SELECT sum(CAST(a * 1000000 AS BIGINT)), max(s) FROM (SELECT s, cume_dist() OVER (ORDER BY s) AS a FROM t)",
            true,
        ),
        (
            "SELECT * FROM (SELECT k, s, count(*) OVER (PARTITION BY CASE WHEN k < 140000 THEN 0 ELSE many END) AS n, \
          sum(x) OVER (PARTITION BY CASE WHEN k < 140000 THEN 0 ELSE many END) AS x FROM t) \
          WHERE k % 9973 = 5 ORDER BY k",
            true,
        ),
    ] {
        compare(&db, text, spilled).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_needs_all_rows_is_refused_by_name() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    for text in [
        "SELECT max(a) FROM (SELECT s, nth_value(s, -3) OVER (ORDER BY s || s || s || s ROWS BETWEEN UNBOUNDED PRECEDING \
          AND UNBOUNDED FOLLOWING) AS a FROM t)",
        "SELECT sum(a), max(s) FROM (SELECT s, sum(k) OVER (ORDER BY s ROWS BETWEEN 3 FOLLOWING AND UNBOUNDED FOLLOWING) AS a FROM t)",
    ] {
        let error = error(&db, text).await;
        assert!(error.contains("PARTITION BY"), "{error}");
        assert!(
            error.contains("nth_value") || error.contains("sum(t.k)"),
            "{error}"
        );
    }
}
