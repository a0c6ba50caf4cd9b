//! Columns that USING and NATURAL merge.

use halocline_engine::Database;
use tempfile::TempDir;

use super::support::{error, new_pool, query, run};

async fn tables() -> (TempDir, Database) {
    let (dir, db) = new_pool();
    for text in [
        "CREATE TABLE a (k INT, x INT)",
        "CREATE TABLE b (k INT, y INT)",
        "CREATE TABLE c (z INT, k INT)",
        "CREATE TABLE u (id INT, n INT)",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "INSERT INTO b VALUES (2, 20), (9, 90)",
        "INSERT INTO c VALUES (100, 1), (900, 9), (700, 7)",
        "INSERT INTO u VALUES (1, 0), (2, 0), (7, 0), (9, 0)",
    ] {
        run(&db, text).await;
    }
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outer_joins_merge_their_columns() {
    let (_dir, db) = tables().await;
    for (expected, text) in [
        (
            "1|1|NULL 2|2|20 9|NULL|90",
            "SELECT k, x, y FROM a FULL JOIN b USING (k)",
        ),
        ("2 9", "SELECT k FROM a RIGHT JOIN b USING (k)"),
        ("1 2", "SELECT k FROM a LEFT JOIN b USING (k)"),
        ("2|2|20 9|NULL|90", "SELECT * FROM a NATURAL RIGHT JOIN b"),
        ("1|1|NULL 2|2|20 9|NULL|90", "SELECT * FROM a NATURAL FULL JOIN b"),
        (
            "NULL|20|2 NULL|90|9",
            "SELECT x, y, k FROM (SELECT NULL AS x) s CROSS JOIN (a NATURAL RIGHT JOIN b) t(k, xx, y)",
        ),
        (
            "1|1 2|1 9|1",
            "SELECT k, count(*) FROM a FULL JOIN b USING (k) GROUP BY k",
        ),
        ("9|90", "SELECT k, y FROM a FULL JOIN b USING (k) WHERE k = 9"),
        (
            "12|9|3",
            "SELECT sum(k), max(k), count(k) FROM a FULL JOIN b USING (k)",
        ),
        (
            "9",
            "SELECT k FROM a FULL JOIN b USING (k) GROUP BY k HAVING k > 2",
        ),
        ("1 2 9", "SELECT DISTINCT k FROM a FULL JOIN b USING (k)"),
        ("10 2 3", "SELECT k + 1 FROM a FULL JOIN b USING (k)"),
        // Qualified names stay what they are.
        (
            "1|1|NULL 2|2|2 9|NULL|9",
            "SELECT k, a.k AS l, b.k AS r FROM a FULL JOIN b USING (k)",
        ),
        ("1|1 2|2 NULL|NULL", "SELECT a.* FROM a FULL JOIN b USING (k)"),
        ("9", "SELECT k FROM a FULL JOIN b USING (k) WHERE a.k IS NULL"),
        // Three tables.
        (
            "1|1|NULL|100 2|2|20|NULL 7|NULL|NULL|700 9|NULL|90|900",
            "SELECT * FROM a FULL JOIN b USING (k) FULL JOIN c USING (k)",
        ),
        (
            "1|100 2|NULL 9|900",
            "SELECT k, z FROM a FULL JOIN b USING (k) LEFT JOIN c USING (k)",
        ),
        (
            "1|100 9|900",
            "SELECT k, z FROM a FULL JOIN b USING (k) JOIN c USING (k)",
        ),
        (
            "1|100 2|NULL",
            "SELECT k, z FROM a LEFT JOIN b USING (k) LEFT JOIN c USING (k)",
        ),
        (
            "1|100 7|700 9|900",
            "SELECT k, z FROM a FULL JOIN (b LEFT JOIN u ON b.k = id) USING (k) RIGHT JOIN c USING (k)",
        ),
        (
            "1|100 2|NULL 7|700 9|900",
            "SELECT k, z FROM (a NATURAL FULL JOIN b) NATURAL FULL JOIN c",
        ),
        // In subqueries, common table expressions and beside other tables.
        (
            "1|1 2|1 9|1",
            "SELECT k, (SELECT count(*) FROM u WHERE id = k) FROM a FULL JOIN b USING (k)",
        ),
        (
            "1 2 9",
            "SELECT id FROM u WHERE id IN (SELECT k FROM a FULL JOIN b USING (k))",
        ),
        (
            "1 2 9",
            "WITH m AS (SELECT k FROM a FULL JOIN b USING (k)) SELECT k FROM m",
        ),
        (
            "1|1 2|2 9|9",
            "SELECT k, id FROM a FULL JOIN b USING (k), u WHERE k = id",
        ),
        (
            "1|1 2|2 9|9",
            "SELECT k, id FROM a FULL JOIN b USING (k) JOIN u ON k = id",
        ),
        (
            "1 2 9",
            "SELECT k FROM (SELECT * FROM a) s FULL JOIN (SELECT * FROM b) t USING (k)",
        ),
        (
            "1 2 9",
            "SELECT k FROM (SELECT * FROM a) FULL JOIN (SELECT * FROM b) USING (k)",
        ),
        (
            "1 2 3 4",
            "SELECT k FROM a FULL JOIN generate_series(2, 4) AS g(k) USING (k)",
        ),
        (
            "20|-2 90|-9 NULL|-1",
            "SELECT y, -k AS k FROM a FULL JOIN b USING (k)",
        ),
        (
            "1 10 20",
            "WITH RECURSIVE r AS (SELECT 1 AS k UNION ALL SELECT k * 10 FROM a FULL JOIN b USING (k) JOIN r USING (k) WHERE k < 5) SELECT k FROM r UNION ALL SELECT 20",
        ),
        (
            "1|NULL 2|20 9|90",
            "SELECT * EXCLUDE (x) FROM a FULL JOIN b USING (k)",
        ),
        (
            "10|NULL 20|20 90|90",
            "SELECT * EXCLUDE (x) REPLACE (k * 10 AS k) FROM a FULL JOIN b USING (k)",
        ),
    ] {
        let mut rows = query(&db, text).await;
        rows.sort();
        assert_eq!(rows.join(" "), expected, "{text}");
    }
    for (expected, text) in [
        ("9 2 1", "SELECT k FROM a FULL JOIN b USING (k) ORDER BY k DESC"),
        (
            "NULL 2 1",
            "SELECT x FROM a FULL JOIN b USING (k) ORDER BY k DESC",
        ),
        (
            "9 2 1",
            "SELECT k FROM a FULL JOIN b USING (k) ORDER BY k + 1 DESC",
        ),
        (
            "1|1 2|2 9|3",
            "SELECT k, row_number() OVER (ORDER BY k) FROM a FULL JOIN b USING (k) ORDER BY 1",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), expected, "{text}");
    }
    run(
        &db,
        "UPDATE u SET n = 1 WHERE id IN (SELECT k FROM a FULL JOIN b USING (k) WHERE k > 1)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT id FROM u WHERE n = 1 ORDER BY id").await,
        ["2", "9"]
    );
    run(
        &db,
        "DELETE FROM u WHERE id NOT IN (SELECT k FROM a RIGHT JOIN b USING (k))",
    )
    .await;
    assert_eq!(query(&db, "SELECT id FROM u ORDER BY id").await, ["2", "9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_of_a_merged_column_stays() {
    let (_dir, db) = tables().await;
    let result = db
        .sql("SELECT k, k + 1, a.x, y FROM a FULL JOIN b USING (k)")
        .await
        .unwrap();
    let schema = result.schema();
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names[..2], ["k", "k + 1"], "{names:?}");
    assert_eq!(names[2..], ["x", "y"], "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_cannot_be_merged_are_errors() {
    let (_dir, db) = tables().await;
    for (part, text) in [
        ("ambiguous", "SELECT k FROM a FULL JOIN b USING (k), c"),
        (
            "more than once",
            "SELECT 1 FROM a CROSS JOIN b FULL JOIN c USING (k)",
        ),
        ("not on both sides", "SELECT 1 FROM a FULL JOIN b USING (x)"),
    ] {
        let message = error(&db, text).await;
        assert!(message.contains(part), "{text}: {message}");
    }
}
