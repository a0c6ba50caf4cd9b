//! Integers that overflow are errors, whichever way a query goes.

use halocline_engine::Database;

use super::support::{error, new_pool, query, run};

const MAX_BIGINT: &str = "9223372036854775807";

/// A fact table whose `x` is at the ends of 64 bits, `y` of 32 bits, and a dimension.
async fn ends(db: &Database) {
    run(
        db,
        "CREATE TABLE d AS SELECT CAST(v AS INT) AS k, v % 2 AS g FROM generate_series(0, 9) AS s(v)",
    )
    .await;
    run(
        db,
        &format!(
            "CREATE TABLE f AS SELECT CAST(v % 10 AS INT) AS k, CASE v WHEN 7 THEN {MAX_BIGINT} WHEN 8 THEN -{MAX_BIGINT} - 1 ELSE v END AS x, \
             CAST(CASE v WHEN 7 THEN 2147483647 ELSE v END AS INT) AS y FROM generate_series(1, 3000) AS s(v)"
        ),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arithmetic_that_overflows_is_an_error() {
    let (_dir, db) = new_pool();
    ends(&db).await;
    for (expression, kind) in [
        ("x + 1", "bigint"),
        ("x - 2", "bigint"),
        ("x * 2", "bigint"),
        ("-x", "bigint"),
        ("y + CAST(1 AS INT)", "int"),
        ("y * y", "int"),
        ("-(y + CAST(1 AS INT))", "int"),
        (
            "CAST(y AS INT UNSIGNED) - CAST(f.k + 1 AS INT UNSIGNED) * CAST(4000000 AS INT UNSIGNED)",
            "int unsigned",
        ),
        ("CAST(f.k AS TINYINT) * CAST(100 AS TINYINT)", "tinyint"),
    ] {
        for text in [
            format!("SELECT max({expression}) FROM f"),
            format!("SELECT count(*) FROM f WHERE {expression} = 3"),
            format!("SELECT k FROM f ORDER BY {expression}"),
            format!("SELECT count(*) FROM f GROUP BY {expression}"),
            format!("CREATE TABLE g AS SELECT {expression} AS v FROM f"),
            format!("SELECT g, min({expression}) FROM f JOIN d ON f.k = d.k GROUP BY g"),
        ] {
            let found = error(&db, &text).await;
            assert!(
                found.contains(&format!("is not a value of type {kind}")),
                "{text}: {found}"
            );
        }
    }
    for constant in [
        format!("{MAX_BIGINT} + 1"),
        format!("-{MAX_BIGINT} - 2"),
        format!("{MAX_BIGINT} * {MAX_BIGINT}"),
        "-(-9223372036854775808)".to_string(),
    ] {
        let found = error(&db, &format!("SELECT {constant}")).await;
        assert!(found.contains("is not a value of"), "{constant}: {found}");
    }
    for text in [
        "SELECT (-9223372036854775808) / -1",
        "SELECT abs(-9223372036854775808)",
        "SELECT CAST(300 AS TINYINT)",
        "SELECT CAST(x AS INT) FROM f",
        "SELECT CAST(-1 AS BIGINT UNSIGNED)",
    ] {
        error(&db, text).await;
    }
    // What is not evaluated does not fail.
    assert_eq!(
        query(
            &db,
            "SELECT sum(CASE WHEN abs(x / 2) < 5000 THEN x * 1000 ELSE 0 END) > 0 FROM f"
        )
        .await,
        ["true"]
    );
    assert_eq!(
        query(&db, "SELECT count(x + 1) FROM f WHERE x < 5000").await,
        ["2999"]
    );
    // Names stay.
    let names = db
        .sql("SELECT x + 1, -x, x * (k - 1) FROM f WHERE x BETWEEN 1 AND 6")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let names: Vec<String> = names[0]
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, ["f.x + Int64(1)", "(- f.x)", "f.x * f.k - Int64(1)"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_store_no_wrapped_values() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a BIGINT, b INT, c TINYINT)").await;
    run(
        &db,
        &format!("INSERT INTO t VALUES ({MAX_BIGINT}, 2147483647, 127), (1, 1, 1)"),
    )
    .await;
    for change in [
        "a = a + 1",
        "a = a * 2",
        "b = b + 1",
        "c = c + 1",
        "c = a",
        "b = a",
        "a = -a - 2",
    ] {
        let found = error(&db, &format!("UPDATE t SET {change}")).await;
        assert!(found.contains("is not a value of type"), "{change}: {found}");
    }
    assert_eq!(
        query(&db, "SELECT * FROM t ORDER BY a DESC").await,
        [format!("{MAX_BIGINT}|2147483647|127"), "1|1|1".into()]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_fails_if_and_only_if_it_does_not_fit() {
    let (_dir, db) = new_pool();
    ends(&db).await;
    for star in ["on", "off"] {
        run(&db, &format!("SET halocline.star_join = {star}")).await;
        for (text, is_star) in [
            ("SELECT g, sum(x) FROM f JOIN d ON f.k = d.k GROUP BY g", true),
            ("SELECT sum(x) FROM f JOIN d ON f.k = d.k WHERE x > 0", true),
            ("SELECT sum(x) FROM f WHERE x > 0", false),
            ("SELECT k, sum(x) FROM f GROUP BY k", false),
            ("SELECT sum(DISTINCT x) FROM f WHERE x > 0", false),
            (
                "SELECT sum(DISTINCT x), count(DISTINCT y) FROM f WHERE x > 0",
                false,
            ),
            ("SELECT sum(x) OVER (ORDER BY x) FROM f WHERE x > 0", false),
            (
                "SELECT sum(x) OVER (ORDER BY x ROWS 2 PRECEDING) FROM f WHERE x > 0",
                false,
            ),
            (
                "SELECT sum(CAST(x AS BIGINT UNSIGNED) + CAST(9223372036854775807 AS BIGINT UNSIGNED)) FROM f WHERE x > 0",
                false,
            ),
        ] {
            let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
            assert_eq!(
                plan.contains("StarJoin: fact="),
                is_star && star == "on",
                "{text}"
            );
            let found = error(&db, text).await;
            assert!(found.contains("is not a value of type bigint"), "{text}: {found}");
        }
        // Partial sums are beyond 64 bits, the whole is not.
        for text in [
            "SELECT sum(x) FROM f JOIN d ON f.k = d.k",
            "SELECT sum(x) FROM f",
            "SELECT sum(x) FROM (SELECT x FROM f UNION ALL SELECT x FROM f UNION ALL SELECT -1 - x FROM f WHERE x = 9223372036854775807 \
             UNION ALL SELECT 9223372036854775807 FROM f WHERE x = 7 OR x = 9)",
        ] {
            query(&db, text).await;
        }
        assert_eq!(query(&db, "SELECT sum(x) FROM f").await, ["4501484"], "{star}");
        assert_eq!(
            query(&db, "SELECT sum(x) FROM f JOIN d ON f.k = d.k").await,
            ["4501484"],
            "{star}"
        );
        assert_eq!(
            query(
                &db,
                "SELECT sum(x), sum(y), avg(y) > 1e5 FROM f WHERE x < 0 OR x > 3001"
            )
            .await,
            ["-1|2147483655|true"]
        );
        assert_eq!(query(&db, "SELECT sum(x) FROM f WHERE x IS NULL").await, ["NULL"]);
    }
    assert_eq!(
        query(
            &db,
            &format!("SELECT sum(v) FROM (VALUES ({MAX_BIGINT}), (1), (-1)) AS t(v)")
        )
        .await,
        [MAX_BIGINT.to_string()]
    );
    let found = error(
        &db,
        &format!("SELECT sum(v) FROM (VALUES ({MAX_BIGINT}), (1)) AS t(v)"),
    )
    .await;
    assert!(
        found.contains("the sum 9223372036854775808 is not a value of type bigint"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shift_keeps_its_value_or_is_an_error() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE s (x BIGINT, n BIGINT, t TINYINT, u BIGINT UNSIGNED)",
    )
    .await;
    run(&db, "INSERT INTO s VALUES (1, 64, 1, 1), (3, 2, 3, 18446744073709551615), (-8, 1, NULL, 0), (0, 100, 1, 7)").await;
    for expression in [
        "1 << 64",
        "1 << 63",
        "1 << -1",
        "1 >> -1",
        "-1 << 64",
        "CAST(1 AS TINYINT) << CAST(7 AS TINYINT)",
    ] {
        let found = error(&db, &format!("SELECT {expression}")).await;
        assert!(found.contains("is not a value of type"), "{expression}: {found}");
    }
    for column in [
        "x << n",
        "1 << n",
        "x << 63",
        "u << 1",
        "t << CAST(7 AS TINYINT)",
        "n << (n * 2)",
    ] {
        for text in [
            format!("SELECT {column} FROM s"),
            format!("SELECT count(*) FROM s WHERE {column} = 2"),
        ] {
            let found = error(&db, &text).await;
            assert!(found.contains("is not a value of type"), "{text}: {found}");
        }
    }
    for (expression, value) in [
        ("1 << 62", "4611686018427387904"),
        ("-1 << 63", "-9223372036854775808"),
        ("0 << 64", "0"),
        ("8 >> 64", "0"),
        ("-8 >> 1", "-4"),
        ("-8 >> 64", "-1"),
        ("NULL << 64", "NULL"),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [value],
            "{expression}"
        );
    }
    let rows = query(
        &db,
        "SELECT x >> n, x << 3, t << CAST(1 AS TINYINT), u >> 63 FROM s ORDER BY x",
    )
    .await;
    assert_eq!(rows, ["-4|-64|NULL|0", "0|0|2|0", "0|8|2|0", "0|24|6|1"]);
    assert_eq!(query(&db, "SELECT x << 1 FROM s WHERE x << 1 = 6").await, ["6"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_and_averages_of_38_digits_are_exact_or_errors() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE w (id BIGINT, d DECIMAL(38,4))").await;
    let most = "9999999999999999999999999999999999.9999";
    run(
        &db,
        &format!("INSERT INTO w VALUES (1, {most}), (2, {most}), (3, -{most}), (4, 1.0000), (5, NULL), (6, 2.5000), (7, 9999999999999999999999999999999998.9999)"),
    )
    .await;
    for (aggregate, rows, value) in [
        ("sum(d)", "id <= 3", Some(most)),
        ("sum(d)", "id <= 2", None),
        ("sum(DISTINCT d)", "id <= 2", Some(most)),
        ("sum(DISTINCT d)", "id <= 4", Some("1.0000")),
        ("sum(DISTINCT d)", "id IN (1, 7)", None),
        (
            "sum(DISTINCT d)",
            "id IN (1, 3, 7)",
            Some("9999999999999999999999999999999998.9999"),
        ),
        ("avg(d)", "id IN (4, 6)", Some("1.75000000")),
        ("avg(d)", "id IN (1, 3, 4)", Some("0.33333333")),
        ("avg(d)", "id IN (1, 2)", None),
        ("avg(DISTINCT d)", "id IN (1, 7)", None),
        ("avg(DISTINCT d)", "id IN (1, 3, 6)", Some("0.83333333")),
        ("sum(d)", "id = 5", Some("NULL")),
        ("avg(d)", "id = 5", Some("NULL")),
    ] {
        for text in [
            format!("SELECT {aggregate} FROM w WHERE {rows}"),
            format!("SELECT {aggregate} FROM w WHERE {rows} GROUP BY id > 100"),
            format!("SELECT max(v) FROM (SELECT {aggregate} OVER () AS v FROM w WHERE {rows}) AS o"),
        ] {
            if text.contains("DISTINCT") && text.contains("OVER") {
                continue;
            }
            match value {
                Some(value) => assert_eq!(query(&db, &text).await, [value], "{text}"),
                None => {
                    let found = error(&db, &text).await.to_lowercase();
                    assert!(
                        found.contains("overflow") || found.contains("is not a value of type"),
                        "{text}: {found}"
                    );
                }
            }
        }
    }
    let window = "SELECT id, sum(d) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w WHERE id IN (1, 3, 2, 4)";
    assert!(error(&db, window).await.contains("a sum of decimals"));
    let window = window.replace("id IN (1, 3, 2, 4)", "id IN (2, 3, 4)");
    assert_eq!(query(&db, &format!("{window} ORDER BY id")).await.len(), 3);
}
