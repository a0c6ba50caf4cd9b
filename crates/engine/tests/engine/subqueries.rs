//! Subqueries in statements that change rows, with volatile functions, and those that are refused.

use halocline_engine::Database;

use super::support::{error, new_pool, query, run};

async fn tables() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE a (id int, k int, x int)").await;
    run(
        &db,
        "INSERT INTO a VALUES (1, 1, 10), (2, 1, NULL), (3, 2, 30), (4, NULL, 40), (5, 3, 5)",
    )
    .await;
    run(&db, "CREATE TABLE b (k int, v int)").await;
    run(
        &db,
        "INSERT INTO b VALUES (1, 10), (1, 20), (2, 30), (2, NULL), (NULL, 5)",
    )
    .await;
    run(&db, "CREATE TABLE e (k int)").await;
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_select_rows_by_subqueries_of_every_kind() {
    for (change, then) in [
        ("DELETE FROM a WHERE k NOT IN (SELECT k FROM b)", "1 2 3 4 5"),
        (
            "DELETE FROM a WHERE x = 40 OR id NOT IN (SELECT v FROM b)",
            "1 2 3 5",
        ),
        (
            "DELETE FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
            "1 2 3 4",
        ),
        (
            "DELETE FROM a WHERE NOT (k IN (SELECT k FROM b) AND x < 30)",
            "1 2 5",
        ),
        (
            "DELETE FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.k = a.k)",
            "",
        ),
        (
            "DELETE FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k < a.k)",
            "1 2 4",
        ),
        (
            "DELETE FROM a WHERE x > (SELECT max(v) FROM b WHERE b.k = a.k)",
            "1 2 3 4 5",
        ),
        (
            "DELETE FROM a WHERE x >= ALL (SELECT v FROM b WHERE b.k = a.k)",
            "1 2 3",
        ),
        ("DELETE FROM a WHERE (k, x) IN (SELECT k, v FROM b)", "2 4 5"),
        ("DELETE FROM a WHERE k IN (SELECT a.k FROM e)", "1 2 3 4 5"),
    ] {
        let (_dir, db) = tables().await;
        run(&db, change).await;
        let left = query(&db, "SELECT id FROM a ORDER BY id").await.join(" ");
        assert_eq!(left, then, "{change}");
    }
    let (_dir, db) = tables().await;
    run(
        &db,
        "UPDATE a SET x = (SELECT sum(v) FROM b WHERE b.k <= a.k), k = CASE WHEN id IN (SELECT k FROM b) THEN 0 ELSE k END \
         WHERE id > (SELECT count(*) FROM e)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT id, k, x FROM a ORDER BY id").await,
        ["1|0|30", "2|0|30", "3|2|60", "4|NULL|NULL", "5|3|60"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volatile_functions_run_for_each_row_or_once() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS id, value % 2 AS k FROM generate_series(1, 200) AS s(value)",
    )
    .await;
    let count = |text: &str| format!("SELECT count(DISTINCT r) > 1 FROM (SELECT {text} AS r FROM t) z");
    for (text, differs) in [
        ("(SELECT random())", "false"),
        ("(SELECT max(random()) FROM t t2)", "false"),
        ("(SELECT random() WHERE t.k >= 0)", "true"),
        ("(SELECT max(random()) FROM t t2 WHERE t2.k = t.k * 0)", "true"),
    ] {
        assert_eq!(query(&db, &count(text)).await, [differs], "{text}");
    }
    let rows = "SELECT count(DISTINCT r) FROM (SELECT (SELECT max(random()) FROM t t2 WHERE t2.k = t.k) AS r FROM t) z";
    assert_eq!(query(&db, rows).await, ["200"]);
    let lateral =
        "SELECT count(DISTINCT r) FROM t, LATERAL (SELECT random() AS r FROM t t2 WHERE t2.id = t.k + 1) z";
    assert_eq!(query(&db, lateral).await, ["200"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outer_plans_that_differ_each_time_are_evaluated_once() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS id FROM generate_series(1, 500) AS s(value)",
    )
    .await;
    let text = "SELECT count(*), count(c) FROM (SELECT r, (SELECT count(*) FROM t WHERE id / 500.0 <= r) AS c \
                FROM (SELECT random() AS r FROM t) z) y";
    assert_eq!(query(&db, text).await, ["500|500"]);
    let text = "SELECT count(*) FROM (SELECT id FROM t LIMIT 7) z WHERE EXISTS (SELECT max(id) FROM t t2 WHERE t2.id < z.id HAVING \
                count(*) >= 0)";
    assert_eq!(query(&db, text).await, ["7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_rows_are_an_error_where_the_value_is_used() {
    let (_dir, db) = tables().await;
    for used in [
        "SELECT (SELECT v FROM b)",
        "SELECT id, (SELECT v FROM b WHERE b.k = a.k) FROM a",
        "SELECT id FROM a WHERE x = (SELECT v FROM b WHERE b.k = a.k)",
        "UPDATE a SET x = (SELECT v FROM b)",
    ] {
        let message = error(&db, used).await;
        assert!(message.contains("more than one row"), "{used}: {message}");
    }
    for (unused, rows) in [
        ("SELECT (SELECT v FROM b) FROM e", ""),
        (
            "SELECT CASE WHEN id > 9 THEN (SELECT v FROM b) ELSE 0 END FROM a WHERE id = 1",
            "0",
        ),
        (
            "SELECT id, (SELECT v FROM b WHERE b.k = a.k) FROM a WHERE k = 3",
            "5|NULL",
        ),
        (
            "SELECT CASE WHEN k = 3 THEN (SELECT v FROM b WHERE b.k = a.k) ELSE id END FROM a ORDER BY id",
            "1 2 3 4 NULL",
        ),
        (
            "SELECT coalesce(x, (SELECT v FROM b WHERE b.k = a.k)) FROM a WHERE id = 1",
            "10",
        ),
    ] {
        assert_eq!(query(&db, unused).await.join(" "), rows, "{unused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_supported_is_refused_by_name() {
    let (_dir, db) = tables().await;
    for (text, part) in [
        (
            "SELECT id, (SELECT sum(a.x) FROM b) FROM a",
            "an aggregate of columns of the query around it",
        ),
        (
            "SELECT id, (SELECT v FROM b WHERE b.k = a.k LIMIT a.id) FROM a",
            "LIMIT or OFFSET",
        ),
        (
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k OFFSET a.id)",
            "LIMIT or OFFSET",
        ),
        (
            "SELECT id FROM a WHERE (k, x) < ANY (SELECT k, v FROM b)",
            "ANY or ALL of rows",
        ),
        (
            "SELECT id FROM a WHERE (k, x) = 1",
            "a comparison of a row with something else",
        ),
        ("SELECT id FROM a WHERE (k, x) = (1, 2, 3)", "a row of 2 values"),
    ] {
        let message = error(&db, text).await;
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_compare_by_column() {
    let (_dir, db) = new_pool();
    for (text, value) in [
        ("(1, NULL) = (2, 3)", "false"),
        ("(1, NULL) = (1, 3)", "NULL"),
        ("(1, NULL) <> (2, 3)", "true"),
        ("(1, 2) < (1, 3)", "true"),
        ("(1, NULL) < (2, 3)", "true"),
        ("(1, NULL) < (1, 3)", "NULL"),
        ("(2, 1) >= (2, 1)", "true"),
        ("(2, 1) > (2, 1)", "false"),
        ("(1, 2) IN ((1, 3), (1, 2))", "true"),
        ("(1, 2) NOT IN ((1, 3), (NULL, 2))", "NULL"),
        ("(1, 2) BETWEEN (1, 1) AND (1, 3)", "true"),
        ("(1, NULL) IS NOT DISTINCT FROM (1, NULL)", "true"),
        ("(NULL, NULL) IS NULL", "true"),
        ("(1, NULL) IS NULL", "false"),
        ("(1, NULL) IS NOT NULL", "false"),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {text} AS r")).await,
            [value],
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partners_of_few_keys_are_reduced() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS id, value % 3 AS k, CASE WHEN value % 100 <> 7 THEN value % 2 END AS x \
         FROM generate_series(1, 20000) AS s(value)",
    )
    .await;
    run(
        &db,
        "CREATE TABLE q AS SELECT value % 2 AS k, CASE WHEN value % 100 <> 7 THEN value % 2 END AS v \
         FROM generate_series(1, 9000) AS s(value)",
    )
    .await;
    for (text, rows) in [
        ("SELECT count(*) FROM t WHERE k IN (SELECT k FROM q)", 13333),
        ("SELECT count(*) FROM t WHERE k NOT IN (SELECT k FROM q)", 6667),
        ("SELECT count(*) FROM t WHERE x NOT IN (SELECT v FROM q)", 0),
        (
            "SELECT count(*) FROM t WHERE k NOT IN (SELECT v FROM q WHERE v IS NOT NULL)",
            6667,
        ),
        (
            "SELECT count(*) FROM t WHERE x NOT IN (SELECT v FROM q) OR id = 7",
            1,
        ),
        (
            "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM q WHERE q.k = t.k AND q.v <> t.x)",
            6600,
        ),
        // One key of the partners is compared with two columns.
        (
            "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM q WHERE q.k = t.k AND q.k = t.x AND q.v <> t.id)",
            6599,
        ),
        (
            "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM q WHERE q.k = t.k AND q.k = t.x)",
            6600,
        ),
        (
            "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM q WHERE q.v <> t.x)",
            19800,
        ),
        (
            "SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.v < t.x)",
            10200,
        ),
        (
            "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM q WHERE q.k = t.k AND q.v > t.x) OR x IS NULL",
            3533,
        ),
    ] {
        assert_eq!(query(&db, text).await, [rows.to_string()], "{text}");
    }
    let plan = query(
        &db,
        "EXPLAIN SELECT count(*) FROM t WHERE k NOT IN (SELECT k FROM q)",
    )
    .await
    .join("\n");
    assert!(plan.contains("AggregateExec"), "{plan}");
    // How many keys there are is not known.
    let text = "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM (SELECT value % 2 AS k, value AS v \
                FROM generate_series(1, 9000) AS s(value)) q WHERE q.k = t.k AND q.v <> t.x)";
    assert_eq!(query(&db, text).await, ["13200"]);
    let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
    assert!(plan.contains("min("), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sort_merge_joins_evaluate_conditions_on_their_columns() {
    let (_dir, db) = tables().await;
    for (text, rows) in [
        (
            "SELECT a.id, a.x IN (SELECT min(v) FROM b WHERE b.k = a.k AND b.v + 0 >= a.id) FROM a ORDER BY a.id",
            "1|true 2|NULL 3|true 4|NULL 5|NULL",
        ),
        (
            "SELECT a.id, (SELECT count(*) FROM b WHERE b.k = a.k AND b.v > a.x) FROM a ORDER BY a.id",
            "1|1 2|0 3|0 4|0 5|0",
        ),
        (
            "SELECT a.id, b.v FROM a LEFT JOIN b ON b.k = a.k AND b.v > a.x ORDER BY a.id",
            "1|20 2|NULL 3|NULL 4|NULL 5|NULL",
        ),
        (
            "SELECT v, x FROM (SELECT a.id + 1 AS i, a.x, b.k, b.v FROM a JOIN b ON b.k = a.k AND b.v <> a.x) j ORDER BY v",
            "20|10",
        ),
    ] {
        for prefer in [true, false] {
            run(
                &db,
                &format!("SET datafusion.optimizer.prefer_hash_join = {prefer}"),
            )
            .await;
            assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lateral_sides_of_nested_joins_refer_to_all_tables_before_them() {
    let (_dir, db) = new_pool();
    for (text, rows) in [
        (
            "SELECT a.x, b.y, c.z FROM (VALUES (1), (2)) AS a(x), \
             ((VALUES (10), (20)) AS b(y) CROSS JOIN LATERAL (SELECT a.x + b.y AS z WHERE a.x = 2) AS c) ORDER BY 1, 2",
            "2|10|12 2|20|22",
        ),
        (
            "SELECT a.x, c.n FROM (VALUES (1), (2)) AS a(x) LEFT JOIN \
             ((VALUES (2), (20)) AS b(y) CROSS JOIN LATERAL (SELECT count(*) AS n FROM (VALUES (1), (2)) AS d(v) \
             WHERE d.v <= a.x) AS c) ON b.y = a.x ORDER BY 1",
            "1|NULL 2|2",
        ),
        (
            "SELECT count(*) FROM range(3) AS a(x), (range(3) AS b(y) JOIN (range(3) AS c(z) CROSS JOIN LATERAL \
             (SELECT 1 WHERE a.x = b.y AND c.z = a.x) AS d) ON b.y = c.z)",
            "3",
        ),
        // A reference in a subquery of the side only.
        (
            "SELECT a.x, b.y FROM (VALUES (1), (2), (NULL)) AS a(x) LEFT JOIN LATERAL (SELECT b.y FROM (VALUES (10), (20)) AS b(y) \
             WHERE b.y < 20 AND EXISTS (SELECT 1 FROM (VALUES (2), (3)) AS c(z) WHERE c.z = a.x)) AS b ON true ORDER BY 1",
            "1|NULL 2|10 NULL|NULL",
        ),
        (
            "SELECT a.x, (SELECT count(*) FROM (VALUES (1)) AS d(w), LATERAL (SELECT 1 WHERE d.w IN (SELECT a.x)) AS e) \
             FROM (VALUES (1), (2)) AS a(x) ORDER BY 1",
            "1|1 2|0",
        ),
        // The type of `a` is known only after its reference.
        (
            "WITH t AS (SELECT NULL AS a, 12 AS b UNION ALL SELECT 11, 13) SELECT t.b FROM t WHERE EXISTS \
             (SELECT 1 FROM (VALUES (11, 12), (11, 13)) AS u(a, b) WHERE u.a = t.a AND u.b <> t.b)",
            "13",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), rows, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn infinities_and_nans_are_compared_with_all_rows() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i, CAST(s AS DOUBLE) AS f FROM (VALUES (1, 'Infinity'), (2, '-Infinity'), (3, 'NaN'), \
         (4, '2.5')) AS v(i, s)",
    )
    .await;
    // Many partners of each row, which are reduced to the least and the greatest.
    run(
        &db,
        "CREATE TABLE u AS SELECT i, f, v FROM t, range(2000) AS g(v)",
    )
    .await;
    for (condition, rows) in [
        ("f <= ALL (SELECT f FROM x WHERE x.i = t.i)", "1 2 3 4"),
        ("f >= ALL (SELECT f FROM x WHERE x.i = t.i)", "1 2 3 4"),
        ("f < ANY (SELECT f FROM x WHERE x.i <= t.i)", "2 4"),
        ("f > ANY (SELECT f FROM x WHERE x.i <= t.i)", "3 4"),
        ("f <> ANY (SELECT f FROM x WHERE x.i = t.i)", ""),
        ("EXISTS (SELECT 1 FROM x WHERE x.i = t.i AND x.f <> t.f)", ""),
        ("EXISTS (SELECT 1 FROM x WHERE x.i = t.i AND x.f < t.f + 1)", "4"),
        (
            "EXISTS (SELECT 1 FROM x WHERE x.i = t.i AND x.f >= t.f)",
            "1 2 3 4",
        ),
    ] {
        for table in ["t", "u"] {
            let text = format!(
                "SELECT i FROM t WHERE {} ORDER BY i",
                condition.replace("FROM x", &format!("FROM {table} x"))
            );
            assert_eq!(query(&db, &text).await.join(" "), rows, "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_column_equals_columns_of_different_types() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE u AS SELECT CAST(k AS tinyint) AS k, id, x, s \
         FROM (VALUES (1, 1, 1, 'a'), (1, 2, 1, 'x'), (2, 2, 5, 'x'), (NULL, 3, 1, NULL)) AS v(k, id, x, s)",
    )
    .await;
    let partners = "FROM u AS b WHERE b.k = a.k AND b.k = a.id";
    for (text, expected) in [
        (
            format!("SELECT id FROM u AS a WHERE id IN (SELECT b.x {partners}) ORDER BY id"),
            "1",
        ),
        (
            format!("SELECT id, id NOT IN (SELECT b.x {partners}) FROM u AS a ORDER BY id, k"),
            "1|false 2|true 2|true 3|true",
        ),
        (
            format!("SELECT id FROM u AS a WHERE NOT id >= ANY (SELECT b.x {partners}) ORDER BY id"),
            "2 2 3",
        ),
        (
            format!("SELECT id FROM u AS a WHERE EXISTS (SELECT 1 {partners} AND b.x <> a.id) ORDER BY id"),
            "2",
        ),
        (
            format!("SELECT id, (SELECT max(b.x) {partners}) FROM u AS a ORDER BY id, k"),
            "1|1 2|NULL 2|5 3|NULL",
        ),
    ] {
        assert_eq!(query(&db, &text).await.join(" "), expected, "{text}");
    }
    run(
        &db,
        &format!("DELETE FROM u AS a WHERE id IN (SELECT b.x {partners})"),
    )
    .await;
    assert_eq!(query(&db, "SELECT count(*) FROM u").await, ["3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_below_set_operations_keep_their_order() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE u AS SELECT * FROM (VALUES (1, 1, 1, 'a'), (1, 2, 1, 'x'), (2, 2, 5, 'x'), (NULL, 3, 1, NULL)) AS v(k, id, x, s)",
    )
    .await;
    run(&db, "SET datafusion.execution.target_partitions = 1").await;
    let text = "SELECT a.id FROM u AS a WHERE (SELECT b.k = 1 FROM u AS b WHERE b.id < a.id AND b.id = 1 AND EXISTS \
                (SELECT 'x' AS c FROM u AS d WHERE d.x IS DISTINCT FROM a.k \
                INTERSECT ALL SELECT e.s AS c FROM u AS e WHERE e.id IN (2, 3))) ORDER BY id";
    assert_eq!(query(&db, text).await.join(" "), "2 2 3");
    // A filter makes an expression constant.
    let text = "SELECT id, 5 <> ALL (SELECT b.x FROM u AS b INTERSECT ALL SELECT CASE WHEN d.s IN ('x') THEN d.x END \
                FROM u AS d WHERE d.k BETWEEN 2 AND a.k) FROM u AS a ORDER BY id, k";
    for partitions in [1, 2] {
        run(
            &db,
            &format!("SET datafusion.execution.target_partitions = {partitions}"),
        )
        .await;
        let answer = query(&db, text).await.join(" ");
        assert_eq!(answer, "1|true 2|true 2|false 3|true", "{partitions}");
    }
}
