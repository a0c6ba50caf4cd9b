//! Statements whose trees are deep: those of a reasonable size are answered on threads with stacks of the
//! usual size, and larger ones are refused with an error.

use std::fmt::Write;

use halocline_engine::{Database, EngineError};

use super::support::{error, new_pool, query, run};

/// `term(0) separator term(1) …`.
fn chain(terms: usize, separator: &str, term: impl Fn(usize) -> String) -> String {
    (0..terms).map(term).collect::<Vec<_>>().join(separator)
}

async fn table(db: &Database) {
    run(db, "CREATE TABLE t (a bigint, b bigint, s varchar)").await;
    run(
        db,
        "INSERT INTO t SELECT i, i % 7, 'x' FROM generate_series(0, 1999) AS g(i)",
    )
    .await;
    // A row of the log, whose conditions are evaluated as expressions.
    run(db, "INSERT INTO t VALUES (2000, 5, 'x')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_chains_are_answered() {
    let (_dir, db) = new_pool();
    table(&db).await;
    let pairs = chain(5000, " OR ", |n| format!("(a = {n} AND b = {})", n % 7));
    let all = chain(800, " AND ", |n| format!("a + b <> {}", n + 5000));
    for (text, answer) in [
        (format!("SELECT count(*) FROM t WHERE {pairs}"), "2001"),
        (format!("SELECT count(*) FROM t WHERE {all}"), "2001"),
        (
            format!(
                "SELECT count(*) FROM t WHERE a = 1 AND {} = 250",
                chain(250, " + ", |_| "a".into())
            ),
            "1",
        ),
        (
            format!(
                "SELECT max(length({})) FROM t",
                chain(720, " || ", |_| "s".into())
            ),
            "720",
        ),
        (
            format!("SELECT max(a{}) FROM t", "::int::bigint".repeat(400)),
            "2000",
        ),
        (
            format!(
                "SELECT count(*) FROM t WHERE a IN ({})",
                chain(20_000, ", ", |n| n.to_string())
            ),
            "2001",
        ),
        (
            format!(
                "SELECT count(*) FROM ({}) u",
                chain(430, " UNION ALL ", |n| format!("SELECT a FROM t WHERE a = {n}"))
            ),
            "430",
        ),
    ] {
        assert_eq!(query(&db, &text).await, [answer], "{}", &text[..100]);
    }
    let plan = query(&db, &format!("EXPLAIN SELECT a FROM t WHERE {pairs}")).await;
    assert!(!plan.is_empty());
    assert_eq!(
        run(&db, &format!("UPDATE t SET b = b WHERE {pairs}")).await,
        "updated 2001 rows"
    );
    assert_eq!(
        run(&db, &format!("DELETE FROM t WHERE {pairs}")).await,
        "deleted 2001 rows"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_deep_is_an_error() {
    let (_dir, db) = new_pool();
    table(&db).await;
    let mut deep_type = "SELECT a::int".to_owned();
    for _ in 0..50_000 {
        write!(deep_type, "[]").unwrap();
    }
    for text in [
        format!("SELECT {}", chain(5000, " + ", |_| "1".into())),
        format!("SELECT {}", chain(1_000_000, "+", |_| "1".into())),
        format!("SELECT a{} FROM t", "::int".repeat(5000)),
        format!("SELECT a{} FROM t", " IS NULL".repeat(100_000)),
        format!("UPDATE t SET a = {}", chain(5000, " + ", |_| "a".into())),
        format!(
            "INSERT INTO t VALUES ({}, 1, 'x')",
            chain(5000, " + ", |_| "1".into())
        ),
        chain(10_000, " UNION ALL ", |_| "SELECT 1".into()),
        format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500)),
        deep_type,
    ] {
        match db.sql(&text).await {
            Err(EngineError::TooDeep { .. }) => {}
            Err(other) => panic!("{}: {other}", &text[..60]),
            Ok(_) => panic!("{} was answered", &text[..60]),
        }
    }
    let text = error(&db, &format!("SELECT {}", chain(5000, " + ", |_| "1".into()))).await;
    assert!(text.contains("more than 2000 levels; write"), "{text}");
    assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["2001"]);
}
