//! Answers at the ends of domains: least and greatest values, columns of nothing but NULL, zeros with a sign.

use halocline_engine::Database;

use super::support::{error, new_pool, query, run};

/// The rows of a query, which are the same however indexes are used.
async fn each_way(db: &Database, text: &str) -> Vec<String> {
    let mut found: Option<Vec<String>> = None;
    for mode in ["off", "auto", "force"] {
        run(db, &format!("SET halocline.index = {mode}")).await;
        let mut rows = query(db, text).await;
        rows.sort_unstable();
        let first = found.get_or_insert_with(|| rows.clone());
        assert_eq!(*first, rows, "{text}, index = {mode}");
    }
    found.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_star_join_keeps_the_ends_of_64_bits_apart() {
    let (_dir, db) = new_pool();
    let ends = [
        ("BIGINT", "-9223372036854775808", "9223372036854775807"),
        ("BIGINT UNSIGNED", "0", "18446744073709551615"),
        (
            "TIMESTAMP(6)",
            "arrow_cast(-9223372036854775808, 'Timestamp(Microsecond, None)')",
            "arrow_cast(9223372036854775807, 'Timestamp(Microsecond, None)')",
        ),
    ];
    run(
        &db,
        "CREATE TABLE f AS SELECT CAST(v % 4 AS INT) AS k, CAST(1 AS BIGINT) AS x FROM generate_series(1, 8000) AS s(v)",
    )
    .await;
    for (kind, least, most) in ends {
        run(&db, "DROP TABLE IF EXISTS d").await;
        run(
            &db,
            &format!(
                "CREATE TABLE d AS SELECT CAST(v AS INT) AS k, CASE v % 2 WHEN 0 THEN CAST({least} AS {kind}) \
                 ELSE CAST({most} AS {kind}) END AS a, CASE v WHEN 3 THEN CAST({least} AS {kind}) \
                 ELSE CAST({most} AS {kind}) END AS b FROM generate_series(0, 3) AS s(v)"
            ),
        )
        .await;
        for (text, groups) in [
            (
                "SELECT arrow_cast(a, 'Int64') AS g, sum(x) FROM f JOIN d ON f.k = d.k GROUP BY a",
                2,
            ),
            (
                "SELECT arrow_cast(a, 'Int64') AS g, arrow_cast(b, 'Int64') AS h, sum(x) FROM f JOIN d ON f.k = d.k \
                 GROUP BY a, b",
                3,
            ),
        ] {
            let text = match kind {
                "BIGINT UNSIGNED" => text.replace("Int64", "UInt64"),
                _ => text.to_string(),
            };
            run(&db, "SET halocline.star_join = on").await;
            let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
            assert!(plan.contains("StarJoin: fact="), "{plan}");
            let mut star = query(&db, &text).await;
            run(&db, "SET halocline.star_join = off").await;
            let mut plain = query(&db, &text).await;
            star.sort_unstable();
            plain.sort_unstable();
            assert_eq!((star.len(), &star), (groups, &plain), "{kind}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_of_nothing_but_null_is_distinct_from_any_value() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id INT, x INT)").await;
    run(
        &db,
        "INSERT INTO t SELECT v, NULL FROM generate_series(1, 2000) AS s(v)",
    )
    .await;
    run(
        &db,
        "INSERT INTO t SELECT v, v % 500 FROM generate_series(2001, 4000) AS s(v)",
    )
    .await;
    run(&db, "CREATE INDEX i ON t (x, id)").await;
    for (condition, rows) in [
        ("x IS DISTINCT FROM 2.5", 4000),
        ("x IS NOT DISTINCT FROM 2.5", 0),
        ("NOT (x IS NOT DISTINCT FROM 2.5)", 4000),
        ("CAST(x AS DOUBLE) IS DISTINCT FROM CAST(7 AS DOUBLE)", 3996),
        ("CAST(x AS DOUBLE) IS NOT DISTINCT FROM CAST(7 AS DOUBLE)", 4),
        ("(x IS DISTINCT FROM 2.5) IS UNKNOWN", 0),
        ("(x IS NOT DISTINCT FROM 2.5) IS UNKNOWN", 0),
        ("(x > 2.5) IS UNKNOWN", 2000),
        ("(x > 2.5) IS NOT TRUE", 2012),
        ("NOT (x > 2.5)", 12),
        ("x <> 2.5", 2000),
    ] {
        let text = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(each_way(&db, &text).await, [rows.to_string()], "{condition}");
    }
    run(&db, "BEGIN").await;
    assert_eq!(
        run(&db, "DELETE FROM t WHERE x IS DISTINCT FROM 2.5").await,
        "deleted 4000 rows"
    );
    run(&db, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncating_the_least_timestamp_is_an_error_and_no_wrong_row() {
    let (_dir, db) = new_pool();
    // More values than are tried one by one, the least timestamp among them.
    run(
        &db,
        "CREATE TABLE t AS SELECT arrow_cast(CASE v WHEN 0 THEN -9223372036854775808 ELSE v * 1000000000 END, \
         'Timestamp(Nanosecond, None)') AS ts FROM generate_series(0, 5000) AS s(v)",
    )
    .await;
    for unit in ["second", "minute", "hour", "day", "week", "month", "year"] {
        for mode in ["off", "force"] {
            run(&db, &format!("SET halocline.index = {mode}")).await;
            let text = format!(
                "SELECT count(*) FROM t WHERE date_trunc('{unit}', ts) >= TIMESTAMP '1969-12-31 00:00:00'"
            );
            let found = error(&db, &text).await;
            assert!(found.contains("out of range"), "{unit}: {found}");
        }
    }
    let text =
        "SELECT count(*) FROM t WHERE date_trunc('microsecond', ts) >= TIMESTAMP '1970-01-01 00:00:00'";
    assert!(error(&db, text).await.contains("out of range"));
    run(&db, "DELETE FROM t WHERE ts < TIMESTAMP '1900-01-01 00:00:00'").await;
    run(&db, "CREATE TABLE u AS SELECT * FROM t").await;
    let text = "SELECT count(*) FROM u WHERE date_trunc('hour', ts) = TIMESTAMP '1970-01-01 01:00:00'";
    assert_eq!(each_way(&db, text).await, ["1401"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_are_shown_within_a_transaction_that_added_many_rows() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS a, v % 7 AS b FROM generate_series(1, 3000) AS s(v)",
    )
    .await;
    run(&db, "CREATE INDEX i ON t (b, a)").await;
    let before = query(&db, "SHOW INDEXES").await;
    run(&db, "BEGIN").await;
    run(
        &db,
        "INSERT INTO t SELECT v, v % 7 FROM generate_series(3001, 9000) AS s(v)",
    )
    .await;
    let within = query(&db, "SHOW INDEXES").await;
    assert_eq!(within.len(), 1);
    assert!(within[0].starts_with("i|t|b, a|packed|3000|"), "{within:?}");
    assert!(within[0].contains("when it commits"), "{within:?}");
    run(&db, "COMMIT").await;
    let after = query(&db, "SHOW INDEXES").await;
    assert!(after[0].starts_with("i|t|b, a|packed|9000|"), "{after:?}");
    assert_ne!(before, after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_are_equal_whatever_their_sign() {
    let (_dir, db) = new_pool();
    // In segments, by far more values than are tried one by one; then in the log.
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS id, CASE v % 4 WHEN 0 THEN CAST('-0.0' AS DOUBLE) WHEN 1 THEN CAST('0.0' AS DOUBLE) \
         WHEN 2 THEN CAST('NaN' AS DOUBLE) ELSE CAST(v AS DOUBLE) END AS x FROM generate_series(1, 8000) AS s(v)",
    )
    .await;
    run(&db, "CREATE INDEX i ON t (x, id)").await;
    let zero = "CAST('0.0' AS DOUBLE)";
    let negative = "CAST('-0.0' AS DOUBLE)";
    let nan = "CAST('NaN' AS DOUBLE)";
    let cases = [
        (format!("x = {zero}"), 4000),
        (format!("x = {negative}"), 4000),
        (format!("x <> {zero}"), 4000),
        (format!("x < {zero}"), 0),
        (format!("x > {negative}"), 4000),
        (format!("x >= {zero}"), 8000),
        (format!("x <= {negative}"), 4000),
        (format!("x BETWEEN {zero} AND {negative}"), 4000),
        (format!("x IN ({zero}, 5e0, 6e0)"), 4000),
        (format!("x IN ({zero}, 3e0, 7e0, 11e0, 1e9)"), 4003),
        (format!("x NOT IN ({negative}, 3e0, 7e0, 11e0, 1e9)"), 3997),
        (format!("x IN ({nan}, 3e0, 7e0, 11e0, 1e9)"), 2003),
        (format!("x IS NOT DISTINCT FROM {negative}"), 4000),
        (format!("x IS DISTINCT FROM {zero}"), 4000),
        (format!("x = {nan}"), 2000),
        ("x > CAST('inf' AS DOUBLE)".to_string(), 2000),
        ("x > 1e300".to_string(), 2000),
        (format!("CASE x WHEN {zero} THEN true ELSE false END"), 4000),
        // The same where no code can answer.
        (format!("x = {zero} AND id + x >= id"), 4000),
        (format!("x * 1e0 = {negative}"), 4000),
        (format!("x * -1e0 IN ({zero}, -3e0, -7e0, -11e0, 1e9)"), 4003),
        ("x = x * -1e0".to_string(), 6000),
        (format!("x - x = {zero}"), 6000),
        ("x IN (x * -1e0, 1e9)".to_string(), 6000),
        (
            "(x - CAST('inf' AS DOUBLE)) + CAST('inf' AS DOUBLE) > 1e300".to_string(),
            8000,
        ),
    ];
    for (condition, rows) in &cases {
        let text = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(each_way(&db, &text).await, [rows.to_string()], "{condition}");
        // As a value, which is not pushed down.
        let text = format!("SELECT count(*) FILTER (WHERE {condition}) FROM t");
        assert_eq!(each_way(&db, &text).await, [rows.to_string()], "{text}");
    }
    run(&db, "CREATE TABLE few (x DOUBLE, y REAL)").await;
    run(&db, "INSERT INTO few VALUES (-0.0, -0.0), (0.0, 0.0), (1.5, 1.5)").await;
    for condition in [
        format!("x = {zero}"),
        "y = 0.0".to_string(),
        "y IN (0.0, 7, 8, 9)".to_string(),
        format!("x IN ({negative}, 7e0, 8e0, 9e0)"),
        "x <= 0".to_string(),
        "x >= 0 AND x < 1".to_string(),
    ] {
        let text = format!("SELECT count(*) FROM few WHERE {condition}");
        assert_eq!(each_way(&db, &text).await, ["2"], "{condition}");
    }
    let joined = "SELECT count(*) FROM few a JOIN few b ON a.x = b.x";
    assert_eq!(query(&db, joined).await, ["5"]);
    let joined = "SELECT count(*) FROM few a JOIN few b USING (x)";
    assert_eq!(query(&db, joined).await, ["5"]);
    let joined = "SELECT count(*) FROM few WHERE x IN (SELECT y FROM few WHERE y < 1)";
    assert_eq!(query(&db, joined).await, ["2"]);
    // The sign is kept.
    assert_eq!(
        query(&db, "SELECT 1 / x FROM few WHERE x = 0 ORDER BY 1")
            .await
            .len(),
        2
    );
}
