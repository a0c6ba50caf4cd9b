//! INTERSECT and EXCEPT, with ALL and without.

use super::support::{new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intersect_all_and_except_all_count() {
    let (_dir, db) = new_pool();
    for text in [
        "CREATE TABLE a (k INT, x DOUBLE)",
        "CREATE TABLE b (k BIGINT, x DECIMAL(4, 1))",
        "INSERT INTO a VALUES (1, 1), (1, 1), (1, 1), (2, 2.5), (NULL, NULL), (NULL, NULL), (3, '-0.0'), (3, 'NaN')",
        "INSERT INTO b VALUES (1, 1), (1, 1), (2, 2.5), (NULL, NULL), (3, 0)",
    ] {
        run(&db, text).await;
    }
    for (expected, text) in [
        ("1 1 2 3 NULL", "SELECT k FROM a INTERSECT ALL SELECT k FROM b"),
        ("1 3 NULL", "SELECT k FROM a EXCEPT ALL SELECT k FROM b"),
        ("", "SELECT k FROM b EXCEPT ALL SELECT k FROM a"),
        ("1 2 3 NULL", "SELECT k FROM a INTERSECT SELECT k FROM b"),
        (
            "1|1 3|0 3|NaN NULL|NULL NULL|NULL",
            "SELECT k, abs(x) FROM a EXCEPT ALL SELECT k, x FROM b WHERE k < 3",
        ),
        (
            "5",
            "SELECT count(*) FROM (SELECT k, x FROM a INTERSECT ALL SELECT k, x FROM b) z",
        ),
        (
            "2",
            "WITH z AS (SELECT k FROM a EXCEPT ALL SELECT k FROM b) SELECT count(k) FROM z",
        ),
        (
            "1 1 1 2 3 3 NULL NULL",
            "SELECT k FROM a WHERE k IN (SELECT k FROM a INTERSECT ALL SELECT k FROM b) OR k IS NULL",
        ),
        // INTERSECT binds tighter than the others.
        (
            "1 1 1 2 2 3 3 3 NULL NULL NULL",
            "SELECT k FROM a UNION ALL SELECT k FROM a INTERSECT SELECT k FROM b WHERE k > 1 OR k IS NULL",
        ),
        (
            "1 1",
            "SELECT k FROM a EXCEPT ALL SELECT k FROM a INTERSECT ALL (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 3 UNION ALL SELECT NULL UNION ALL SELECT NULL)",
        ),
        (
            "1",
            "SELECT DISTINCT k FROM a WHERE k = 1 INTERSECT ALL SELECT k FROM b",
        ),
        (
            "1 1",
            "(SELECT k FROM a EXCEPT ALL SELECT 1) EXCEPT ALL SELECT k FROM b WHERE k > 1 OR k IS NULL EXCEPT ALL SELECT k FROM a WHERE k = 3 OR k IS NULL",
        ),
        // Both sides have a common type.
        ("1.0", "SELECT 1 INTERSECT SELECT 1.0"),
    ] {
        let mut rows = query(&db, text).await;
        rows.sort();
        let rows: Vec<String> = rows.iter().map(|row| row.replace(".000000000e0", "")).collect();
        assert_eq!(rows.join(" "), expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_of_unions_may_seem_to_be_null() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, true), (2, NULL)) AS v(i, b)",
    )
    .await;
    for (text, expected) in [
        (
            "SELECT coalesce(b, false) AS c FROM t UNION SELECT false ORDER BY c",
            "false true",
        ),
        (
            "SELECT coalesce(b, false) AS c FROM t UNION SELECT coalesce(b, true) FROM t ORDER BY c",
            "false true",
        ),
        (
            "SELECT c, count(*) FROM (SELECT coalesce(b, false) AS c FROM t UNION ALL SELECT false) GROUP BY c ORDER BY c",
            "false|2 true|1",
        ),
        (
            "SELECT coalesce(b, false) AS c FROM t INTERSECT SELECT false",
            "false",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), expected, "{text}");
    }
}
