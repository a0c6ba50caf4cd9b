//! Joins that find rows of a table by its key, beside hash joins.

use halocline_engine::Database;

use super::support::{new_pool, query, run};

/// Rows of the tables with a key.
const ROWS: usize = 20_000;

/// Tables whose key is sorted and dense (`parts`), dense with gaps in any order (`gaps`), almost unique
/// (`twice`), and one that refers to them (`items`), with keys that are NULL or that no row has.
async fn tables() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    let columns =
        "'part ' || v AS name, CASE WHEN v % 5 = 0 THEN NULL ELSE v % 17 END AS size, v * 3 AS price";
    for text in [
        format!(
            "CREATE TABLE parts AS SELECT v AS id, {columns} FROM generate_series(1, {ROWS}) AS t(v) ORDER BY id"
        ),
        format!(
            "CREATE TABLE gaps AS SELECT CASE WHEN v % 100 = 7 THEN NULL ELSE (v * 7919 % 20011) * 3 END AS id, \
             {columns} FROM generate_series(1, {ROWS}) AS t(v)"
        ),
        format!(
            "CREATE TABLE twice AS SELECT CASE WHEN v % 50 = 0 THEN v - 1 ELSE v END AS id, {columns} \
             FROM generate_series(1, {ROWS}) AS t(v)"
        ),
        format!(
            "CREATE TABLE items AS SELECT CASE WHEN v % 29 = 0 THEN NULL ELSE v * 31 % ({ROWS} + 900) END AS part, \
             v % 23 AS size, v FROM generate_series(1, 50000) AS t(v)"
        ),
    ] {
        run(&db, &text).await;
    }
    run(&db, "SET halocline.star_join = off").await;
    run(&db, "SET halocline.fused_aggregate = off").await;
    (dir, db)
}

/// Queries over a table with a key, of all kinds of joins and both orders of the sides.
fn queries(table: &str) -> Vec<String> {
    let aggregates = "count(*), sum(i.v), sum(p.price), min(p.name), max(p.name), count(p.size)";
    let mut queries = Vec::new();
    for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for residual in ["", " AND p.size < i.size"] {
            queries.push(format!(
                "SELECT {aggregates} FROM items i {kind} {table} p ON p.id = i.part{residual}"
            ));
            queries.push(format!(
                "SELECT {aggregates} FROM {table} p {kind} items i ON p.id = i.part{residual} WHERE i.v < 700 OR p.price > 9000"
            ));
        }
    }
    for (outer, inner) in [
        (
            format!("{table} p WHERE p.id"),
            "SELECT part FROM items WHERE size = 3".to_owned(),
        ),
        (
            "items i WHERE i.part".to_owned(),
            format!("SELECT id FROM {table}"),
        ),
    ] {
        queries.push(format!("SELECT count(*) FROM {outer} IN ({inner})"));
        queries.push(format!("SELECT count(*) FROM {outer} NOT IN ({inner})"));
    }
    queries.push(format!(
        "SELECT count(*) FROM {table} p WHERE p.id IN (SELECT part FROM items WHERE size = 3) OR p.size = 2"
    ));
    queries.push(format!(
        "SELECT count(*) FROM items i WHERE i.part IN (SELECT id FROM {table}) OR i.size = 2"
    ));
    queries.push(format!(
        "SELECT count(*) FROM items i WHERE NOT EXISTS (SELECT 1 FROM {table} p WHERE p.id = i.part AND p.size = i.size)"
    ));
    queries.push(format!(
        "SELECT i.v, p.name FROM items i JOIN {table} p ON p.id = i.part WHERE i.v % 9000 = 0 ORDER BY i.v"
    ));
    queries
}

/// Compares the answers of array joins with those of hash joins, and returns the number of queries with an
/// array join.
async fn compare(db: &Database, table: &str) -> usize {
    let mut arrays = 0;
    for text in queries(table) {
        run(db, "SET halocline.array_join = off").await;
        let expected = query(db, &text).await;
        run(db, "SET halocline.array_join = force").await;
        assert_eq!(query(db, &text).await, expected, "{text}");
        let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
        arrays += usize::from(plan.contains("algorithm=array"));
    }
    arrays
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_hash_joins() {
    let (_dir, db) = tables().await;
    let all = queries("parts").len();
    assert!(compare(&db, "parts").await >= all - 4, "of {all}");
    compare(&db, "gaps").await;
    // The statistics do not tell that some keys appear twice, the first join does.
    run(&db, "SET halocline.array_join = force").await;
    let text = "EXPLAIN SELECT i.v, p.name FROM items i JOIN twice p ON p.id = i.part";
    assert!(query(&db, text).await.concat().contains("algorithm=array"));
    assert_eq!(compare(&db, "twice").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_follow_changes() {
    let (_dir, db) = tables().await;
    compare(&db, "parts").await;
    for change in [
        "DELETE FROM parts WHERE id % 1000 = 3",
        "INSERT INTO parts VALUES (20001, 'new', 3, 30)",
        "UPDATE parts SET id = id + 40000 WHERE id < 100",
        "VACUUM",
        "DELETE FROM parts",
    ] {
        run(&db, change).await;
        compare(&db, "parts").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_are_looked_up_in_a_large_table_by_its_key() {
    let (_dir, db) = tables().await;
    let large = "CREATE TABLE large AS SELECT v AS id, 'part ' || v AS name FROM generate_series(1, 400000) AS t(v) ORDER BY id";
    run(&db, large).await;
    let text = "SELECT i.v, p.name FROM items i JOIN large p ON p.id = i.part WHERE i.v < 20";
    // A join finds out that the keys ascend by one.
    run(&db, "SET halocline.array_join = force").await;
    query(&db, text).await;
    run(&db, "RESET halocline.array_join").await;
    let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
    assert!(plan.contains("algorithm=array, costs=[array "), "{plan}");
    assert!(plan.contains(", hash "), "{plan}");
    run(&db, "SET halocline.array_join = off").await;
    let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
    assert!(plan.contains("HashJoinExec"), "{plan}");
    run(&db, "SET halocline.spilling_join = force").await;
    let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
    assert!(plan.contains("algorithm=hybrid, costs=[h"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_memory_is_needed_for_keys_in_order() {
    let (_dir, db) = tables().await;
    run(&db, "SET halocline.array_join = force").await;
    let text = "EXPLAIN ANALYZE SELECT sum(p.price) FROM items i JOIN parts p ON p.id = i.part";
    let plan = query(&db, text).await.join("\n");
    assert!(plan.contains("algorithm=array"), "{plan}");
    assert!(
        plan.contains("peak_memory_bytes=0") && plan.contains("spill_file_bytes=0"),
        "{plan}"
    );
    assert!(plan.contains("run_time="), "{plan}");
}
