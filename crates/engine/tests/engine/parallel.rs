//! Selections of one segment by all threads of the session, or by one.

use halocline_engine::Database;

use super::support::{new_pool, query, run};

/// Selections that the threads of the session looked for together, of the one scan in the plan.
async fn together(db: &Database, text: &str) -> usize {
    let plan = query(db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    let (_, after) = plan
        .split_once("parallel_selections=")
        .unwrap_or_else(|| panic!("{plan}"));
    let digits = after.split(|c: char| !c.is_ascii_digit()).next();
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("{plan}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_selection_is_shared_by_as_many_threads_as_the_session_has() {
    let (_dir, db) = new_pool();
    for text in [
        "CREATE TABLE t AS SELECT v % 10 AS a, (v * 7919) % 101 AS b, (v * 104729 / 7) % 103 AS c, \
         (v * 1299709 / 11) % 107 AS d, v AS e FROM generate_series(1, 60000) AS s(v)",
        "CREATE INDEX i ON t USING elf (a, b, c, d) WITH (order = 'given')",
        "SET halocline.index = force",
    ] {
        run(&db, text).await;
    }
    let few_below_many = "SELECT count(*), sum(e) FROM t WHERE d = 17";
    let many = "SELECT count(*), sum(e) FROM t WHERE b BETWEEN 3 AND 80 AND d < 90";
    let counted = "SELECT count(*) FROM t WHERE d = 17";
    let point = "SELECT count(*), sum(e) FROM t WHERE a = 3 AND b = 5 AND c = 7";
    let mut answers = Vec::new();
    for threads in [1, 2, 3, 8] {
        run(
            &db,
            &format!("SET datafusion.execution.target_partitions = {threads}"),
        )
        .await;
        let mut rows = Vec::new();
        for text in [few_below_many, many, counted, point] {
            rows.extend(query(&db, text).await);
        }
        answers.push(rows);
        let shared = usize::from(threads > 1);
        assert_eq!(together(&db, few_below_many).await, shared, "{threads} threads");
        assert_eq!(together(&db, counted).await, shared, "{threads} threads, counted");
        assert_eq!(together(&db, point).await, 0, "{threads} threads, a point");
        if threads == 1 {
            assert_eq!(together(&db, many).await, 0);
        }
    }
    assert!(answers.iter().all(|rows| *rows == answers[0]), "{answers:?}");
    run(&db, "SET halocline.index = off").await;
    let mut scanned = Vec::new();
    for text in [few_below_many, many, counted, point] {
        scanned.extend(query(&db, text).await);
    }
    assert_eq!(answers[0], scanned);
}
