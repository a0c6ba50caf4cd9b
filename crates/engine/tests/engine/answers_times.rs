//! Dates and timestamps of all units and far years, with and without time zone.

use super::support::{error, new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_dates_are_compared_with_timestamps() {
    let (_dir, db) = new_pool();
    for key in ["", " PRIMARY KEY"] {
        run(
            &db,
            &format!("CREATE TABLE t (k INT{key}, d DATE, s TIMESTAMP(0), u TIMESTAMP(6), n TIMESTAMP)"),
        )
        .await;
        run(
            &db,
            "INSERT INTO t VALUES (1, '9999-12-31', '9999-12-31 00:00:00', '9999-12-31 00:00:00', '2262-01-01 00:00:00'), \
             (2, '2020-01-01', '2020-01-01 00:00:00', '2020-01-01 00:00:00', '2020-01-01 00:00:00'), \
             (3, '0001-01-01', '0001-01-01 00:00:00', '0001-01-01 00:00:00', '1678-01-01 00:00:00'), \
             (4, NULL, NULL, NULL, NULL)",
        )
        .await;
        for (condition, keys) in [
            ("d > now()", "1"),
            ("now() < d", "1"),
            ("d > now() - INTERVAL '1 day'", "1"),
            ("s > now()", "1"),
            ("u > now()", "1"),
            ("d > TIMESTAMP '2020-01-01 00:00:00'", "1"),
            ("d >= TIMESTAMP '2020-01-01 00:00:00'", "1 2"),
            ("d >= TIMESTAMP '2020-01-01 00:00:00.5'", "1"),
            ("d < TIMESTAMP '2020-01-01 00:00:00.5'", "2 3"),
            ("d = TIMESTAMP '2020-01-01 00:00:00'", "2"),
            ("d = TIMESTAMP '2020-01-01 00:00:00.5'", ""),
            ("NOT (d = TIMESTAMP '2020-01-01 00:00:00.5')", "1 2 3"),
            ("d IS DISTINCT FROM TIMESTAMP '2020-01-01 00:00:00'", "1 3 4"),
            ("s = TIMESTAMP '2020-01-01 00:00:00.5'", ""),
            ("s < TIMESTAMP '2020-01-01 00:00:00.5'", "2 3"),
            ("s <> TIMESTAMP '2020-01-01 00:00:00.5'", "1 2 3"),
            ("s <= '9999-12-30 12:00:00'", "2 3"),
            ("u >= '9999-12-31'", "1"),
            ("n < DATE '9999-12-31'", "1 2 3"),
            ("n <= DATE '0001-01-01'", ""),
            ("n < TIMESTAMP '9999-12-31 00:00:00'", "1 2 3"),
            ("d = u", "1 2 3"),
            ("d = n", "2"),
            ("u > n", "1"),
            ("n > u", "3"),
            ("s = u AND u = s", "1 2 3"),
            ("d BETWEEN TIMESTAMP '2019-12-31 12:00:00' AND now()", "2"),
            ("d NOT BETWEEN TIMESTAMP '2019-12-31 12:00:00' AND now()", "1 3"),
            (
                "d IN (TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-01 00:00:00.5')",
                "2",
            ),
            ("d NOT IN (TIMESTAMP '2020-01-01 00:00:00.5')", "1 2 3"),
            ("d IN (n, u)", "1 2 3"),
            ("CASE d WHEN TIMESTAMP '2020-01-01 00:00:00' THEN true END", "2"),
            ("d IN (SELECT u FROM t)", "1 2 3"),
            ("n IN (SELECT d FROM t)", "2"),
            ("n = ANY (SELECT d FROM t)", "2"),
            ("d = ANY (SELECT n FROM t)", "2"),
            ("d > ALL (SELECT n FROM t WHERE n IS NOT NULL)", "1"),
            ("n <> ALL (SELECT d FROM t WHERE d IS NOT NULL)", "1 3"),
            ("nullif(d, n) IS NULL", "2 4"),
            ("nullif(n, DATE '9999-12-31') IS NULL", "4"),
            ("coalesce(n, DATE '9999-12-31') > now()", "1 4"),
            ("coalesce(d, u) > now()", "1"),
            ("coalesce(s, d, u) < DATE '1000-01-01'", "3"),
            ("least(d, u) = TIMESTAMP '0001-01-01 00:00:00'", "3"),
            ("CASE k WHEN 1 THEN d ELSE s END > DATE '2020-01-01'", "1"),
            (
                "CASE k WHEN 1 THEN DATE '0001-01-01' ELSE n END < DATE '1700-01-01'",
                "1 3",
            ),
            ("greatest(n, TIMESTAMP '9999-12-31 00:00:00') > u", "2 3"),
            ("EXISTS (SELECT 1 FROM t AS o WHERE o.n = t.d)", "2"),
        ] {
            let text = format!("SELECT k FROM t WHERE {condition} ORDER BY k");
            assert_eq!(query(&db, &text).await.join(" "), keys, "{condition}");
        }
        assert_eq!(
            query(
                &db,
                "SELECT a.k, b.k FROM t AS a JOIN t AS b ON a.d = b.n ORDER BY 1"
            )
            .await,
            ["2|2"]
        );
        run(&db, "DROP TABLE t").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_years_have_a_place_or_are_refused_by_name() {
    let (_dir, db) = new_pool();
    for (expression, value) in [
        ("TIMESTAMP '9999-12-31 23:59:59.5'", "9999-12-31T23:59:59.500"),
        ("TIMESTAMP '0001-01-01 00:00:00'", "0001-01-01T00:00:00"),
        ("CAST('9999-12-31' AS TIMESTAMP)", "9999-12-31T00:00:00"),
        ("date_trunc('month', DATE '9999-12-31')", "9999-12-01T00:00:00"),
        ("date_trunc('year', DATE '0001-05-05')", "0001-01-01T00:00:00"),
        (
            "date_trunc('hour', TIMESTAMP '9999-12-31 23:59:59')",
            "9999-12-31T23:00:00",
        ),
        ("extract(year FROM DATE '9999-12-31')", "9999"),
        ("extract(year FROM TIMESTAMP '0001-01-01 00:00:00')", "1"),
        ("DATE '9999-12-30' + INTERVAL '1 day'", "9999-12-31"),
        ("DATE '0001-01-01' + INTERVAL '1 month'", "0001-02-01"),
        (
            "TIMESTAMP '9999-12-31 00:00:00' - INTERVAL '1 day'",
            "9999-12-30T00:00:00",
        ),
        ("CAST(DATE '9999-12-31' AS TIMESTAMP(6))", "9999-12-31T00:00:00"),
        ("CAST(DATE '9999-12-31' AS VARCHAR)", "9999-12-31"),
        ("TRY_CAST(DATE '9999-12-31' AS TIMESTAMP)", "NULL"),
        // The nearest second, also before 1970.
        (
            "CAST(TIMESTAMP '2020-01-01 00:00:00.7' AS TIMESTAMP(0))",
            "2020-01-01T00:00:01",
        ),
        (
            "CAST(TIMESTAMP '1969-12-31 23:59:58.7' AS TIMESTAMP(0))",
            "1969-12-31T23:59:59",
        ),
        ("CAST(TIMESTAMP '1969-12-31 23:59:59.9' AS DATE)", "1969-12-31"),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [value],
            "{expression}"
        );
    }
    let found = error(&db, "SELECT CAST(DATE '9999-12-31' AS TIMESTAMP)").await;
    assert!(
        found.contains("'9999-12-31' is not a value of type timestamp"),
        "{found}"
    );
    assert!(found.contains("timestamp(6)"), "{found}");
    // Rows of several types have the finer unit: nanoseconds are never lost.
    for text in [
        "SELECT DATE '9999-12-31' UNION SELECT TIMESTAMP '2020-01-01 00:00:00'",
        "SELECT coalesce(d, n) FROM (VALUES (DATE '9999-12-31')) AS a(d), (VALUES (TIMESTAMP '2020-01-01 00:00:00')) AS b(n)",
    ] {
        let found = error(&db, text).await;
        assert!(
            found.contains("cast it, and timestamps that it meets, to timestamp(6)"),
            "{found}"
        );
    }
    // Dates take the unit of other timestamps.
    let (far, near) = (
        "SELECT DATE '9999-12-31' AS t",
        "SELECT CAST(TIMESTAMP '2020-01-01 00:00:00' AS timestamp(6))",
    );
    for (text, rows) in [
        (
            format!("{far} UNION {near} ORDER BY 1"),
            &["2020-01-01T00:00:00", "9999-12-31T00:00:00"][..],
        ),
        (format!("{near} INTERSECT {far}"), &[]),
        (format!("{far} EXCEPT {near}"), &["9999-12-31T00:00:00"]),
        (
            format!(
                "SELECT arrow_typeof(t) FROM ({far} UNION ALL SELECT CAST('0001-01-01' AS timestamp(0))) AS u"
            ),
            &["Timestamp(s)", "Timestamp(s)"],
        ),
        (
            format!(
                "SELECT count(*) FROM ({far}) AS l FULL JOIN ({near} AS t) AS r USING (t) WHERE t > now()"
            ),
            &["1"],
        ),
    ] {
        assert_eq!(query(&db, &text).await, rows, "{text}");
    }
}

/// The conditions of far dates that a table is asked.
const FAR_CONDITIONS: [(&str, &str); 12] = [
    ("d > TIMESTAMP '2262-04-11 23:47:16.854775807'", "5"),
    ("d <= TIMESTAMP '1677-09-21 00:12:43.145224193'", "1 2"),
    (
        "d BETWEEN TIMESTAMP '1677-09-21 00:00:00' AND TIMESTAMP '9999-12-31 00:00:00'",
        "2 3 4 5",
    ),
    ("d >= TIMESTAMP '2020-02-29 00:00:00.000000001'", "4 5"),
    ("s > TIMESTAMP '2262-04-11 23:47:16.9'", "5"),
    (
        "s < TIMESTAMP '2020-02-29 00:00:00.5' AND s >= DATE '0001-01-01'",
        "1 2 3",
    ),
    ("u >= DATE '9999-12-31'", "5"),
    ("u < DATE '1677-09-22'", "1 2"),
    ("u IN (DATE '9999-12-31', TIMESTAMP '0001-01-01 00:00:00')", "1 5"),
    ("n < DATE '9999-12-31'", "1 2 3 4 5"),
    (
        "n > TIMESTAMP '0001-01-01 00:00:00' AND n <= DATE '2020-02-29'",
        "1 2 3",
    ),
    ("n = TIMESTAMP '9999-12-31 00:00:00'", ""),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_zone_maps_and_parameters_know_far_times() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE far (k int, d date, s timestamp(0), u timestamp(6), n timestamp) WITH (sort = 'd')",
    )
    .await;
    // Nanoseconds end in the years 1677 and 2262.
    for (key, day, near) in [
        (1, "0001-01-01", "1677-09-21 00:12:43.145224193"),
        (2, "1677-09-21", "1677-09-22 00:00:00"),
        (3, "2020-02-29", "2020-02-29 00:00:00"),
        (4, "2262-04-11", "2262-04-11 00:00:00"),
        (5, "9999-12-31", "2262-04-11 23:47:16.854775807"),
    ] {
        let rows = format!("SELECT {key}, '{day}', '{day} 00:00:00', '{day} 00:00:00', '{near}'");
        let many = format!("INSERT INTO far {rows} FROM generate_series(1, 3000)");
        run(&db, &many).await;
    }
    let csv = dir.path().join("far.csv");
    let parquet = dir.path().join("far.parquet");
    for file in [&csv, &parquet] {
        let file = file.display();
        query(&db, &format!("COPY far TO '{file}'")).await;
        run(
            &db,
            "CREATE OR REPLACE TABLE copied (k int, d date, s timestamp(0), u timestamp(6), n timestamp)",
        )
        .await;
        run(&db, &format!("COPY copied FROM '{file}'")).await;
        let differ = "SELECT count(*) FROM (SELECT * FROM far EXCEPT ALL SELECT * FROM copied) AS x";
        assert_eq!(query(&db, differ).await, ["0"], "{file}");
        assert_eq!(query(&db, "SELECT count(*) FROM copied").await, ["15000"]);
    }
    let keys = |condition: &str| format!("SELECT DISTINCT k FROM far WHERE {condition} ORDER BY k");
    for index in [
        "",
        "CREATE INDEX by_d ON far (d)",
        "CREATE INDEX by_all ON far (u, s, n)",
    ] {
        if !index.is_empty() {
            run(&db, index).await;
        }
        for way in ["auto", "off", "force"] {
            run(&db, &format!("SET halocline.index = {way}")).await;
            for (condition, expected) in FAR_CONDITIONS {
                let found = query(&db, &keys(condition)).await.join(" ");
                assert_eq!(found, expected, "{condition}, index = {way}, after '{index}'");
            }
        }
    }
    for (column, argument, expected) in [
        ("n", "DATE '9999-12-31'", "1 2 3 4 5"),
        ("n", "TIMESTAMP '9999-12-31 00:00:00'", "1 2 3 4 5"),
        ("n", "'9999-12-31'", "1 2 3 4 5"),
        ("n", "'0001-01-01 00:00:00'", ""),
        ("d", "TIMESTAMP '9999-12-31 00:00:00'", "1 2 3 4"),
        ("d", "TIMESTAMP '9999-12-31 00:00:00.5'", "1 2 3 4 5"),
        ("s", "DATE '9999-12-31'", "1 2 3 4"),
        ("u", "'9999-12-31'", "1 2 3 4"),
    ] {
        let prepare = format!("PREPARE before AS {}", keys(&format!("{column} < $1")));
        run(&db, &prepare).await;
        // The plan is made, made anew for repeated use, and used again.
        for _ in 0..3 {
            let found = query(&db, &format!("EXECUTE before ({argument})"))
                .await
                .join(" ");
            assert_eq!(found, expected, "{column} < {argument}");
        }
        run(&db, "DEALLOCATE before").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_with_time_zone_are_instants() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE z (t TIMESTAMPTZ, n TIMESTAMP, d DATE)").await;
    run(
        &db,
        "INSERT INTO z VALUES ('2024-06-01 10:00:00+00', '2024-06-01 12:00:00', '2024-06-01')",
    )
    .await;
    run(
        &db,
        "INSERT INTO z VALUES ('2024-05-31 22:30:00Z', '2024-06-01 00:30:00', '2024-06-01')",
    )
    .await;
    for (expression, value) in [
        (
            "CAST('2024-06-01 12:00:00+02:00' AS TIMESTAMPTZ) = TIMESTAMPTZ '2024-06-01 10:00:00+00'",
            "true",
        ),
        (
            "arrow_typeof(TIMESTAMPTZ '2024-06-01 12:00:00+02')",
            "Timestamp(ns, \"+00:00\")",
        ),
        ("arrow_typeof(now())", "Timestamp(ns, \"+00:00\")"),
        (
            "CAST('2024-06-01 12:00:00+02' AS TIMESTAMP)",
            "2024-06-01T12:00:00",
        ),
        (
            "TIMESTAMPTZ '2024-06-01 12:00:00' = TIMESTAMP '2024-06-01 12:00:00'",
            "true",
        ),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [value],
            "{expression}"
        );
    }
    assert_eq!(query(&db, "SELECT count(*) FROM z WHERE t = n").await, ["0"]);
    run(&db, "SET TIME ZONE 'Europe/Berlin'").await;
    for (expression, value) in [
        (
            "TIMESTAMPTZ '2024-06-01 12:00:00' = TIMESTAMPTZ '2024-06-01 10:00:00+00'",
            "true",
        ),
        // Left out: 02:00 to 03:00. Twice: 02:00 to 03:00.
        (
            "TIMESTAMPTZ '2024-03-31 02:30:00' = TIMESTAMPTZ '2024-03-31 01:30:00+00'",
            "true",
        ),
        (
            "TIMESTAMPTZ '2024-10-27 02:30:00' = TIMESTAMPTZ '2024-10-27 01:30:00+00'",
            "true",
        ),
        (
            "TIMESTAMP '2024-06-01 12:00:00' = TIMESTAMPTZ '2024-06-01 10:00:00+00'",
            "true",
        ),
        ("DATE '2024-06-01' < TIMESTAMPTZ '2024-05-31 22:30:00+00'", "true"),
        ("DATE '2024-06-01' = TIMESTAMPTZ '2024-05-31 22:00:00+00'", "true"),
        ("extract(hour FROM TIMESTAMPTZ '2024-06-01 10:00:00+00')", "12"),
        (
            "CAST(TIMESTAMPTZ '2024-06-01 10:00:00+00' AS TIMESTAMP)",
            "2024-06-01T12:00:00",
        ),
        ("CAST(TIMESTAMPTZ '2024-06-01 23:00:00+00' AS DATE)", "2024-06-02"),
        (
            "TIMESTAMP '2024-06-01 12:00:00' AT TIME ZONE 'Asia/Tokyo' = TIMESTAMPTZ '2024-06-01 03:00:00Z'",
            "true",
        ),
        (
            "TIMESTAMPTZ '2024-06-01 12:00:00Z' AT TIME ZONE 'Asia/Tokyo'",
            "2024-06-01T21:00:00",
        ),
        (
            "to_char(TIMESTAMPTZ '2024-06-01 10:00:00Z', 'YYYY-MM-DD HH24:MI OF')",
            "2024-06-01 12:00 +02",
        ),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [value],
            "{expression}"
        );
    }
    for (condition, rows) in [
        ("t = n", "2"),
        ("t < d", "0"),
        ("t >= d", "2"),
        ("t = TIMESTAMP '2024-06-01 12:00:00'", "1"),
        ("n = TIMESTAMPTZ '2024-06-01 10:00:00Z'", "1"),
        ("t < '2024-06-01 01:00:00'", "1"),
        ("extract(day FROM t) = 1", "2"),
        ("CAST(t AS DATE) = d", "2"),
        ("date_trunc('day', t) = d", "2"),
    ] {
        let text = format!("SELECT count(*) FROM z WHERE {condition}");
        assert_eq!(query(&db, &text).await, [rows], "{condition}");
    }
    let found = error(&db, "SET TIME ZONE 'Nowhere'").await;
    assert!(found.contains("there is no time zone 'Nowhere'"), "{found}");
    run(&db, "RESET datafusion.execution.time_zone").await;
    assert_eq!(query(&db, "SELECT count(*) FROM z WHERE t = n").await, ["0"]);
    assert_eq!(
        query(&db, "SELECT arrow_typeof(now())").await,
        ["Timestamp(ns, \"+00:00\")"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_are_postgresqls_or_refused() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (d DATE, p TEXT)").await;
    run(
        &db,
        "INSERT INTO t VALUES ('2024-03-05', 'YYYY'), ('9999-12-31', '%Y/%m'), (NULL, 'DD')",
    )
    .await;
    for (expression, value) in [
        ("to_char(DATE '2024-03-05', 'YYYY-MM-DD')", "2024-03-05"),
        (
            "to_char(TIMESTAMP '2024-03-05 15:04:09.5', 'FMDD.FMMM.YY HH12:MI:SS.MS AM')",
            "5.3.24 03:04:09.500 PM",
        ),
        ("to_char(DATE '2024-03-05', '%Y/%m')", "2024/03"),
        ("strftime(DATE '2024-03-05', '%d.%m.%Y')", "05.03.2024"),
        ("to_char(TIME '15:04:00', 'HH24:MI')", "15:04"),
        ("to_date('05.03.2024', 'DD.MM.YYYY')", "2024-03-05"),
        ("to_date('2024/03/05', '%Y/%m/%d')", "2024-03-05"),
        (
            "to_timestamp('05.03.2024 15:04', 'DD.MM.YYYY HH24:MI')",
            "2024-03-05T15:04:00Z",
        ),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [value],
            "{expression}"
        );
    }
    assert_eq!(
        query(&db, "SELECT to_char(d, p) FROM t ORDER BY d").await,
        ["2024", "9999/12", "NULL"]
    );
    for (expression, unknown) in [
        ("to_char(DATE '2024-03-05', 'the day')", "the is unknown"),
        ("to_char(DATE '2024-03-05', 'YYYY-RM')", "RM is unknown"),
        ("to_char(DATE '2024-03-05', '%Y %!')", "unknown"),
        ("strftime(DATE '2024-03-05', '%!')", "unknown"),
        ("to_date('2024-1', 'YYYY-Q')", "Q cannot be read"),
        ("to_timestamp('2024', 'year')", "ear is unknown"),
    ] {
        let found = error(&db, &format!("SELECT {expression}")).await;
        assert!(found.contains(unknown), "{expression}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_and_patterns_of_columns_are_read() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id INT, s TEXT, p TEXT)").await;
    run(
        &db,
        "INSERT INTO t VALUES (1, '05.03.2024 10:30', 'DD.MM.YYYY HH24:MI'), (2, '2024/03/05 10:30', '%Y/%m/%d %H:%M'), \
         (3, NULL, 'YYYY'), (4, '2024', NULL)",
    )
    .await;
    for (expression, values) in [
        (
            "to_timestamp(s, p)",
            "2024-03-05T10:30:00Z 2024-03-05T10:30:00Z NULL NULL",
        ),
        (
            "to_timestamp_seconds(s, p)",
            "2024-03-05T10:30:00Z 2024-03-05T10:30:00Z NULL NULL",
        ),
        ("to_date(s, p)", "2024-03-05 2024-03-05 NULL NULL"),
        ("to_unixtime(s, p)", "1709634600 1709634600 NULL NULL"),
        (
            "to_timestamp(s, 'YYYY', 'DD.MM.YYYY HH24:MI', '%Y/%m/%d %H:%M')",
            "2024-03-05T10:30:00Z 2024-03-05T10:30:00Z NULL",
        ),
        (
            "to_date('2024-03-05', CASE WHEN id < 3 THEN 'YYYY-MM-DD' END)",
            "2024-03-05 2024-03-05 NULL NULL",
        ),
    ] {
        let limit = values.split(' ').count();
        let text = format!("SELECT {expression} FROM t WHERE id <= {limit} ORDER BY id");
        assert_eq!(query(&db, &text).await.join(" "), values, "{text}");
    }
    run(&db, "SET TIME ZONE 'Europe/Berlin'").await;
    assert_eq!(
        query(&db, "SELECT to_timestamp(s, p) FROM t WHERE id = 1").await,
        ["2024-03-05T10:30:00+01:00"]
    );
    for (expression, reason) in [
        ("to_date(s, 'YYYY-Q') FROM t", "Q cannot be read"),
        ("to_date(s, replace(p, 'DD', 'foo')) FROM t", "foo is unknown"),
        ("to_date(s, 5) FROM t", "no text"),
    ] {
        let found = error(&db, &format!("SELECT {expression}")).await;
        assert!(found.contains(reason), "{expression}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_keep_their_digits_and_zones() {
    let (_dir, db) = new_pool();
    for (expression, value) in [
        // The last nanosecond.
        (
            "TIMESTAMP '2262-04-11T23:47:16.854775807'",
            "2262-04-11T23:47:16.854775807",
        ),
        (
            "TIMESTAMP '2262-04-11T23:47:16.854775808'",
            "2262-04-11T23:47:16.854776",
        ),
        (
            "'2024-03-30 00:00:20Z' AT TIME ZONE 'Europe/Brussels'",
            "2024-03-30T01:00:20+01:00",
        ),
        (
            "'2024-03-30 00:00:20' AT TIME ZONE 'Europe/Brussels'",
            "2024-03-30T00:00:20+01:00",
        ),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [value],
            "{expression}"
        );
    }
    let found = error(&db, "SELECT TIMESTAMP '2023-12-05T21:58:10.45ZZ'").await;
    assert!(found.contains("2023-12-05T21:58:10.45ZZ"), "{found}");
}
