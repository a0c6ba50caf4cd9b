//! Joins by strings that compare codes, beside joins by expressions on the strings, which do not.

use halocline_engine::Database;

use super::support::{new_pool, query, run};

/// Tables of several segments with texts: `many` has each text many times, `few` has about ten of each, some
/// of which `many` lacks. Both have NULLs.
async fn tables() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE few (t VARCHAR, u VARCHAR, v BIGINT)").await;
    run(&db, "CREATE TABLE many (t VARCHAR, u VARCHAR, v BIGINT)").await;
    for (table, part, rows, texts) in [
        ("few", 0, 900, 100),
        ("few", 7, 600, 90),
        ("many", 0, 9000, 80),
        ("many", 9, 12000, 95),
    ] {
        run(
            &db,
            &format!(
                "INSERT INTO {table} SELECT CASE WHEN v % 31 = 3 THEN NULL ELSE 'text ' || (v * 7 % {texts} + {part}) END, \
                 CASE WHEN v % 7 = 3 THEN NULL ELSE 'other ' || (v % 11) END, v FROM generate_series(1, {rows}) AS g(v)"
            ),
        )
        .await;
        run(&db, "VACUUM").await;
    }
    run(&db, "SET halocline.star_join = off").await;
    run(&db, "SET halocline.fused_aggregate = off").await;
    (dir, db)
}

/// Queries in which the key of a join is `{a}` and `{b}`.
fn queries(left: &str, right: &str) -> Vec<String> {
    let all = "count(*), sum(a.v), sum(b.v)";
    let mut queries = Vec::new();
    for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for further in [
            "",
            " AND a.u = b.u",
            " AND a.v < b.v",
            " AND a.t < b.u",
            " AND a.v % 5 = b.v % 5",
        ] {
            queries.push(format!(
                "SELECT {all} FROM {left} a {kind} {right} b ON {{a}} = {{b}}{further}"
            ));
            queries.push(format!(
                "SELECT {all}, min(a.t), max(b.t), min(b.u) FROM {left} a {kind} {right} b ON {{a}} = {{b}}{further}"
            ));
        }
    }
    for not in ["", "NOT "] {
        queries.push(format!(
            "SELECT count(*), sum(a.v) FROM {left} a WHERE {not}EXISTS (SELECT 1 FROM {right} b WHERE {{a}} = {{b}} AND a.v <> b.v)"
        ));
        queries.push(format!(
            "SELECT count(*), min(a.t) FROM {left} a WHERE {{a}} {not}IN (SELECT {{b}} FROM {right} b WHERE b.v > 0)"
        ));
    }
    queries.push(format!(
        "SELECT a.v, b.v, a.t FROM {left} a JOIN {right} b ON {{a}} = {{b}} WHERE a.v % 300 = 0 AND b.v % 500 = 0 ORDER BY 1, 2, 3"
    ));
    queries.push(format!(
        "SELECT {all} FROM {left} a JOIN {right} b ON ({{a}} IS NOT DISTINCT FROM {{b}}) AND a.v % 40 = b.v % 40"
    ));
    queries
}

/// Compares answers, and returns the number of queries that compare codes.
async fn compare(db: &Database, left: &str, right: &str) -> usize {
    let mut coded = 0;
    for text in queries(left, right) {
        let plain = text.replace("{a}", "a.t || ''").replace("{b}", "b.t || ''");
        let text = text.replace("{a}", "a.t").replace("{b}", "b.t");
        assert_eq!(query(db, &text).await, query(db, &plain).await, "{text}");
        let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
        coded += usize::from(plan.contains("code of t"));
        let plan = query(db, &format!("EXPLAIN {plain}")).await.join("\n");
        assert!(!plan.contains("code of t"), "{plan}");
    }
    coded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_strings() {
    let (_dir, db) = tables().await;
    let all = queries("few", "many").len();
    for join in ["auto", "force"] {
        run(&db, &format!("SET halocline.spilling_join = {join}")).await;
        for (left, right) in [("few", "many"), ("many", "few"), ("few", "few")] {
            let coded = compare(&db, left, right).await;
            assert!(coded > all / 4, "{left}, {right}: {coded} of {all}");
        }
    }
    run(&db, "DELETE FROM many WHERE v % 3 = 0").await;
    compare(&db, "few", "many").await;
    // Rows that have no codes yet.
    run(&db, "INSERT INTO few VALUES ('text 3', 'other 1', 5000)").await;
    assert_eq!(compare(&db, "few", "many").await, 0);
    run(&db, "DELETE FROM few").await;
    compare(&db, "few", "many").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strings_that_only_the_join_needs_are_not_read() {
    let (_dir, db) = tables().await;
    let text = "EXPLAIN SELECT sum(a.v + b.v) FROM few a JOIN many b ON a.t = b.t";
    let plan = query(&db, text).await.join("\n");
    assert_eq!(plan.matches("columns=[v, code of t]").count(), 2, "{plan}");
    // A dynamic filter on few strings is worth more than codes.
    let text = "EXPLAIN SELECT sum(a.v + b.v) FROM few a JOIN many b ON a.t = b.t WHERE a.v = 7";
    let plan = query(&db, text).await.join("\n");
    assert!(plan.contains("dynamic_filters=[t]"), "{plan}");
}
