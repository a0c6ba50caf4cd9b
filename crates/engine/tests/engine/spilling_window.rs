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
            "SELECT sum(a), sum(b), max(c), sum(d), max(s) FROM (SELECT s, median(k) OVER () AS a, \
          count(DISTINCT s) OVER () AS b, max(x) OVER () AS c, sum(DISTINCT x) FILTER (WHERE g = 3) OVER () AS d FROM t)",
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
async fn functions_over_frames_are_those_of_more_memory() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    let to_the_end = "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING";
    let cases = [
        // Exact aggregates, from both sides of the row, over rows, ranges and groups.
        format!(
            "sum(k) OVER (ORDER BY x, k ROWS {to_the_end}) AS a, \
             count(x) OVER (ORDER BY x, k ROWS BETWEEN 3 FOLLOWING AND UNBOUNDED FOLLOWING) AS b, \
             min(k) OVER (ORDER BY x, k ROWS BETWEEN 5 PRECEDING AND UNBOUNDED FOLLOWING) AS c, \
             max(s) OVER (ORDER BY x, k ROWS {to_the_end}) AS d"
        ),
        format!(
            "sum(k) OVER (ORDER BY x RANGE {to_the_end}) AS a, \
             sum(k) FILTER (WHERE g > 2) OVER (ORDER BY x RANGE BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING) AS b, \
             sum(k) OVER (ORDER BY x GROUPS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING) AS c, \
             min(s) OVER (ORDER BY x RANGE {to_the_end}) AS d"
        ),
        // Floats, which are evaluated from the rows of frames.
        format!(
            "CAST(avg(CAST(x AS DOUBLE)) OVER (ORDER BY k ROWS {to_the_end}) * 1000000 AS BIGINT) AS a, \
             CAST(sum(sqrt(k)) OVER (ORDER BY k ROWS BETWEEN 1500 PRECEDING AND UNBOUNDED FOLLOWING) * 1000 AS BIGINT) AS b, \
             CAST(stddev(x) OVER (ORDER BY k ROWS {to_the_end}) * 1000 AS BIGINT) AS c, \
             max(s) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING) AS d"
        ),
        "CAST(avg(sqrt(k)) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) * 1000 AS BIGINT) AS a, \
         count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS b, \
         sum(k) OVER (ORDER BY x RANGE UNBOUNDED PRECEDING) AS c, \
         min(s) OVER (ORDER BY x RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS d"
            .to_owned(),
        // Rows that are left out, values of rows, functions without frames, all in one pass.
        format!(
            "sum(k) OVER (w ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) AS a, \
             nth_value(k, -3) OVER (w ROWS {to_the_end}) AS b, \
             lag(k, 3, -1) OVER w + row_number() OVER w + ntile(9) OVER w AS c, \
             first_value(s) OVER (w ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING) AS d"
        ),
        format!(
            "sum(CAST(x AS DECIMAL(12, 2))) OVER (w ROWS {to_the_end}) AS a, \
             lead(x, 3, -1) IGNORE NULLS OVER w + ntile(3) OVER w AS b, \
             max(CAST(TIMESTAMP '2000-01-01 00:00:00' AS DATE) + CAST(x AS INT)) OVER (w ROWS {to_the_end}) AS c, \
             last_value(s) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS d"
        ),
    ];
    for functions in cases {
        let windows = "WINDOW w AS (PARTITION BY k > 140000 ORDER BY x, k)";
        let inner = format!("SELECT k, s, {functions} FROM t {windows}");
        compare(
            &db,
            &format!(
                "SELECT * FROM (SELECT k, a, b, c, d, max(s) OVER (PARTITION BY k / 10) AS e FROM ({inner})) \
                 WHERE k % 997 = 5 ORDER BY k"
            ),
            true,
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_windows_keep_few_texts() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    for functions in [
        "lag(s) OVER w AS a, first_value(s) OVER w AS b, max(s) OVER w AS c, lead(s, 2, 'none') OVER w AS d",
        "lag(upper(s), 3) OVER w AS a, min(s) OVER (w ROWS 3 PRECEDING) AS b, count(s) OVER w AS c, \
         last_value(nullif(s, '')) OVER w AS d",
        "lag(x) IGNORE NULLS OVER w AS a, first_value(s) IGNORE NULLS OVER w AS b, \
         max(s || g) OVER w AS c, nth_value(s, 2) OVER w AS d",
    ] {
        let text = format!(
            "SELECT * FROM (SELECT k, {functions} FROM t WINDOW w AS (PARTITION BY g ORDER BY x, k)) \
             WHERE k % 997 = 5 ORDER BY k"
        );
        run(&db, "RESET halocline.memory").await;
        let expected = query(&db, &text).await;
        run(&db, "SET halocline.memory = '32MiB'").await;
        assert_eq!(query(&db, &text).await, expected, "{text}");
        let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
        let above = plan.split("BoundedWindowAggExec").next().unwrap_or_default();
        assert!(above.contains("CopiedStrings"), "{text}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_does_not_fit_is_refused_by_name() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    let text = "SELECT count(a), max(s) FROM (SELECT s, array_agg(s || s || s) OVER () AS a FROM t)";
    let error = error(&db, text).await;
    assert!(
        error.contains("PARTITION BY") && error.contains("array_agg"),
        "{error}"
    );
}
