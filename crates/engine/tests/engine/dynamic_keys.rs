//! Keys of joins that scans and aggregates test themselves.

use halocline_engine::Database;

use super::dynamic_filters::{analyzed, metric, same};
use super::support::{new_pool, query, run};

/// A table of 300,000 rows whose keys are far apart, and one of every seventh of them, some of which are
/// NULL.
async fn sparse() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    for text in [
        "CREATE TABLE entry AS SELECT v * 7 AS id, (v * 7919) % 20000 AS part, v % 300 AS shop, \
         CASE WHEN v % 11 = 0 THEN NULL ELSE v % 5000 END AS maybe, v % 90 AS amount \
         FROM generate_series(1, 300000) AS s(v)",
        "CREATE TABLE wanted AS SELECT CASE WHEN v % 5 = 0 THEN NULL ELSE v * 49 END AS id, v AS part, \
         v % 13 AS shop, v % 3 AS kind FROM generate_series(1, 20000) AS s(v)",
        "SET halocline.star_join = off",
        // Lists of few keys are predicates of their own.
        "SET datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values = 0",
    ] {
        run(&db, text).await;
    }
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_far_apart_are_looked_up_in_a_set() {
    let (_dir, db) = sparse().await;
    for (threshold, mode) in [(0, "Partitioned"), (1 << 20, "CollectLeft")] {
        for setting in ["threshold", "threshold_rows"] {
            let setting = format!("hash_join_single_partition_{setting} = {threshold}");
            run(&db, &format!("SET datafusion.optimizer.{setting}")).await;
        }
        let text = "SELECT entry.id, amount FROM wanted JOIN entry ON entry.id = wanted.id WHERE kind < 2";
        let plan = same(&db, text).await;
        assert!(
            plan.contains(mode) && plan.contains("JoinKeys: columns=[id]"),
            "{plan}"
        );
        let joined = query(&db, text).await.len();
        let read = query(&db, "SELECT id FROM wanted WHERE kind < 2").await.len();
        assert!(joined > 8000);
        assert_eq!(metric(&plan, "rows_matched"), joined + read, "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_column_of_a_key_is_tested() {
    let (_dir, db) = sparse().await;
    let text = "SELECT entry.id, wanted.id FROM wanted JOIN entry ON entry.part = wanted.part AND \
                entry.shop = wanted.shop WHERE kind = 1 AND wanted.part < 2000";
    let plan = same(&db, text).await;
    assert!(plan.contains("JoinKeys: columns=[part, shop]"), "{plan}");
    assert!(metric(&plan, "rows_skipped_dynamically") > 290_000, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_keys_match_only_where_they_are_asked_to() {
    let (_dir, db) = sparse().await;
    for text in [
        "SELECT l.id, r.part FROM (SELECT id AS part, shop FROM wanted WHERE part < 3000) r \
         JOIN entry l ON l.maybe IS NOT DISTINCT FROM r.part WHERE l.amount = 3",
        "SELECT l.id, r.part FROM (SELECT id AS part, shop FROM wanted WHERE part < 3000) r \
         JOIN entry l ON l.maybe = r.part",
        "SELECT l.id FROM entry l WHERE l.maybe NOT IN (SELECT part FROM wanted WHERE kind = 1) AND l.amount = 3",
        "SELECT l.id FROM entry l WHERE l.maybe IN (SELECT id FROM wanted WHERE kind = 1)",
    ] {
        same(&db, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_aggregated_for_the_keys_that_a_join_has() {
    let (_dir, db) = sparse().await;
    run(&db, "SET halocline.star_join = on").await;
    run(
        &db,
        "CREATE TABLE shop AS SELECT v AS shop, v % 5 AS region FROM generate_series(0, 299) AS s(v)",
    )
    .await;
    let fused = "SELECT w.id, t.total FROM wanted w JOIN (SELECT part, shop, sum(amount) AS total FROM entry \
                 GROUP BY part, shop) t ON t.part = w.part AND t.shop = w.shop WHERE kind = 1 AND w.part < 500";
    let star = "SELECT w.id, t.total FROM wanted w JOIN (SELECT part, sum(amount) AS total FROM entry, shop \
                WHERE entry.shop = shop.shop AND region = 2 GROUP BY part) t ON t.part = w.part \
                WHERE kind = 1 AND w.part < 500";
    for (text, node) in [(fused, "FusedAggregate"), (star, "StarJoin")] {
        let plan = same(&db, text).await;
        let line = plan
            .lines()
            .find(|line| line.contains(node))
            .unwrap_or_else(|| panic!("{plan}"));
        assert!(line.contains("dynamic_filters=[part"), "{plan}");
        assert!(line.contains("passed_1_dynamic filter="), "{plan}");
    }
    // With deleted rows, and rows in the log, which have no columns for it.
    run(&db, "DELETE FROM entry WHERE amount = 7").await;
    let plan = same(&db, fused).await;
    assert!(plan.contains("passed_1_dynamic filter="), "{plan}");
    for _ in 0..2 {
        run(
            &db,
            "INSERT INTO entry VALUES (1, 4, 4, NULL, 1000), (2, 4, 299, 1, 2000)",
        )
        .await;
    }
    for text in [fused, star] {
        same(&db, text).await;
    }
    let plan = analyzed(&db, fused).await;
    assert!(
        plan.contains("rows_in_log") && !plan.contains("passed_1_dynamic filter="),
        "{plan}"
    );
}
