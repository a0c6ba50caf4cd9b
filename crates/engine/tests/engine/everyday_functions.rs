//! Functions under the names of DuckDB and PostgreSQL: answers as these two document them.

use std::fs;

use super::support::{error, new_pool, query, run};

/// Compares the values of expressions with what is expected, as constants.
async fn check(cases: &[(&str, &str)]) {
    let (_dir, db) = new_pool();
    for (expression, expected) in cases {
        let found = query(&db, &format!("SELECT {expression}")).await;
        assert_eq!(found, [*expected], "{expression}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_for_other_expressions() {
    check(&[
        ("if(true, 1, 2), iif(NULL, 1, 2), iif(1 > 2, 'a', 'b')", "1|2|b"),
        ("if(x <> 0, 10 / x, 0) FROM (VALUES (0)) t(x)", "0"),
        ("mod(7, 3), mod(-7, 3), mod(7.5, 2)", "1|-1|1.5"),
        ("safe_cast('x' AS int), safe_cast('7' AS int)", "NULL|7"),
        (
            "sign(-3), ceiling(1.5e0), len('abc'), ucase('a'), lcase('A')",
            "-1.000000000e0|2.000000000e0|3|A|a",
        ),
        (
            "regexp_matches('abc', 'b'), prefix('abc', 'a'), suffix('abc', 'c')",
            "true|true|true",
        ),
        (
            "length(CAST(gen_random_uuid() AS text)), uuid() <> uuid()",
            "36|true",
        ),
        (
            "md5('a'), levenshtein('kitten', 'sitting')",
            "0cc175b9c0f1b6a831c399e269772661|3",
        ),
        (
            "sha256('a')",
            "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
        ),
        (
            "encode(sha256('a'), 'hex') = 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'",
            "true",
        ),
        (
            "current_user, session_user, current_database(), current_schema()",
            "halocline|halocline|halocline|public",
        ),
        (
            "localtimestamp = CAST(now() AS timestamp), arrow_typeof(localtimestamp)",
            "true|Timestamp(ns)",
        ),
        (
            "make_date(2020, 1, 31), from_unixtime(0), to_date('31/01/2020', '%d/%m/%Y')",
            "2020-01-31|1970-01-01T00:00:00|2020-01-31",
        ),
    ])
    .await;
    let (_dir, db) = new_pool();
    let version = concat!("Halocline ", env!("CARGO_PKG_VERSION"));
    assert_eq!(query(&db, "SELECT version()").await, [version]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_times() {
    check(&[
        (
            "year(t), quarter(t), month(t), day(t), hour(t), minute(t), second(t) \
             FROM (VALUES (TIMESTAMP '2024-08-05 13:14:15')) x(t)",
            "2024|3|8|5|13|14|15",
        ),
        (
            "week(d), dayofweek(d), isodow(d), dayofyear(d), isoyear(d), weekday(d), dayofmonth(d) \
             FROM (VALUES (DATE '2023-01-01')) x(d)",
            "52|0|7|1|2022|0|1",
        ),
        ("monthname(DATE '2024-08-05'), dayname(DATE '2024-08-05')", "August|Monday"),
        (
            "last_day(DATE '2024-02-03'), last_day(DATE '2023-12-31'), last_day(TIMESTAMP '1900-02-01 10:00:00')",
            "2024-02-29|2023-12-31|1900-02-28",
        ),
        ("year(DATE '9999-12-31'), year(DATE '0001-01-01'), year(NULL::date)", "9999|1|NULL"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_of_times() {
    check(&[
        ("date_diff('day', DATE '2020-01-01', DATE '2020-02-01')", "31"),
        ("datediff('month', DATE '2020-01-31', DATE '2020-02-01')", "1"),
        ("datediff(year, DATE '2019-12-31', DATE '2020-01-01')", "1"),
        ("date_diff('quarter', DATE '2020-04-01', DATE '2020-03-31')", "-1"),
        ("date_diff('week', DATE '2024-08-04', DATE '2024-08-05')", "1"),
        (
            "date_diff('hour', TIMESTAMP '1969-12-31 23:59:59', TIMESTAMP '1970-01-01 00:00:00')",
            "1",
        ),
        (
            "date_diff('minutes', DATE '2020-01-01', TIMESTAMP '2020-01-01 01:00:30')",
            "60",
        ),
        ("date_diff('century', DATE '1999-12-31', DATE '2000-01-01')", "1"),
        (
            "date_diff('day', DATE '0001-01-01', TIMESTAMP '9999-12-31 00:00:00')",
            "3652058",
        ),
        (
            "date_diff('microsecond', DATE '0001-01-01', DATE '9999-12-31')",
            "315537811200000000",
        ),
        ("date_diff(NULL, DATE '2020-01-01', DATE '2020-01-01')", "NULL"),
        ("date_diff('day', NULL, DATE '2020-01-01')", "NULL"),
        ("age(DATE '2020-01-01', DATE '2019-01-01')", "12 mons"),
        (
            "age(TIMESTAMP '2001-04-10 00:00:00', TIMESTAMP '1957-06-13 00:00:00')",
            "525 mons 27 days",
        ),
        (
            "age(TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-01 00:00:00')",
            "0 secs",
        ),
        ("age(DATE '2019-01-01', DATE '2020-02-03')", "-13 mons -2 days"),
        ("age(DATE '9999-12-31', DATE '0001-12-31')", "119976 mons"),
        ("age(CAST(NULL AS date), DATE '2020-01-01')", "NULL"),
        (
            "age(current_date()) = age(current_date(), current_date())",
            "true",
        ),
    ])
    .await;
    let (_dir, db) = new_pool();
    let far = "date_diff('nanosecond', DATE '0001-01-01', DATE '9999-12-31')";
    assert!(
        error(&db, &format!("SELECT {far}"))
            .await
            .contains("not a value of type bigint")
    );
    let unknown = "SELECT date_diff('fortnight', DATE '2020-01-01', DATE '2020-01-01')";
    assert!(error(&db, unknown).await.contains("there is no part 'fortnight'"));
    let number = error(&db, "SELECT date_diff('day', 1, 2)").await;
    assert!(number.contains("a date or timestamp"), "{number}");
    let one = error(&db, "SELECT date_diff('day', DATE '2020-01-01')").await;
    assert!(one.contains("write date_diff('day', from, to)"), "{one}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_as_numbers_and_texts() {
    check(&[
        ("epoch(TIMESTAMP '2020-01-01 00:00:00'), epoch(DATE '1969-12-31')", "1.577836800e9|-8.640000000e4"),
        ("epoch(TIMESTAMP '1969-12-31 23:59:58.5')", "-1.500000000e0"),
        (
            "epoch_ms(TIMESTAMP '2020-01-01 00:00:00.123456'), epoch_us(DATE '9999-12-31'), \
             epoch_ns(DATE '1970-01-02')",
            "1577836800123|253402214400000000|86400000000000",
        ),
        (
            "epoch(TIMESTAMP '2020-01-02 00:00:00' - TIMESTAMP '2020-01-01 00:00:00'), epoch(NULL::timestamp)",
            "8.640000000e4|NULL",
        ),
        (
            "epoch(TIMESTAMP '2024-06-01 12:00:00' AT TIME ZONE 'Europe/Berlin')",
            "1.717236000e9",
        ),
        ("strftime(DATE '2024-08-05', '%d.%m.%Y'), strftime(DATE '9999-12-31', '%Y')", "05.08.2024|9999"),
        ("strptime('01/02/2020', '%d/%m/%Y')", "2020-02-01T00:00:00"),
        ("strptime('31.12.9999 23:59', '%d.%m.%Y %H:%M')", "9999-12-31T23:59:00"),
        ("strptime('1066', '%Y'), strptime('06:30', '%H:%M')", "1066-01-01T00:00:00|1900-01-01T06:30:00"),
        ("strptime('2020-01-01 00:00:00.5', '%Y-%m-%d %H:%M:%S.%f')", "2020-01-01T00:00:00.500"),
        ("try_strptime('x', '%Y'), strptime(NULL, '%Y')", "NULL|NULL"),
        ("arrow_typeof(strptime('2020', '%Y'))", "Timestamp(µs)"),
    ])
    .await;
    let (_dir, db) = new_pool();
    let unlike = error(&db, "SELECT strptime('x', '%Y')").await;
    assert!(
        unlike.contains("'x' does not match the pattern '%Y'") && unlike.contains("try_strptime"),
        "{unlike}"
    );
    let far = error(&db, "SELECT epoch_ns(DATE '9999-12-31')").await;
    assert!(far.contains("does not fit a bigint"), "{far}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intervals_that_times_are_in() {
    check(&[
        (
            "time_bucket(INTERVAL '15 minutes', TIMESTAMP '2024-08-05 13:14:15')",
            "2024-08-05T13:00:00",
        ),
        ("time_bucket(INTERVAL '1 week', DATE '2024-08-08')", "2024-08-05"),
        ("time_bucket(INTERVAL '7 days', DATE '1969-12-31')", "1969-12-29"),
        (
            "time_bucket(INTERVAL '3 months', DATE '2024-08-05')",
            "2024-07-01",
        ),
        (
            "time_bucket(INTERVAL '2 years', TIMESTAMP '1999-08-05 10:00:00')",
            "1998-01-01T00:00:00",
        ),
        (
            "time_bucket(INTERVAL '10 minutes', TIMESTAMP '9999-08-05 13:14:15')",
            "9999-08-05T13:10:00",
        ),
        (
            "time_bucket(INTERVAL '2 days', DATE '2024-08-06', DATE '2024-08-05')",
            "2024-08-05",
        ),
        (
            "time_bucket(INTERVAL '1 hour', TIMESTAMP '2024-08-05 13:14:15', INTERVAL '30 minutes')",
            "2024-08-05T12:30:00",
        ),
        ("time_bucket(INTERVAL '1 hour', NULL::timestamp)", "NULL"),
    ])
    .await;
    let (_dir, db) = new_pool();
    let none = error(&db, "SELECT time_bucket(INTERVAL '0 days', DATE '2024-01-01')").await;
    assert!(none.contains("longer than nothing"), "{none}");
    let both = error(
        &db,
        "SELECT time_bucket(INTERVAL '1 month 1 day', DATE '2024-01-01')",
    )
    .await;
    assert!(both.contains("either months and years"), "{both}");
    // The clock of the session's zone decides.
    run(&db, "SET TIME ZONE 'Europe/Berlin'").await;
    let sql = "SELECT date_diff('day', a, b), epoch(b), time_bucket(INTERVAL '1 day', b) FROM (VALUES \
               (TIMESTAMPTZ '2024-06-01 12:00:00Z', TIMESTAMPTZ '2024-06-01 22:30:00Z')) t(a, b)";
    assert_eq!(
        query(&db, sql).await,
        ["1|1.717281000e9|2024-06-02T00:00:00+02:00"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_by_patterns() {
    check(&[
        (
            "regexp_extract('foo123', '([0-9]+)', 1), regexp_extract('foo123', '[a-z]+')",
            "123|foo",
        ),
        (
            "regexp_extract('abc', 'x'), regexp_extract('abc', '(x)?b', 1)",
            "|",
        ),
        (
            "regexp_extract('aBc', 'b', 0, 'i'), regexp_extract(NULL, 'b'), regexp_extract('b', NULL)",
            "B|NULL|NULL",
        ),
        (
            "format('{} {}', 1, 2), format('{1}-{0}', 'a', 'b'), format('{{}}')",
            "1 2|b-a|{}",
        ),
        (
            "format('{:,}', 1234567), format('{:.2f}', 3.14159), format('{:>5}|', 'ab')",
            "1,234,567|3.14|   ab|",
        ),
        (
            "format('{}', 1.5e0), format('{}', true), format('{}', DATE '2024-08-05')",
            "1.5|true|2024-08-05",
        ),
        (
            "format('{}', CAST('12345678901234567890.123456789' AS decimal(38, 9)))",
            "12345678901234567890.123456789",
        ),
        ("format('{} {}', 1, NULL), format(NULL, 1)", "NULL|NULL"),
        (
            "printf('%d', 3), printf('%05.1f%%', 99.95), printf('%-4s|%x', 'ab', 255)",
            "3|100.0%|ab  |ff",
        ),
    ])
    .await;
    let (_dir, db) = new_pool();
    for (expression, part) in [
        ("format('{} {}', 1)", "there is no value for field 2"),
        ("format('{', 1)", "a field has no end"),
        ("printf('%d', 1.5)", "is no integer"),
        ("printf('%d', 'a')", "is a text"),
        ("regexp_extract('a', '(a)', 2)", "no group 2"),
        ("regexp_extract('a', 'a', 0, 'q')", "no flag 'q'"),
        ("regexp_extract('a', '(')", "did not compile"),
        ("regexp_extract(1, 'a')", "a text"),
    ] {
        let found = error(&db, &format!("SELECT {expression}")).await;
        assert!(found.contains(part), "{expression}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_and_texts_of_every_type() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (k int, s text, p text, d date)").await;
    let rows = "(1, 'a1', '[0-9]', DATE '2024-01-31'), (2, 'b', '[0-9]', DATE '1960-02-29'), \
                (3, NULL, 'b', NULL), (4, 'c', NULL, DATE '9999-12-31')";
    run(&db, &format!("INSERT INTO t VALUES {rows}")).await;
    for data_type in ["Utf8", "LargeUtf8", "Utf8View", "Dictionary(Int32, Utf8)"] {
        let (s, p) = (
            format!("arrow_cast(s, '{data_type}')"),
            format!("arrow_cast(p, '{data_type}')"),
        );
        let sql = format!(
            "SELECT regexp_extract({s}, {p}), regexp_extract({s}, '.'), format('{{}}-{{}}', {s}, {p}), \
             printf('%s', {s}), try_strptime({s}, {p}), mode({s}) OVER (PARTITION BY k) FROM t ORDER BY k"
        );
        assert_eq!(
            query(&db, &sql).await,
            [
                "1|a|a1-[0-9]|a1|NULL|a1",
                "|b|b-[0-9]|b|NULL|b",
                "NULL|NULL|NULL|NULL|NULL|NULL",
                "NULL|c|NULL|c|NULL|c",
            ],
            "{data_type}"
        );
    }
    let sql = "SELECT year(d), last_day(d), date_diff('month', d, DATE '2024-03-01'), age(DATE '2024-03-01', d), \
               epoch_ms(d), time_bucket(INTERVAL '1 month', d) FROM t ORDER BY k";
    assert_eq!(
        query(&db, sql).await,
        [
            "2024|2024-01-31|2|1 mons 1 days|1706659200000|2024-01-01",
            "1960|1960-02-29|769|768 mons 1 days|-310521600000|1960-02-01",
            "NULL|NULL|NULL|NULL|NULL|NULL",
            "9999|9999-12-31|-95709|-95709 mons -30 days|253402214400000|9999-12-01",
        ]
    );
    let sql =
        "SELECT k FROM t WHERE year(d) = 1960 OR date_diff('day', DATE '2024-01-01', d) = 30 ORDER BY k";
    assert_eq!(query(&db, sql).await, ["1", "2"]);
    // A group, its name, and a sort by it.
    let sql = "SELECT year(d), count(*) FROM t GROUP BY year(d) ORDER BY year(d)";
    assert_eq!(query(&db, sql).await, ["1960|1", "2024|1", "9999|1", "NULL|1"]);
    run(
        &db,
        "CREATE TABLE years AS SELECT year(d), iif(k > 1, 1, 0) AS late FROM t",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT count(\"year(d)\"), sum(late) FROM years").await,
        ["3|3"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (g int, s text, x double, y int)").await;
    let rows = "(1, 'a', 1.0, 3), (1, 'b', 5.0, NULL), (1, 'a', NULL, 9), (1, NULL, 9.0, 1), (1, 'c', 2.0, 4), \
                (2, 'z', -0.0e0, 1), (2, 'z', 0.0, 2), (2, 'y', CAST('nan' AS double), NULL), (3, NULL, NULL, NULL)";
    run(&db, &format!("INSERT INTO t VALUES {rows}")).await;
    let sql = "SELECT g, arg_max(s, x), max_by(s, y), arg_min(s, x), min_by(s, y), mode(s), mode(y), mode(x) \
               FROM t GROUP BY g ORDER BY g";
    assert_eq!(
        query(&db, sql).await,
        [
            "1|b|a|a|a|a|1|1.000000000e0",
            "2|y|z|z|z|z|1|0.000000000e0",
            "3|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
        ]
    );
    let sql = "SELECT arg_max(s, x) FILTER (WHERE g = 1 OR s = 'q'), mode(s) FILTER (WHERE g = 1), \
               mode() WITHIN GROUP (ORDER BY y), mode(DISTINCT y), count(*) FROM t";
    assert_eq!(query(&db, sql).await, ["b|a|1|1|9"]);
    let sql = "SELECT quantile_cont(y, 0.5), variance(y) = var_samp(y), list(DISTINCT s ORDER BY s) FROM t \
               WHERE g = 1 AND s IS NOT NULL";
    assert_eq!(query(&db, sql).await, ["4.000000000e0|true|[a, b, c]"]);
    assert_eq!(
        query(&db, "SELECT mode(s), arg_max(s, x) FROM t WHERE g > 7").await,
        ["NULL|NULL"]
    );
    for (expression, part) in [
        ("arg_max(s)", "write arg_max(value, by)"),
        ("arg_max(s, x, 3)", "write arg_max(value, by)"),
        ("max_by(s, x) OVER ()", "write max_by(value, by)"),
        ("mode(s, x)", "mode has one argument"),
    ] {
        let found = error(&db, &format!("SELECT {expression} FROM t")).await;
        assert!(found.contains(part), "{expression}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mode_of_many_groups_is_that_of_a_count() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i % 100 AS g, (i * 7919) % 13 * (i % 3) AS x FROM generate_series(1, 20000) AS s(i)",
    )
    .await;
    let counted = "SELECT g, x FROM (SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY n DESC, x) AS place FROM \
                   (SELECT g, x, count(*) AS n FROM t GROUP BY g, x)) WHERE place = 1 ORDER BY g";
    let expected = query(&db, counted).await;
    assert_eq!(expected.len(), 100);
    assert_eq!(
        query(&db, "SELECT g, mode(x) FROM t GROUP BY g ORDER BY g").await,
        expected
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_by_functions_as_by_their_paths() {
    let (dir, db) = new_pool();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("a.csv"), "id,name\n1,x\n2,y\n").unwrap();
    fs::write(path("b.json"), "{\"id\": 1}\n{\"id\": 5}\n").unwrap();
    let csv = format!("SELECT sum(id) FROM read_csv('{}')", path("a.csv"));
    assert_eq!(query(&db, &csv).await, ["3"]);
    run(
        &db,
        &format!(
            "COPY (SELECT * FROM read_csv('{}')) TO '{}'",
            path("a.csv"),
            path("c.parquet")
        ),
    )
    .await;
    let sql = format!(
        "SELECT p.name, c.id FROM read_parquet('{}') AS p JOIN read_csv_auto('{}') c USING (id) ORDER BY 2",
        path("c.parquet"),
        path("*.csv")
    );
    assert_eq!(query(&db, &sql).await, ["x|1", "y|2"]);
    let sql = format!("SELECT max(id) FROM read_json('{}')", path("b.json"));
    assert_eq!(query(&db, &sql).await, ["5"]);
    for (function, part) in [
        ("read_csv('none.csv')", "neither a table nor"),
        ("read_csv('a.csv', header => true)", "CREATE EXTERNAL TABLE"),
        ("read_parquet('a.csv')", "does not end in .parquet"),
        (
            "read_parquet(['a.parquet', 'b.parquet'])",
            "one path or a pattern",
        ),
    ] {
        let found = error(&db, &format!("SELECT * FROM {function}")).await;
        assert!(found.contains(part), "{function}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_near_names_are_proposed() {
    let (_dir, db) = new_pool();
    for (expression, expected) in [
        (
            "lenght('a')",
            "there is no function 'lenght'; did you mean 'length'?",
        ),
        (
            "upperr('a')",
            "there is no function 'upperr'; did you mean 'upper'?",
        ),
        (
            "json_extract('{}', '$.a')",
            "there is no function 'json_extract'; SHOW FUNCTIONS lists the functions there are",
        ),
        (
            "zz(1)",
            "there is no function 'zz'; SHOW FUNCTIONS lists the functions there are",
        ),
    ] {
        assert_eq!(error(&db, &format!("SELECT {expression}")).await, expected);
    }
    let listed = query(
        &db,
        "SELECT DISTINCT routine_name FROM information_schema.routines WHERE routine_name IN ('year', 'iif', \
         'arg_max', 'mode', 'date_diff', 'datediff', 'list_value', 'read_csv') ORDER BY 1",
    )
    .await;
    assert_eq!(
        listed,
        [
            "arg_max",
            "date_diff",
            "datediff",
            "iif",
            "list_value",
            "mode",
            "read_csv",
            "year"
        ]
    );
    let found = error(&db, "SELECT year(DATE '2024-01-01') OVER ()").await;
    assert!(found.contains("year, which is no aggregate"), "{found}");
}
