//! Conversions between numbers, and decimals of more than 38 digits.

use super::support::{error, new_pool, query, run};

const MAX_DECIMAL: &str = "99999999999999999999999999999999999999";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversions_to_integers_round() {
    let (_dir, db) = new_pool();
    for (expression, value) in [
        ("CAST(0.5e0 AS INT)", "0"),
        ("CAST(1.5e0 AS INT)", "2"),
        ("CAST(2.5e0 AS BIGINT)", "2"),
        ("CAST(-2.5e0 AS TINYINT)", "-2"),
        ("CAST(-0.4e0 AS INT UNSIGNED)", "0"),
        ("CAST(CAST(3.5 AS REAL) AS INT)", "4"),
        ("CAST(2.5 AS INT)", "3"),
        ("CAST(-2.5 AS INT)", "-3"),
        ("CAST(0.49 AS INT)", "0"),
        ("CAST(2147483647.4e0 AS INT)", "2147483647"),
        ("TRY_CAST(2147483647.5e0 AS INT)", "NULL"),
        ("TRY_CAST(CAST('nan' AS DOUBLE) AS INT)", "NULL"),
        ("TRY_CAST(99.5 AS TINYINT)", "100"),
        ("TRY_CAST(127.5 AS TINYINT)", "NULL"),
        ("CAST(1.005 AS DECIMAL(4,2))", "1.01"),
        ("CAST(-1.005 AS DECIMAL(4,2))", "-1.01"),
        ("CAST('1.005' AS DECIMAL(4,2))", "1.01"),
        ("CAST('12.3e-1' AS DECIMAL(5,2))", "1.23"),
        ("CAST(0.125e0 AS DECIMAL(4,2))", "0.13"),
        ("TRY_CAST('99.995' AS DECIMAL(4,2))", "NULL"),
        ("TRY_CAST(300 AS TINYINT)", "NULL"),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [value],
            "{expression}"
        );
    }
    for expression in [
        "CAST(CAST('nan' AS DOUBLE) AS INT)",
        "CAST(CAST('inf' AS DOUBLE) AS BIGINT)",
        "CAST(2147483647.5e0 AS INT)",
        "CAST(9223372036854775807e0 AS BIGINT)",
        "CAST(127.5 AS TINYINT)",
        "CAST(-0.6e0 AS INT UNSIGNED)",
        "CAST('2.5' AS INT)",
        "CAST(99.995 AS DECIMAL(4,2))",
        "CAST('123.456' AS DECIMAL(4,2))",
        "CAST(1e300 AS DECIMAL(10,2))",
    ] {
        error(&db, &format!("SELECT {expression}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_round_as_casts_do() {
    let (_dir, db) = new_pool();
    for key in ["", ", PRIMARY KEY (k)"] {
        run(
            &db,
            &format!("CREATE TABLE t (k INT, i INT, d DECIMAL(4,1){key})"),
        )
        .await;
        run(
            &db,
            "INSERT INTO t VALUES (1, 2.5, 2.25), (2, 2.5e0, 2.25e0), (3, 3, 2.249)",
        )
        .await;
        run(&db, "INSERT INTO t SELECT k + 10, k + 0.5, k + 0.25 FROM t").await;
        run(&db, "INSERT INTO t SELECT 21, 4.5e0, '7.75'").await;
        let rows = [
            "1|3|2.3", "2|2|2.3", "3|3|2.2", "11|2|1.3", "12|3|2.3", "13|4|3.3", "21|4|7.8",
        ];
        assert_eq!(query(&db, "SELECT * FROM t ORDER BY k").await, rows, "{key}");
        run(&db, "UPDATE t SET i = d + 0.2, d = i / 4e0 WHERE k < 3").await;
        assert_eq!(
            query(&db, "SELECT i, d FROM t WHERE k < 3 ORDER BY k").await,
            ["3|0.8", "3|0.5"],
            "{key}"
        );
        for statement in [
            "INSERT INTO t VALUES (30, 0, 999.95)",
            "INSERT INTO t SELECT 30, 0, 1000",
            "UPDATE t SET d = d * 1000 WHERE k = 21",
            "UPDATE t SET i = 2147483647.5",
        ] {
            let found = error(&db, statement).await;
            assert!(found.contains("is not a value of type"), "{statement}: {found}");
        }
        run(&db, "DROP TABLE t").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_cast_is_compared_after_the_cast() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (d DECIMAL(5,2), x DOUBLE, b BIGINT)").await;
    run(
        &db,
        "INSERT INTO t VALUES (2.5, 2.5, 3), (2.6, 3.5, 300), (3, 3, NULL)",
    )
    .await;
    for (condition, rows) in [
        ("CAST(d AS INT) = 3", "3"),
        ("CAST(x AS INT) IN (2, 4)", "2"),
        ("CAST(d AS DECIMAL(4,1)) = 2.6", "1"),
        ("CAST(d AS DECIMAL(4,0)) = 3", "3"),
        ("TRY_CAST(b AS TINYINT) > 2", "1"),
        ("TRY_CAST(b AS TINYINT) IS NULL", "2"),
    ] {
        let text = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(query(&db, &text).await, [rows], "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_of_more_than_38_digits_are_an_error() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (k INT, big DECIMAL(38,0), tens DECIMAL(38,2), d DECIMAL(5,2))",
    )
    .await;
    let tens = "999999999999999999999999999999999999.99";
    run(
        &db,
        &format!("INSERT INTO t VALUES (1, '{MAX_DECIMAL}', '{tens}', 2.5), (2, 1, 1, NULL)"),
    )
    .await;
    for (expression, value) in [
        ("big + 1", None),
        ("big - (-1)", None),
        ("big - 1", Some(&MAX_DECIMAL[..37])),
        ("-big", Some("-")),
        ("big * 2", None),
        ("big * d", None),
        ("big * 1.5", None),
        ("tens + 0.01", None),
        ("tens * 10", None),
        ("big / 3", None),
        ("tens / 7", None),
        ("big % 7", Some("1")),
        ("round(tens, 1)", Some("1000000000000000000000000000000000000.0")),
        ("CAST(big AS DECIMAL(38,1))", None),
        ("CAST(big AS DECIMAL(37,0))", None),
        ("sum(big) OVER ()", None),
        ("avg(big) OVER ()", None),
    ] {
        let text = format!("SELECT {expression} FROM t ORDER BY k LIMIT 1");
        match value {
            Some(value) => {
                let row = query(&db, &text).await.remove(0);
                assert!(row.starts_with(value), "{text}: {row}");
            }
            None => {
                error(&db, &text).await;
                let store = format!("CREATE TABLE u AS SELECT {expression} AS v FROM t");
                error(&db, &store).await;
            }
        }
    }
    for aggregate in [
        "sum(big)",
        "sum(big + big)",
        "sum(DISTINCT big)",
        "avg(big)",
        "max(tens + tens)",
    ] {
        error(&db, &format!("SELECT {aggregate} FROM t")).await;
        error(&db, &format!("SELECT k % 1, {aggregate} FROM t GROUP BY k % 1")).await;
    }
    for change in ["big = big + 1", "tens = tens * 10", "d = big", "d = d * 1000"] {
        error(&db, &format!("UPDATE t SET {change} WHERE k = 1")).await;
    }
    assert_eq!(
        query(&db, "SELECT max(big) - 1 > 0, max(tens), max(d) FROM t").await,
        [format!("true|{tens}|2.50")]
    );
    // What the operands cannot exceed needs no check, and is computed as it was.
    let plan = query(&db, "EXPLAIN SELECT sum(d * (1 - d)) FROM t")
        .await
        .join("\n");
    assert!(!plan.contains("multiply("), "{plan}");
    assert_eq!(
        query(&db, "SELECT sum(d * (1 - d)), sum(d * (1 - d) * (1 + d)) FROM t").await,
        ["-3.7500|-13.125000"]
    );
}
