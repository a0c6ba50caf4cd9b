//! `=` and `IS NOT DISTINCT FROM` in joins: each holds for its own pair, whatever else is joined.

use halocline_engine::Database;
use tempfile::TempDir;

use super::support::{error, new_pool, query, run};

async fn tables() -> (TempDir, Database) {
    let (dir, db) = new_pool();
    for text in [
        "CREATE TABLE a (id INT, k INT, x DOUBLE)",
        "CREATE TABLE b (id INT, k BIGINT, x DECIMAL(6, 2))",
        "CREATE TABLE c (id INT, k INT, x INT)",
        "INSERT INTO a VALUES (1, 1, 1.5), (2, NULL, 2), (3, 3, NULL), (4, NULL, NULL)",
        "INSERT INTO b VALUES (1, 1, 1.5), (2, NULL, 2), (3, 3, NULL), (4, NULL, NULL)",
        "INSERT INTO c VALUES (1, 1, 2), (2, NULL, 2), (3, 3, NULL), (4, NULL, NULL)",
    ] {
        run(&db, text).await;
    }
    (dir, db)
}

/// The rows in order of their text.
async fn rows(db: &Database, text: &str) -> String {
    let mut rows = query(db, text).await;
    rows.sort();
    rows.join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_join_of_a_chain_keeps_its_rule_for_null() {
    let (_dir, db) = tables().await;
    for (expected, text) in [
        // The topmost join is null-safe, the one below is not, and the other way round.
        (
            "1|1|1 3|3|3",
            "SELECT a.id, b.id, c.id FROM a JOIN b ON a.k = b.k JOIN c ON b.k IS NOT DISTINCT FROM c.k",
        ),
        (
            "1|1|1 3|3|3",
            "SELECT a.id, b.id, c.id FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k JOIN c ON b.k = c.k",
        ),
        (
            "1|1|1 2|2|2 2|2|4 2|4|2 2|4|4 3|3|3 4|2|2 4|2|4 4|4|2 4|4|4",
            "SELECT a.id, b.id, c.id FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k \
             JOIN c ON b.k IS NOT DISTINCT FROM c.k",
        ),
        (
            "2|2|2 2|2|4 4|2|2 4|2|4",
            "SELECT a.id, b.id, c.id FROM a, b, c WHERE (a.k IS NOT DISTINCT FROM b.k) AND b.x = 2 \
             AND (c.k IS NOT DISTINCT FROM a.k)",
        ),
        // In a condition above the join.
        (
            "1|1 3|3",
            "SELECT a.id, b.id FROM a JOIN b ON a.x IS NOT DISTINCT FROM b.x WHERE a.k = b.k",
        ),
        (
            "1 3",
            "SELECT z.k FROM (SELECT k FROM a INTERSECT SELECT k FROM b) z JOIN c ON z.k = c.k",
        ),
    ] {
        assert_eq!(rows(&db, text).await, expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_rules_hold_in_one_join() {
    let (_dir, db) = tables().await;
    let on = "(a.k IS NOT DISTINCT FROM b.k) AND a.x = b.x";
    for (expected, join) in [
        ("1|1 2|2", "JOIN"),
        ("1|1 2|2 3|NULL 4|NULL", "LEFT JOIN"),
        ("1|1 2|2 NULL|3 NULL|4", "RIGHT JOIN"),
        ("1|1 2|2 3|NULL 4|NULL NULL|3 NULL|4", "FULL JOIN"),
    ] {
        let text = format!("SELECT a.id, b.id FROM a {join} b ON {on}");
        assert_eq!(rows(&db, &text).await, expected, "{text}");
        let swapped =
            format!("SELECT a.id, b.id FROM a {join} b ON (a.x IS NOT DISTINCT FROM b.x) AND b.k = a.k");
        let expected = match join {
            "JOIN" => "1|1 3|3",
            "LEFT JOIN" => "1|1 2|NULL 3|3 4|NULL",
            "RIGHT JOIN" => "1|1 3|3 NULL|2 NULL|4",
            _ => "1|1 2|NULL 3|3 4|NULL NULL|2 NULL|4",
        };
        assert_eq!(rows(&db, &swapped).await, expected, "{swapped}");
    }
    for (expected, not) in [("1 2", ""), ("3 4", "NOT ")] {
        let text = format!("SELECT id FROM a WHERE {not}EXISTS (SELECT 1 FROM b WHERE {on})");
        assert_eq!(rows(&db, &text).await, expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_both_rules_are_keys_of_a_hash_join() {
    let (_dir, db) = tables().await;
    for join in ["JOIN", "LEFT JOIN", "FULL JOIN"] {
        let text = format!(
            "EXPLAIN SELECT count(*) FROM a {join} b ON (a.id IS NOT DISTINCT FROM b.id) AND a.k = b.k"
        );
        let plan = query(&db, &text).await.join("\n");
        assert!(!plan.contains("NestedLoopJoin"), "{plan}");
    }
    // The order of three relations follows null-safe conditions, too: no pairs of a and b.
    let plan = query(
        &db,
        "EXPLAIN SELECT count(*) FROM a, b, c WHERE (a.k IS NOT DISTINCT FROM c.k) \
         AND (b.k IS NOT DISTINCT FROM c.k)",
    )
    .await
    .join("\n");
    assert!(
        !plan.contains("CrossJoin") && !plan.contains("NestedLoopJoin"),
        "{plan}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_needs_a_condition() {
    let (_dir, db) = tables().await;
    for text in [
        "SELECT count(*) FROM a JOIN b",
        "SELECT count(*) FROM a INNER JOIN b",
        "SELECT count(*) FROM a LEFT JOIN b",
        "SELECT count(*) FROM a FULL JOIN b JOIN c ON b.k = c.k",
        "SELECT count(*) FROM a WHERE id IN (SELECT b.id FROM b JOIN c)",
        "WITH z AS (SELECT b.id FROM b RIGHT JOIN c) SELECT * FROM z",
        "DELETE FROM a WHERE id IN (SELECT b.id FROM b JOIN c)",
        "INSERT INTO c SELECT a.id, 1, 1 FROM a JOIN b",
    ] {
        let message = error(&db, text).await;
        assert!(
            message.contains("JOIN without ON or USING") && message.contains("CROSS JOIN"),
            "{text}: {message}"
        );
    }
    assert_eq!(query(&db, "SELECT count(*) FROM a CROSS JOIN b").await, ["16"]);
    assert_eq!(query(&db, "SELECT count(*) FROM a, b").await, ["16"]);
}
