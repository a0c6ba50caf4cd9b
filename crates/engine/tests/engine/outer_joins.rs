//! Outer joins become inner or left joins where joins above leave out their rows with NULL, and have their
//! place in the order of joins.

use halocline_engine::Database;
use tempfile::TempDir;

use super::support::{new_pool, query, run};

async fn tables() -> (TempDir, Database) {
    let (dir, db) = new_pool();
    for text in [
        "CREATE TABLE t AS SELECT value AS id, value % 10 AS k FROM generate_series(1, 20000)",
        "CREATE TABLE q AS SELECT value AS id, value % 10 AS k FROM generate_series(1, 2000)",
        "CREATE TABLE r AS SELECT value * 20 AS id FROM generate_series(1, 50)",
    ] {
        run(&db, text).await;
    }
    (dir, db)
}

async fn plan(db: &Database, text: &str) -> String {
    query(db, &format!("EXPLAIN {text}")).await.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_joins_above_make_inner_joins_of_outer_ones() {
    let (_dir, db) = tables().await;
    for (rows, text) in [
        (
            "50",
            "SELECT count(*) FROM t FULL JOIN q ON t.k = q.k JOIN r ON r.id = t.id AND r.id = q.id",
        ),
        (
            "50",
            "SELECT count(*) FROM (SELECT t.id + 0 AS a, q.id AS b FROM t LEFT JOIN q ON t.k = q.k) z \
             JOIN r ON r.id = a AND r.id = b",
        ),
    ] {
        assert_eq!(query(&db, text).await, [rows], "{text}");
        let plan = plan(&db, text).await;
        assert!(!plan.contains("Full") && !plan.contains("Left Join"), "{plan}");
    }
    // A condition that NULL satisfies keeps the join.
    let text =
        "SELECT count(*) FROM t FULL JOIN q ON t.id = q.id + 19000 JOIN r ON r.id = coalesce(t.id, 20)";
    assert_eq!(query(&db, text).await, ["1050"]);
    assert!(plan(&db, text).await.contains("Full"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inner_join_that_leaves_few_rows_is_below_a_left_join() {
    let (_dir, db) = tables().await;
    for text in [
        "SELECT count(*) FROM t LEFT JOIN q ON t.k = q.k JOIN r ON r.id = t.id",
        "SELECT count(*) FROM t FULL JOIN q ON t.k = q.k JOIN r ON r.id = t.id",
        "SELECT count(*) FROM q RIGHT JOIN t ON t.k = q.k JOIN r ON r.id = t.id",
    ] {
        assert_eq!(query(&db, text).await, ["10000"], "{text}");
        let plan = plan(&db, text).await;
        let physical = plan
            .split_once("physical_plan")
            .map_or("", |(_, physical)| physical);
        let outer = physical
            .find("join_type=Left")
            .or(physical.find("join_type=Right"));
        let inner = physical.find("join_type=Inner");
        assert!(outer.is_some() && outer < inner, "{plan}");
    }
}
