//! Operators, patterns, extremes and sort keys as SQL has them, beside what was read from DuckDB and the
//! standard.

use super::support::{error, new_pool, query, run};

/// Checks expressions without a table.
async fn values(expected: &[(&str, &str)]) {
    let (_dir, db) = new_pool();
    for (text, expected) in expected {
        assert_eq!(query(&db, &format!("SELECT {text}")).await, [*expected], "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_distinct_from_binds_tighter_than_and() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id INT, b BOOLEAN, x INT)").await;
    run(
        &db,
        "INSERT INTO t VALUES (1,true,1), (2,false,2), (3,null,1), (4,true,2), (5,false,1), (6,null,null)",
    )
    .await;
    for (condition, ids) in [
        ("b IS NOT DISTINCT FROM false AND x = 1", "5"),
        ("b IS DISTINCT FROM true OR x = 1", "1 2 3 5 6"),
        ("x IS NOT DISTINCT FROM 1 AND id < 4", "1 3"),
        ("x = 1 AND b IS DISTINCT FROM NULL AND id > 1", "5"),
        ("NOT b IS DISTINCT FROM true AND x = 2", "4"),
        ("b IS DISTINCT FROM x = 1", "3 4 5"),
    ] {
        let found = query(&db, &format!("SELECT id FROM t WHERE {condition} ORDER BY id")).await;
        assert_eq!(found.join(" "), ids, "{condition}");
    }
    run(
        &db,
        "UPDATE t SET x = 7 WHERE b IS NOT DISTINCT FROM NULL AND x IS DISTINCT FROM 1",
    )
    .await;
    assert_eq!(query(&db, "SELECT id FROM t WHERE x = 7").await, ["6"]);
    run(&db, "DELETE FROM t WHERE b IS DISTINCT FROM true AND x = 1").await;
    assert_eq!(
        query(&db, "SELECT id FROM t ORDER BY id").await,
        ["1", "2", "4", "6"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_have_the_precedence_of_duckdb() {
    values(&[
        ("1 + 2 || 'x'", "3x"),
        ("'a' || 1 + 2", "a3"),
        ("-2 ^ 2", "4.000000000e0"),
        ("2 ^ 3 ^ 2", "6.400000000e1"),
        ("2 * 3 ^ 2", "1.800000000e1"),
        ("1 | 2 & 4", "0"),
        ("1 << 2 + 1", "8"),
        ("1 | 1 << 2", "4"),
        ("true = 'a' LIKE 'a'", "true"),
        ("'a' LIKE 'a' = true", "true"),
        ("false = 1 BETWEEN 2 AND 3", "true"),
        ("-1 || 'x'", "-1x"),
        ("'xy' ~ 'x' || 'y'", "true"),
        ("NOT 1 IN (2)", "true"),
        ("NOT 1 IS NULL", "true"),
        ("1 = 1 IS NULL", "false"),
        ("true IS DISTINCT FROM 2 = 1", "true"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_is_a_double_and_exclusive_or_has_a_sign_of_its_own() {
    values(&[
        ("2 ^ 3", "8.000000000e0"),
        ("2 ^ -1", "5.000000000e-1"),
        ("arrow_typeof(2 ^ 3)", "Float64"),
        ("1.5 ^ 2", "2.250000000e0"),
        ("2 ^ NULL", "NULL"),
        ("5 # 3", "6"),
        ("xor(5, 3)", "6"),
        ("xor(5, NULL)", "NULL"),
        ("5#3#3", "5"),
    ])
    .await;
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i BIGINT, n INT NOT NULL)").await;
    run(&db, "INSERT INTO t VALUES (5, 3), (NULL, 4)").await;
    assert_eq!(
        query(
            &db,
            "SELECT i # i, i # n # i, xor(n, n), n ^ 2, i ^ 0 FROM t ORDER BY n"
        )
        .await,
        [
            "0|3|0|9.000000000e0|1.000000000e0",
            "NULL|NULL|0|1.600000000e1|NULL"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_division_in_whole_numbers_truncates_toward_zero() {
    values(&[
        ("7 // 2", "3"),
        ("-7 // 2", "-3"),
        ("7 // -2", "-3"),
        ("-7.5 // 2", "-3.000000000e0"),
        ("7.9e0 // 2", "3.000000000e0"),
        ("CAST(7.5 AS decimal(5, 2)) // 2", "3.000000000e0"),
        ("NULL // 2", "NULL"),
        ("7 // NULL", "NULL"),
        ("2 * 7 // 4", "3"),
        ("arrow_typeof(CAST(7 AS int) // CAST(2 AS smallint))", "Int32"),
    ])
    .await;
    let (_dir, db) = new_pool();
    assert!(error(&db, "SELECT 7 // 0").await.to_lowercase().contains("zero"));
    run(&db, "CREATE TABLE t (i INT, j INT)").await;
    run(&db, "INSERT INTO t VALUES (-9, 4), (9, 4), (NULL, 1)").await;
    assert_eq!(
        query(&db, "SELECT i // j FROM t ORDER BY i").await,
        ["-2", "2", "NULL"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn like_knows_any_escape_character() {
    values(&[
        ("'a%' LIKE 'a!%' ESCAPE '!'", "true"),
        ("'ab' LIKE 'a!%' ESCAPE '!'", "false"),
        ("'ab' LIKE 'a!b' ESCAPE '!'", "true"),
        ("'A%c' ILIKE 'a!%_' ESCAPE '!'", "true"),
        ("'a%' NOT LIKE 'a!%' ESCAPE '!'", "false"),
        ("'a!' LIKE 'a!!' ESCAPE '!'", "true"),
        (r"'a\x' LIKE 'a\_' ESCAPE '!'", "true"),
        (r"'a%' LIKE 'a\%' ESCAPE '\'", "true"),
        (r"'a\b' LIKE 'a\%' ESCAPE ''", "true"),
        ("'a_' LIKE 'aé_' ESCAPE 'é'", "true"),
        ("'ab' LIKE 'aé_' ESCAPE 'é'", "false"),
        ("'a%' LIKE NULL ESCAPE '!'", "NULL"),
        ("'a' LIKE 'a' ESCAPE NULL", "NULL"),
    ])
    .await;
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (s TEXT, p TEXT)").await;
    run(
        &db,
        "INSERT INTO t VALUES ('a%', 'a#%'), ('ab', 'a#%'), ('ab', '%b'), (NULL, '%'), ('x', NULL)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT s LIKE p ESCAPE '#' FROM t").await,
        ["true", "false", "true", "NULL", "NULL"]
    );
    assert!(
        error(&db, "SELECT 'a' LIKE 'a!' ESCAPE '!'")
            .await
            .contains("ends with its escape character")
    );
    assert!(
        error(&db, "SELECT s LIKE 'a' ESCAPE 'xy' FROM t")
            .await
            .contains("escape character")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn similar_to_follows_the_standard() {
    values(&[
        ("'abc' SIMILAR TO 'abc'", "true"),
        ("'abc' SIMILAR TO 'a'", "false"),
        ("'abc' SIMILAR TO 'a%'", "true"),
        ("'abc' SIMILAR TO '%(b|d)%'", "true"),
        ("'abc' SIMILAR TO '(b|c)%'", "false"),
        ("'abc' SIMILAR TO '_b_'", "true"),
        ("'abc' SIMILAR TO '.b.'", "false"),
        ("'abc' SIMILAR TO '^abc$'", "false"),
        ("'aaab' SIMILAR TO 'a{3}b'", "true"),
        ("'a7' SIMILAR TO '[a-c][[:digit:]]'", "true"),
        ("'a7' SIMILAR TO '[^a-c]%'", "false"),
        ("'a%' SIMILAR TO 'a!%' ESCAPE '!'", "true"),
        (r"'a%' SIMILAR TO 'a\%'", "true"),
        ("'ab' NOT SIMILAR TO 'a'", "true"),
        ("NULL SIMILAR TO 'a'", "NULL"),
        ("'a' SIMILAR TO NULL", "NULL"),
        ("'' SIMILAR TO '%'", "true"),
    ])
    .await;
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (s TEXT, p TEXT)").await;
    run(
        &db,
        "INSERT INTO t VALUES ('abc', 'a%'), ('abc', 'b'), (NULL, '%'), ('x', NULL)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT s SIMILAR TO p FROM t").await,
        ["true", "false", "NULL", "NULL"]
    );
    assert_eq!(
        query(&db, "SELECT s FROM t WHERE s SIMILAR TO '(a|x)%'")
            .await
            .len(),
        3
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_groups_know_nan_and_infinity() {
    let (_dir, db) = new_pool();
    for kind in ["double", "real"] {
        run(&db, "DROP TABLE IF EXISTS f").await;
        run(&db, &format!("CREATE TABLE f (id INT, g INT, f {kind})")).await;
        run(
            &db,
            "INSERT INTO f VALUES (1,1,-5), (2,1,CAST('nan' AS double)), (3,1,3), (4,2,7), \
             (5,2,CAST('nan' AS double)), (6,2,1), (7,3,CAST('inf' AS double)), (8,3,CAST('inf' AS double)), \
             (9,4,CAST('-inf' AS double)), (10,5,NULL), (11,6,CAST('nan' AS double))",
        )
        .await;
        for partitions in [1, 4] {
            run(
                &db,
                &format!("SET datafusion.execution.target_partitions = {partitions}"),
            )
            .await;
            let found = query(
                &db,
                "SELECT g, CAST(min(f) AS text), CAST(max(f) AS text) FROM f GROUP BY g ORDER BY g",
            )
            .await;
            let expected = [
                "1|-5.0|NaN",
                "2|1.0|NaN",
                "3|inf|inf",
                "4|-inf|-inf",
                "5|NULL|NULL",
                "6|NaN|NaN",
            ];
            assert_eq!(found, expected);
            let found = query(
                &db,
                "SELECT id, CAST(min(f) OVER w AS text), CAST(max(f) OVER w AS text) FROM f WHERE g < 3 \
                 WINDOW w AS (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY id",
            )
            .await;
            let expected = [
                "1|-5.0|-5.0",
                "2|-5.0|NaN",
                "3|3.0|NaN",
                "4|7.0|7.0",
                "5|7.0|NaN",
                "6|1.0|NaN",
            ];
            assert_eq!(found, expected);
            let found = query(
                &db,
                "SELECT g, CAST(max(f) AS text) FROM f GROUP BY g ORDER BY max(f) DESC NULLS LAST, g LIMIT 2",
            )
            .await;
            assert_eq!(found, ["1|NaN", "2|NaN"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_are_equal_in_windows_and_sorts() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE f (id INT, f DOUBLE)").await;
    run(
        &db,
        "INSERT INTO f VALUES (8, -0.0e0), (9, 0.0e0), (7, 0.0e0), (6, -1e0)",
    )
    .await;
    for (text, rows) in [
        (
            "SELECT id, row_number() OVER (PARTITION BY f ORDER BY id) FROM f ORDER BY id",
            "6|1 7|1 8|2 9|3",
        ),
        (
            "SELECT id, rank() OVER (ORDER BY f) FROM f ORDER BY id",
            "6|1 7|2 8|2 9|2",
        ),
        (
            "SELECT id, dense_rank() OVER (ORDER BY f DESC, id) FROM f ORDER BY id",
            "6|4 7|1 8|2 9|3",
        ),
        (
            "SELECT id, count(*) OVER (ORDER BY f) FROM f ORDER BY id",
            "6|1 7|4 8|4 9|4",
        ),
        (
            "SELECT id, count(*) OVER (ORDER BY f RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM f ORDER BY id",
            "6|1 7|4 8|4 9|4",
        ),
        ("SELECT id FROM f ORDER BY f, id DESC", "6 9 8 7"),
        ("SELECT id FROM f ORDER BY f DESC, id LIMIT 2", "7 8"),
        ("SELECT DISTINCT ON (f) id FROM f ORDER BY f, id DESC", "6 9"),
        ("SELECT array_agg(id ORDER BY f, id) FROM f", "[6, 7, 8, 9]"),
        ("SELECT first_value(id ORDER BY f DESC, id DESC) FROM f", "9"),
        ("SELECT count(*) FROM f GROUP BY ROLLUP (f) ORDER BY 1", "1 3 4"),
        ("SELECT count(*) FROM f WHERE f IN (0e0)", "3"),
        ("SELECT count(DISTINCT f) FROM f", "2"),
        ("SELECT count(*) FROM f AS x JOIN f AS y ON x.f = y.f", "10"),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sort_key_may_stand_twice() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE a (id INT, x INT)").await;
    run(&db, "INSERT INTO a VALUES (1, 0), (2, 0), (4, 40)").await;
    for (text, rows) in [
        ("SELECT DISTINCT ON (x) * FROM a ORDER BY x, id, id", "1|0 4|40"),
        (
            "SELECT DISTINCT ON (x) * FROM a ORDER BY x, x DESC, id",
            "1|0 4|40",
        ),
        (
            "SELECT DISTINCT ON (x, x) * FROM a ORDER BY x, x, id DESC",
            "2|0 4|40",
        ),
        (
            "SELECT DISTINCT ON (x) x, x, id FROM a ORDER BY x, id DESC",
            "0|0|2 40|40|4",
        ),
        ("SELECT id FROM a ORDER BY x DESC, x, id, id DESC", "4 1 2"),
        ("SELECT first_value(id ORDER BY x, x, id) FROM a", "1"),
        ("SELECT last_value(id ORDER BY x, x DESC, id, id) FROM a", "4"),
        (
            "SELECT array_agg(id ORDER BY x DESC, x, id DESC, id) FROM a",
            "[4, 2, 1]",
        ),
        (
            "SELECT rank() OVER (ORDER BY x, x DESC) FROM a ORDER BY 1",
            "1 1 3",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operand_that_does_not_decide_is_not_evaluated() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id INT, x INT, s TEXT)").await;
    run(
        &db,
        "INSERT INTO t VALUES (1, 0, 'a'), (2, 1, '7'), (3, 2, '8'), (4, 4, '9'), (5, NULL, NULL)",
    )
    .await;
    for (text, rows) in [
        ("SELECT id FROM t WHERE x <> 0 AND 4 / x > 1 ORDER BY id", "2 3"),
        ("SELECT id FROM t WHERE x = 0 OR 4 / x > 3 ORDER BY id", "1 2"),
        (
            "SELECT x <> 0 AND 4 / x > 1 FROM t ORDER BY id",
            "false true true false NULL",
        ),
        (
            "SELECT x = 0 OR 4 / x > 1 FROM t ORDER BY id",
            "true true true false NULL",
        ),
        (
            "SELECT id FROM t WHERE NOT (x = 0 OR 4 / x > 3) ORDER BY id",
            "3 4",
        ),
        (
            "SELECT CASE WHEN x <> 0 THEN 4 / x END FROM t ORDER BY id",
            "NULL 4 2 1 NULL",
        ),
        (
            "SELECT CASE WHEN x <> 0 THEN 4 / x > 1 END FROM t ORDER BY id",
            "NULL true true false NULL",
        ),
        (
            "SELECT id FROM t WHERE CASE WHEN x <> 0 THEN 4 / x > 1 ELSE true END ORDER BY id",
            "1 2 3 5",
        ),
        (
            "SELECT CASE x WHEN 0 THEN 0 ELSE 4 % x END FROM t ORDER BY id",
            "0 0 0 0 NULL",
        ),
        (
            "SELECT coalesce(x, 1 / (id - 5)) FROM t WHERE id < 5 ORDER BY id",
            "0 1 2 4",
        ),
        (
            "SELECT id FROM t WHERE s <> 'a' AND CAST(s AS int) > 7 ORDER BY id",
            "3 4",
        ),
        (
            "SELECT CASE WHEN s = 'a' THEN 0 ELSE CAST(s AS int) END FROM t ORDER BY id",
            "0 7 8 9 NULL",
        ),
        (
            "SELECT s <> 'a' AND CAST(s AS int) > 7 AND x // (x - 1) > 1 FROM t WHERE id > 2 ORDER BY id",
            "true false NULL",
        ),
        (
            "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id AND b.x <> 0 AND a.id / b.x > 1 ORDER BY 1",
            "2",
        ),
        (
            "SELECT x, count(*) FILTER (WHERE x <> 0 AND 4 / x > 1) FROM t GROUP BY x HAVING x <> 0 AND 4 / x > 0 ORDER BY x",
            "1|1 2|1 4|0",
        ),
        (
            "SELECT id FROM t WHERE x <> 0 AND 4 / x > 1 AND id IN (SELECT id FROM t WHERE x = 2)",
            "3",
        ),
        (
            "SELECT sum(CASE WHEN x = 0 THEN 0 ELSE 4 / x END), sum(CASE WHEN x <> 0 THEN 4 / x + 1 END) FROM t",
            "7|10",
        ),
        // A constant that its type does not have.
        (
            "SELECT sum(CASE WHEN id < 0 THEN CAST('x' AS int) ELSE 1 END) FROM t",
            "5",
        ),
        (
            "SELECT coalesce(id, CAST('x' AS date) - DATE '2020-01-01') FROM t WHERE id = 2",
            "2",
        ),
        (
            "SELECT id FROM t WHERE id = 2 OR (id < 0 AND CAST('300' AS tinyint) = x)",
            "2",
        ),
        // An overflow.
        (
            "SELECT x > 3 AND 9223372036854775803 + CAST(x AS BIGINT) > 0 FROM t WHERE id <> 4 ORDER BY id",
            "false false false NULL",
        ),
        (
            "SELECT id FROM t WHERE x < 2 AND 9223372036854775807 - 1 + CAST(x AS BIGINT) > 0 ORDER BY id",
            "1 2",
        ),
        (
            "SELECT id FROM t WHERE x >= 2 OR 4611686018427387904 * CAST(x AS BIGINT) = 0 ORDER BY id",
            "1 3 4",
        ),
        (
            "SELECT a.id FROM t AS a, t AS b WHERE a.id = b.id AND b.x < 2 AND \
             9223372036854775806 + b.x > CAST(a.x AS BIGINT) ORDER BY 1",
            "1 2",
        ),
        (
            "SELECT id FROM t WHERE x = 0 AND CAST(99999999999999999999999999999999999999 + x AS DECIMAL(38, 0)) > 0",
            "1",
        ),
        // A part of the condition of a nested loop join.
        (
            "SELECT a.id, b.id FROM t AS a JOIN t AS b ON a.id + b.id = 3 AND (b.x < 2 OR 4 / (b.x - 2) > a.id) ORDER BY 1",
            "1|2 2|1",
        ),
        (
            "SELECT id FROM t WHERE id >= 4 AND (id >= 4 OR 1 = (SELECT v FROM (VALUES (1), (2)) u(v))) ORDER BY id",
            "4 5",
        ),
    ] {
        for mode in ["off", "auto"] {
            run(&db, &format!("SET halocline.index = {mode}")).await;
            assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
        }
    }
    run(&db, "DELETE FROM t WHERE x <> 0 AND 4 / x = 1").await;
    assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cast_that_rounds_is_compared_as_it_is() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (d DECIMAL(10, 2), i BIGINT)").await;
    run(&db, "INSERT INTO t VALUES (1.20, 5), (1.24, 300), (2.00, -1)").await;
    for (condition, rows) in [
        ("CAST(d AS int) = 1", "1.20 1.24"),
        ("CAST(d AS int) IN (1, 7)", "1.20 1.24"),
        ("CAST(d AS decimal(10, 1)) = 1.2", "1.20 1.24"),
        ("CAST(d AS decimal(10, 1)) BETWEEN 1.2 AND 1.3", "1.20 1.24"),
        ("TRY_CAST(i AS tinyint) <> 5", "2.00"),
        ("TRY_CAST(i AS tinyint) IS NULL", "1.24"),
        ("CAST(i AS double) = 300e0", "1.24"),
    ] {
        let found = query(&db, &format!("SELECT d FROM t WHERE {condition} ORDER BY d")).await;
        assert_eq!(found.join(" "), rows, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_of_one_query_may_have_different_orders() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (g INT, a INT, b INT, s TEXT)").await;
    run(
        &db,
        "INSERT INTO t VALUES (1,1,3,'x'), (1,2,2,'z'), (1,3,1,'y'), (2,4,5,'q'), (2,5,4,'p')",
    )
    .await;
    for (text, rows) in [
        (
            "SELECT array_agg(a ORDER BY b), array_agg(a ORDER BY s), array_agg(a ORDER BY a DESC) FROM t WHERE g = 1",
            "[3, 2, 1]|[1, 3, 2]|[3, 2, 1]",
        ),
        (
            "SELECT g, first_value(a ORDER BY b), last_value(a ORDER BY s), string_agg(s, ',' ORDER BY a), \
             string_agg(s, ',' ORDER BY b) FROM t GROUP BY g ORDER BY g",
            "1|3|2|x,z,y|y,z,x 2|5|4|q,p|p,q",
        ),
        (
            "SELECT g, nth_value(a, 2 ORDER BY b), array_agg(s ORDER BY s), sum(a) FROM t GROUP BY g ORDER BY g",
            "1|2|[x, y, z]|6 2|4|[p, q]|9",
        ),
        (
            "SELECT sum(a ORDER BY b), avg(a ORDER BY s), nth_value(a, -1 ORDER BY s), count(a ORDER BY a DESC) FROM t",
            "15|3.000000000e0|2|5",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_and_nans_are_equal_in_nullif_and_correlated_joins() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i, CAST(s AS DOUBLE) AS f FROM (VALUES (1, '0.0'), (2, '-0.0'), (3, 'NaN'), (4, '-NaN'), \
         (5, '2'), (6, NULL)) AS v(i, s)",
    )
    .await;
    for (text, rows) in [
        (
            "SELECT i FROM t WHERE NULLIF(f, CAST('-0.0' AS DOUBLE)) IS NULL ORDER BY i",
            "1 2 6",
        ),
        (
            "SELECT i FROM t WHERE NULLIF(f, CAST('NaN' AS DOUBLE)) IS NULL ORDER BY i",
            "3 4 6",
        ),
        (
            "SELECT NULLIF(f, 1) IS NOT DISTINCT FROM f FROM t ORDER BY i",
            "true true true true true true",
        ),
        // A value of the subquery for each value of the row outside.
        (
            "SELECT i, (SELECT count(*) FROM t AS u WHERE u.f = t.f OR u.f < t.f - 1) FROM t ORDER BY i",
            "1|2 2|2 3|5 4|5 5|3 6|0",
        ),
        (
            "SELECT i FROM t WHERE i NOT IN (SELECT u.i + 10 FROM t AS u WHERE u.f <> t.f) ORDER BY i",
            "1 2 3 4 5 6",
        ),
        (
            "SELECT i FROM t WHERE NULLIF(i, 2) NOT IN (SELECT NULLIF(u.i, 5) FROM t AS u WHERE u.f <> t.f) ORDER BY i",
            "5 6",
        ),
    ] {
        for setting in ["off", "force"] {
            run(&db, &format!("SET halocline.spilling_join = {setting}")).await;
            assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_decimal_and_a_float_is_a_float() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i, CAST(f AS DOUBLE) AS f, CAST(n AS DECIMAL(10, 2)) AS n \
         FROM (VALUES (1, '1.5', '1.10'), (2, 'Infinity', '2.20'), (3, 'NaN', NULL), (4, NULL, '4.40')) AS v(i, f, n)",
    )
    .await;
    for (expression, values) in [
        ("coalesce(f, n)", "1.5 inf NaN 4.4"),
        ("ifnull(n, f)", "1.1 2.2 NaN 4.4"),
        ("greatest(f, n)", "1.5 inf NaN 4.4"),
        ("least(n, f)", "1.1 2.2 NaN 4.4"),
        ("nullif(n, f)", "1.1 2.2 NULL 4.4"),
        ("CASE WHEN i < 3 THEN n ELSE f END", "1.1 2.2 NaN NULL"),
    ] {
        let text = format!("SELECT CAST({expression} AS TEXT) FROM t ORDER BY i");
        assert_eq!(query(&db, &text).await.join(" "), values, "{text}");
    }
}
