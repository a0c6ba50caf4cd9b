//! `ORDER BY` with a limit or offset of more rows than fit the memory.

use super::support::{new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_that_do_not_fit_are_sorted_with_all() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS k, 'a text of some length, number ' || (value * 7919) % 300007 AS s \
         FROM generate_series(1, 300000) AS g(value)",
    )
    .await;
    let text = "SELECT k, s FROM t ORDER BY s, k LIMIT 3 OFFSET 270000";
    let expected = query(&db, text).await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    assert_eq!(query(&db, text).await, expected);
    let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
    assert!(!plan.contains("TopK"), "{plan}");
    // With descending order, and as a subquery.
    let text = "SELECT count(*), min(s), max(s) FROM (SELECT s FROM t ORDER BY s DESC LIMIT 200000)";
    let limited = query(&db, text).await;
    run(&db, "RESET halocline.memory").await;
    assert_eq!(query(&db, text).await, limited);
    run(&db, "SET halocline.memory = '32MiB'").await;
    let few = query(&db, "EXPLAIN SELECT k, s FROM t ORDER BY s, k LIMIT 10")
        .await
        .join("\n");
    assert!(few.contains("TopK"), "{few}");
}
