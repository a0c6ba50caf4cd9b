//! Common table expressions whose rows may differ from one evaluation to the next are evaluated once.

use super::support::{new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_to_one_expression_see_the_same_rows() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS id, value % 10 AS g FROM generate_series(1, 20000)",
    )
    .await;
    for text in [
        "WITH c AS (SELECT id, random() AS r FROM t) SELECT count(*) FROM c a JOIN c b USING (id) WHERE a.r <> b.r",
        "WITH c AS (SELECT random() AS r) SELECT count(*) FROM c WHERE r <> (SELECT r FROM c)",
        "WITH c AS (SELECT uuid() AS r FROM t WHERE id < 100) SELECT count(*) FROM c WHERE r NOT IN (SELECT r FROM c)",
        "WITH c AS (SELECT id FROM t LIMIT 10) SELECT count(*) FROM (SELECT * FROM c EXCEPT SELECT * FROM c) z",
        "WITH c AS (SELECT id, row_number() OVER () AS n FROM t) \
         SELECT count(*) FROM c a JOIN c b ON a.id = b.id WHERE a.n <> b.n",
        "WITH c AS (SELECT id, random() AS r FROM t), d AS (SELECT id, r * 2 AS s FROM c) \
         SELECT count(*) FROM c JOIN d USING (id) WHERE c.r * 2 <> d.s",
        "WITH c AS (SELECT id, random() AS r FROM t), d AS (SELECT id, r FROM c) \
         SELECT count(*) FROM d a JOIN d b USING (id) WHERE a.r <> b.r",
        "WITH RECURSIVE c AS (SELECT 1 AS n, random() AS r UNION ALL SELECT n + 1, random() FROM c WHERE n < 9) \
         SELECT count(*) FROM c a JOIN c b USING (n) WHERE a.r <> b.r",
        "WITH c(x, y) AS (SELECT id, random() FROM t) SELECT count(*) FROM c a JOIN c b USING (x) WHERE a.y <> b.y",
        "SELECT count(*) FROM (WITH c AS (SELECT id, random() AS r FROM t) \
         SELECT a.r AS p, b.r AS q FROM c a JOIN c b USING (id)) z WHERE p <> q",
        "WITH c AS (SELECT g, sum(id / 7.0::DOUBLE) AS s FROM t GROUP BY g) \
         SELECT count(*) - 1 FROM c WHERE s = (SELECT max(s) FROM c)",
    ] {
        assert_eq!(query(&db, text).await, ["0"], "{text}");
    }
    // Two expressions are evaluated each for itself.
    let rows = query(
        &db,
        "WITH c AS (SELECT id, random() AS r FROM t), d AS (SELECT id, random() AS r FROM t) \
         SELECT count(*) > 19000 FROM c JOIN d USING (id) WHERE c.r <> d.r",
    )
    .await;
    assert_eq!(rows, ["true"]);
    // Each execution evaluates it anew.
    let text = "WITH c AS (SELECT random() AS r) SELECT a.r FROM c a, c b";
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.extend(query(&db, text).await);
    }
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_do_not_fit_into_memory_are_in_a_file() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS id FROM generate_series(1, 400000)",
    )
    .await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    let text = "WITH c AS (SELECT id, random() AS r, repeat('x', 60) AS s FROM t) \
                SELECT count(*), sum(CAST(r < 2 AS INT)), max(length(s)) \
                FROM (SELECT * FROM c UNION ALL SELECT * FROM c) z";
    assert_eq!(query(&db, text).await, ["800000|800000|60"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_shows_what_is_evaluated_once() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS id FROM generate_series(1, 100)",
    )
    .await;
    let plan = |text: &str| {
        let text = format!("EXPLAIN {text}");
        let db = &db;
        async move { query(db, &text).await.join("\n") }
    };
    let shown = plan("WITH c AS (SELECT random() AS r FROM t) SELECT a.r FROM c a, c b").await;
    assert!(shown.contains("Materialized: query=1"), "{shown}");
    let shown = plan("WITH c AS (SELECT id FROM t) SELECT a.id FROM c a, c b").await;
    assert!(!shown.contains("Materialized"), "{shown}");
    let shown = plan("WITH c AS (SELECT sum(id) AS s FROM t) SELECT a.s FROM c a, c b").await;
    assert!(!shown.contains("Materialized"), "{shown}");
}
