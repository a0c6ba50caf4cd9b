//! Literals with a point are decimals, those with an exponent floats; what decimals, floats and integers are
//! together.

use datafusion::common::ScalarValue;

use super::support::{error, lines, new_pool, query, run};

async fn one(db: &halocline_engine::Database, text: &str) -> String {
    let rows = query(db, text).await;
    assert_eq!(rows.len(), 1, "{text}: {rows:?}");
    rows.into_iter().next().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_price_of_two_digits_is_found() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE p (id INT, x DECIMAL(9,2))").await;
    run(
        &db,
        "INSERT INTO p SELECT v, CAST(v AS DECIMAL(9,2)) / 100 FROM generate_series(500, 1500) AS s(v)",
    )
    .await;
    // The same prices in segments and in the log.
    run(&db, "INSERT INTO p VALUES (500, 5.00), (870, 8.70), (805, 8.05)").await;
    for mode in ["off", "force"] {
        run(&db, &format!("SET halocline.index = {mode}")).await;
        for cents in 600..=1100 {
            let price = format!("{}.{:02}", cents / 100, cents % 100);
            let rows = if matches!(cents, 870 | 805) { 2 } else { 1 };
            let text = format!(
                "SELECT count(*) FILTER (WHERE x = {price}), count(*) FILTER (WHERE x IN ({price}, -1.00)) FROM p"
            );
            assert_eq!(query(&db, &text).await, [format!("{rows}|{rows}")], "{price}");
            let text = format!("SELECT count(*) FROM p WHERE x = {price}");
            assert_eq!(query(&db, &text).await, [rows.to_string()], "{price}");
        }
    }
    assert_eq!(
        query(&db, "SELECT id FROM p WHERE x IN (8.70, 8.05) ORDER BY id")
            .await
            .len(),
        4
    );
    assert_eq!(
        query(
            &db,
            "SELECT id FROM p WHERE x IN (8.700, 8.055, 8.05) ORDER BY id"
        )
        .await
        .len(),
        4
    );
    assert_eq!(one(&db, "SELECT count(*) FROM p WHERE x = 8.705").await, "0");
    assert_eq!(
        one(&db, "SELECT count(*) FROM p WHERE x BETWEEN 8.695 AND 8.705").await,
        "2"
    );
    assert_eq!(
        run(&db, "UPDATE p SET id = 1 WHERE x = 8.70").await,
        "updated 2 rows"
    );
    assert_eq!(
        run(&db, "DELETE FROM p WHERE x <= 8.70").await,
        "deleted 374 rows"
    );
    assert_eq!(one(&db, "SELECT min(x) FROM p").await, "8.71");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn literals_have_the_type_that_they_look_like() {
    let (_dir, db) = new_pool();
    for (literal, kind) in [
        ("8.70", "Decimal128(3, 2)"),
        ("-8.70", "Decimal128(3, 2)"),
        (".5", "Decimal128(1, 1)"),
        ("1e3", "Float64"),
        ("-1.5e-3", "Float64"),
        ("1E0", "Float64"),
        ("7", "Int64"),
        ("18446744073709551616", "Decimal128(20, 0)"),
        ("1.00000000000000000000000000000000000000001", "Float64"),
        ("1.5 * 2", "Decimal128(23, 1)"),
        ("1.5 * 2e0", "Float64"),
        // A quotient is a float, as ever.
        ("1 / 3.0", "Float64"),
        ("1.0 / 3", "Float64"),
        ("100.00 * sum(7) / sum(3)", "Float64"),
        ("7 / 2", "Int64"),
        (
            "CAST(7 AS DECIMAL(9,2)) / CAST(2 AS DECIMAL(9,2))",
            "Decimal128(15, 6)",
        ),
        ("avg(1.5)", "Decimal128(6, 5)"),
        ("coalesce(CAST(1 AS DOUBLE), 0.5)", "Float64"),
        ("CASE WHEN true THEN 0.5 ELSE CAST(1 AS DOUBLE) END", "Float64"),
        ("nullif(CAST(1 AS DOUBLE), 0.5)", "Float64"),
        ("sqrt(2.0)", "Float64"),
        ("exp(1.0)", "Float64"),
        ("ln(2.5)", "Float64"),
    ] {
        assert_eq!(
            one(&db, &format!("SELECT arrow_typeof({literal})")).await,
            kind,
            "{literal}"
        );
    }
    assert_eq!(one(&db, "SELECT 0.1 + 0.2 = 0.3").await, "true");
    assert_eq!(one(&db, "SELECT 1 / 3.0").await, "3.333333333e-1");
    assert_eq!(
        one(&db, "SELECT 1e3 = 1000.0, 1e3 + 0.5").await,
        "true|1.000500000e3"
    );
    assert_eq!(
        one(
            &db,
            "SELECT round(2.345, 2), floor(2.5), abs(-1.5), power(2.0, 3.0)"
        )
        .await
        .split('|')
        .count(),
        4
    );
    let rows = query(
        &db,
        "SELECT approx_percentile_cont(v, 0.5) > 40.5, median(v) > 1.5 FROM generate_series(1, 99) AS s(v)",
    );
    assert_eq!(rows.await, ["true|true"]);
    assert_eq!(
        query(&db, "SELECT * FROM (VALUES (1.5), (22.25)) ORDER BY 1").await,
        ["1.50", "22.25"]
    );
    assert_eq!(
        query(
            &db,
            "SELECT arrow_typeof(column1) FROM (VALUES (1.5), (1e3)) LIMIT 1"
        )
        .await,
        ["Float64"]
    );
    assert_eq!(
        query(
            &db,
            "SELECT arrow_typeof(x) FROM (SELECT 1.5 AS x UNION ALL SELECT 1e300) LIMIT 1"
        )
        .await,
        ["Float64"]
    );
    // Floats that the text does not show, and casts to decimals that it has.
    for (rows, kind) in [
        ("(1.5), (sqrt(2))", "Float64"),
        ("(1.5), (exp(-50)), (NULL)", "Float64"),
        ("(1), (1.5), (arrow_cast('NaN', 'Float32'))", "Float32"),
        ("(1.5), (CAST(sqrt(2) AS DECIMAL(30,15)))", "Decimal128(30, 15)"),
        (
            "(CAST(sqrt(2) AS DECIMAL(5,2))), (sqrt(2)::decimal(5,2))",
            "Decimal128(5, 2)",
        ),
        ("(+(sqrt(2)::decimal(30,15))), (1.5)", "Decimal128(30, 15)"),
    ] {
        let text = format!("SELECT arrow_typeof(column1) FROM (VALUES {rows}) LIMIT 1");
        assert_eq!(query(&db, &text).await, [kind], "{rows}");
    }
    run(&db, "CREATE TABLE e (x DOUBLE)").await;
    run(
        &db,
        "INSERT INTO e VALUES (1.5), (exp(-50)), (arrow_cast('NaN', 'Float64'))",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT x = exp(-50), isnan(x) FROM e ORDER BY x").await,
        ["true|false", "false|false", "false|true"]
    );
    run(&db, "DROP TABLE e").await;
    // Names of columns are what is written.
    run(&db, "CREATE TABLE c AS SELECT 1.5 AS d, 1e0 AS f, 3 / 2.0").await;
    let columns = query(
        &db,
        "SELECT column_name, data_type FROM information_schema.columns ORDER BY 1",
    )
    .await;
    assert_eq!(columns, ["3 / 2.0|Float64", "d|Decimal128(2, 1)", "f|Float64"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_and_floats_meet_as_floats() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (x DOUBLE, y REAL, d DECIMAL(9,2), i BIGINT)").await;
    run(&db, "INSERT INTO t VALUES (0.1, 0.1, 0.10, 0), (1e300, 1e30, 8.70, 9), (8.7, 8.7, 8.70, 8), (NULL, NULL, NULL, NULL)")
        .await;
    run(&db, "INSERT INTO t VALUES (0.30000000000000004, -0.5, -0.50, -1)").await;
    run(&db, "CREATE TABLE u AS SELECT * FROM t").await;
    for table in ["t", "u"] {
        for (condition, rows) in [
            ("x = 0.1", 1),
            ("y = 0.1", 1),
            ("x = 8.70", 1),
            ("x > 8.70", 1),
            ("x IN (0.1, 8.7)", 2),
            ("x IN (0.1, 8.7, 1.5, 2.5)", 2),
            ("x BETWEEN 0.1 AND 8.7", 3),
            ("x = 0.30000000000000004", 1),
            ("x = 0.3", 0),
            ("d = 8.7e0", 2),
            ("d = x", 2),
            ("d < x", 2),
            ("i < 8.5", 3),
            ("i > 8.5", 1),
            ("i = 8.0", 1),
            ("i = 8.5", 0),
            ("i IN (8.0, 9.5, 0.0)", 2),
            ("i * 1.5 = 12.0", 1),
            ("x + 0.5 > 1.0", 2),
            ("coalesce(x, 0.0) < 0.2", 2),
            ("CASE WHEN i > 8 THEN x ELSE 0.0 END > 1.5", 1),
            ("CASE x WHEN 0.1 THEN true ELSE false END", 1),
        ] {
            for mode in ["off", "force"] {
                run(&db, &format!("SET halocline.index = {mode}")).await;
                let text = format!("SELECT count(*) FROM {table} WHERE {condition}");
                assert_eq!(one(&db, &text).await, rows.to_string(), "{text}");
            }
        }
    }
    // Every bit of a literal arrives, also by way of a query.
    run(&db, "CREATE TABLE f (x DOUBLE)").await;
    run(
        &db,
        "INSERT INTO f VALUES (123456789.12345679), (0.30000000000000004)",
    )
    .await;
    run(
        &db,
        "INSERT INTO f SELECT 123456789.12345679 + 0 UNION ALL SELECT 0.30000000000000004 + 0",
    )
    .await;
    run(&db, "UPDATE f SET x = 0.7000000000000001 WHERE x < 0.5").await;
    let bits = query(&db, "SELECT CAST(x AS VARCHAR) AS s FROM f ORDER BY x").await;
    assert_eq!(
        bits,
        [
            "0.7000000000000001",
            "0.7000000000000001",
            "123456789.12345679",
            "123456789.12345679"
        ]
    );
    // As defaults, and in text columns.
    run(
        &db,
        "CREATE TABLE g (a INT, b DECIMAL(9,2) DEFAULT 8.70, c DOUBLE DEFAULT 0.1, s VARCHAR DEFAULT 8.70)",
    )
    .await;
    run(&db, "INSERT INTO g (a) VALUES (1)").await;
    run(&db, "INSERT INTO g VALUES (2, DEFAULT, DEFAULT, 8.70)").await;
    assert_eq!(
        query(
            &db,
            "SELECT count(*) FROM g WHERE b = 8.70 AND c = 0.1 AND s = '8.70'"
        )
        .await,
        ["2"]
    );
    assert!(
        error(&db, "INSERT INTO g VALUES (3, 12345678.90, 0, '')")
            .await
            .contains("column b")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn star_joins_know_decimal_literals() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE d AS SELECT CAST(v AS INT) AS k, v % 3 AS g FROM generate_series(1, 30) AS s(v)",
    )
    .await;
    run(
        &db,
        "CREATE TABLE f AS SELECT CAST(v % 31 AS INT) AS k, CAST(CAST(v % 1000 AS DECIMAL(9,2)) / 100 AS DECIMAL(9,2)) AS x, v AS i \
         FROM generate_series(1, 9000) AS s(v)",
    )
    .await;
    for text in [
        "SELECT g, sum(x), count(*) FROM f JOIN d ON f.k = d.k WHERE x = 8.70 OR x <= 0.07 GROUP BY g ORDER BY g",
        "SELECT g, sum(x * 1.5) FROM f JOIN d ON f.k = d.k WHERE x IN (8.70, 8.05) GROUP BY g ORDER BY g",
        "SELECT g, sum(x * (1 - 0.25)) FROM f JOIN d ON f.k = d.k WHERE i < 800.5 GROUP BY g ORDER BY g",
    ] {
        run(&db, "SET halocline.star_join = on").await;
        assert!(
            query(&db, &format!("EXPLAIN {text}"))
                .await
                .join("\n")
                .contains("StarJoin: fact="),
            "{text}"
        );
        let star = query(&db, text).await;
        run(&db, "SET halocline.star_join = off").await;
        assert_eq!((star.len(), &star), (3, &query(&db, text).await), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounded_decimals_have_one_type() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a BIGINT, d DECIMAL(20,5))").await;
    run(&db, "INSERT INTO t VALUES (0, 1.23456), (2, -2.5), (3, NULL)").await;
    for (text, rows) in [
        (
            "SELECT CASE WHEN a = 0 THEN 100.0 ELSE round(d, 2) END FROM t ORDER BY a",
            vec!["100.00", "-2.50", "NULL"],
        ),
        (
            "SELECT a, CASE WHEN a = 0 THEN 100.0 ELSE round((1.0 - (a::numeric / a)) * 100, 2) END FROM t \
             WHERE a > 0 AND (1.0 - (a::numeric / a)) * 100 < 95.0 ORDER BY a",
            vec!["2|0.00", "3|0.00"],
        ),
        (
            "SELECT round(d, 1), count(*) FROM t GROUP BY round(d, 1) HAVING round(d, 1) > 0",
            vec!["1.2|1"],
        ),
        ("SELECT round(d, 1) FROM t WHERE round(d, 1) = -2.5", vec!["-2.5"]),
        (
            "SELECT coalesce(round(d, -1), 7.25) FROM t ORDER BY a",
            vec!["0.00", "0.00", "7.25"],
        ),
    ] {
        assert_eq!(query(&db, text).await, rows, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_of_distinct_floats_are_sorted() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a INT, x DOUBLE)").await;
    run(
        &db,
        "INSERT INTO t VALUES (1, 2e0), (2, -0e0), (3, 0e0), (4, 2e0), (5, NULL)",
    )
    .await;
    for (text, row) in [
        (
            "array_agg(DISTINCT x ORDER BY x DESC NULLS LAST)",
            "[2.0, 0.0, NULL]",
        ),
        (
            "array_agg(DISTINCT x ORDER BY x) FILTER (WHERE x IS NOT NULL)",
            "[0.0, 2.0]",
        ),
        ("approx_median(DISTINCT x)", "1.000000000e0"),
        ("count(DISTINCT x)", "2"),
        ("count(DISTINCT x), sum(DISTINCT x)", "2|2.000000000e0"),
    ] {
        assert_eq!(one(&db, &format!("SELECT {text} FROM t")).await, row, "{text}");
    }
    let groups = "SELECT x, count(DISTINCT x), array_agg(DISTINCT a ORDER BY a) FROM t WHERE x = x GROUP BY x ORDER BY x";
    assert_eq!(
        query(&db, groups).await,
        ["0.000000000e0|1|[2, 3]", "2.000000000e0|1|[1, 4]"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arithmetic_with_null_is_a_constant() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v FROM generate_series(1, 3) AS s(v)",
    )
    .await;
    for text in [
        "SELECT nth_value(v, v * NULL) OVER (ORDER BY v) FROM t",
        "SELECT v + NULL FROM t",
        "SELECT NULL - v FROM t",
        "SELECT v << NULL FROM t",
        "SELECT -(v * NULL) FROM t",
    ] {
        assert_eq!(query(&db, text).await, ["NULL", "NULL", "NULL"], "{text}");
    }
    assert_eq!(
        one(&db, "SELECT arrow_typeof(v * NULL) FROM t LIMIT 1").await,
        "Int64"
    );
}

#[tokio::test]
async fn lists_are_combined_by_values() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS id, v % 2 = 0 AS b, CAST(v AS DOUBLE) AS x FROM generate_series(1, 100) AS s(v)",
    )
    .await;
    for (condition, expected) in [
        ("id IN (1, 2, 3, 4, 5) AND id NOT IN (6, 7, 8, 9, NULL)", "0"),
        ("id IN (1, 2, 3, 4, NULL) OR id IN (6, 7, 8, 9, 10)", "9"),
        ("(id IN (1, 2, 3, 4, NULL)) IS NULL", "96"),
        ("(id NOT IN (NULL, NULL)) IS NULL", "100"),
        (
            "id IN (id + 0, 5, 6, 7, 8) AND id NOT IN (id * 1, 9, 10, 11, 12)",
            "0",
        ),
        (
            "id IN (id + 0, 5, 6, 7, 8) AND id IN (id * 1, 9, 10, 11, 12)",
            "100",
        ),
        (
            "x IN (x + 0, 5, 6, 7, 8) AND x NOT IN (x * 1, 9, 10, 11, 12)",
            "0",
        ),
        ("x IN (1, 2, 3, 4.5, 5) AND x NOT IN (2, 4, 6, 8, -0.0)", "3"),
        ("id NOT IN (1, 2, 3, 4, 5) AND id NOT IN (6, 7, 8, 9, 10)", "90"),
    ] {
        let text = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(query(&db, &text).await, [expected], "{text}");
    }
    let text = "SELECT count(*) FROM t WHERE b NOT IN ($1, $2, $3, $4, $5) AND b IN ($6, $7, $8, $9, $10) AND id > $11";
    let prepared = db.prepare(text).await.unwrap();
    for (values, expected) in [
        (
            [true, false, true, true, false, true, true, false, false, false],
            0,
        ),
        (
            [true, true, true, true, true, true, false, false, true, false],
            50,
        ),
    ] {
        let values = values
            .into_iter()
            .map(ScalarValue::from)
            .chain([ScalarValue::from(0_i64)]);
        let result = prepared.execute(values.collect::<Vec<_>>()).await.unwrap();
        assert_eq!(lines(&result.collect().await.unwrap()), [expected.to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ceil_and_floor_have_room_for_another_digit() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE d (x DECIMAL(2,1), y DECIMAL(38,1))").await;
    run(
        &db,
        "INSERT INTO d VALUES (9.9, 1.5), (-9.9, -1.5), (9.0, 0), (NULL, NULL)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT ceil(x), floor(x), ceil(y), floor(y) FROM d").await,
        [
            "10.0|9.0|2.0|1.0",
            "-9.0|-10.0|-1.0|-2.0",
            "9.0|9.0|0.0|0.0",
            "NULL|NULL|NULL|NULL"
        ]
    );
    assert_eq!(
        query(&db, "SELECT x FROM d WHERE ceil(x) = 10 OR floor(x) < -9").await,
        ["9.9", "-9.9"]
    );
    assert_eq!(one(&db, "SELECT ceil(9.9), floor(-0.1)").await, "10.0|-1.0");
    run(&db, "PREPARE above AS SELECT ceil(x + $1) FROM d WHERE x = $2").await;
    for _ in 0..3 {
        assert_eq!(one(&db, "EXECUTE above (0.05, 9.9)").await, "10.00");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_may_have_underscores() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i BIGINT, d DECIMAL(12,2))").await;
    run(
        &db,
        "INSERT INTO t VALUES (1_000, 1_234.50), (2_000_000, -1_0.0_1)",
    )
    .await;
    for _ in 0..3 {
        assert_eq!(one(&db, "SELECT d FROM t WHERE i = 1_000").await, "1234.50");
        assert_eq!(one(&db, "SELECT d FROM t WHERE i > 1_0_0_0").await, "-10.01");
    }
    assert_eq!(
        one(&db, "SELECT 1_000, 1_000.5 + 1, 1_0e1 FROM t LIMIT 1").await,
        "1000|1001.5|1.000000000e2"
    );
    assert_eq!(query(&db, "SELECT i FROM t LIMIT 1_000").await.len(), 2);
}
