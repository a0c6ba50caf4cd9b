//! `halocline.disabled_rules`: rules are left out, needed ones cannot be, and answers stay the same.

use super::support::{new_pool, query, run};

async fn error(db: &halocline_engine::Database, sql: &str) -> String {
    match db.sql(sql).await {
        Ok(_) => panic!("{sql} succeeds"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_left_out_and_put_back() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i, i % 3 AS k FROM generate_series(1, 20) AS s(i)",
    )
    .await;
    let explain = "EXPLAIN SELECT i FROM t WHERE k = 1 AND i > 2 + 3";
    let before = query(&db, explain).await.join("\n");
    assert!(before.contains("full_filters"), "{before}");
    run(
        &db,
        "SET halocline.disabled_rules = 'eliminate_limit, push_down_filter'",
    )
    .await;
    let without = query(&db, explain).await.join("\n");
    assert!(!without.contains("full_filters"), "{without}");
    let count = query(&db, "SELECT count(*) FROM t WHERE k = 1 AND i > 2 + 3").await;
    assert_eq!(count, ["5"]);
    run(&db, "RESET halocline.disabled_rules").await;
    assert_eq!(query(&db, explain).await.join("\n"), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn needed_and_unknown_rules_are_refused() {
    let (_dir, db) = new_pool();
    for rule in ["EnsureRequirements", "simplify_expressions", "push_down_limit"] {
        let text = error(&db, &format!("SET halocline.disabled_rules = '{rule}'")).await;
        assert!(text.contains(&format!("plans need the rule {rule}")), "{text}");
    }
    let text = error(&db, "SET halocline.disabled_rules = 'push_down_filter, x'").await;
    assert!(text.contains("there is no rule x"), "{text}");
    assert!(
        text.contains("can be left out: ") && text.contains("push_down_filter"),
        "{text}"
    );
}
