//! Late materialization: plans, and the rows of large offsets.

use halocline_engine::Database;

use super::support::{new_pool, query, run};

async fn plan(db: &Database, text: &str) -> String {
    query(db, &format!("EXPLAIN {text}")).await.join("\n")
}

/// 60,000 rows in two segments, some deleted, and some in the log.
async fn table() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    for text in [
        "CREATE TABLE t AS SELECT v AS id, (v * 7919) % 1000 AS x, 'note ' || v AS note, v % 7 AS w \
         FROM generate_series(0, 49999) AS s(v)",
        "INSERT INTO t SELECT v, (v * 7919) % 1000, 'note ' || v, v % 7 FROM generate_series(50000, 59999) AS s(v)",
        "CREATE TABLE u AS SELECT 1 AS one",
        "DELETE FROM t WHERE id % 10 = 4",
        "INSERT INTO t VALUES (60000, 5, 'in the log', 0), (60001, NULL, 'in the log', 1)",
    ] {
        run(&db, text).await;
    }
    (dir, db)
}

/// The rows of a query with and without late materialization, which are the same; returns the plan with it.
async fn same(db: &Database, text: &str) -> String {
    run(db, "SET halocline.late_materialization = off").await;
    let expected = query(db, text).await;
    let without = plan(db, text).await;
    assert!(
        !without.contains("FetchRows") && !without.contains("TopRows"),
        "{without}"
    );
    run(db, "SET halocline.late_materialization = on").await;
    let with = plan(db, text).await;
    assert_eq!(query(db, text).await, expected, "{text}\n{with}");
    with
}

async fn partition(db: &Database, partitions: usize) {
    run(
        db,
        &format!("SET datafusion.execution.target_partitions = {partitions}"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_sorted_columns_are_read() {
    let (_dir, db) = table().await;
    for partitions in [1, 2] {
        partition(&db, partitions).await;
        let with = same(&db, "SELECT * FROM t ORDER BY id DESC LIMIT 5").await;
        assert!(
            with.contains("FetchRows: table=t, columns=[x, note, w]"),
            "{with}"
        );
        assert!(with.contains("columns=[id, row address]"), "{with}");
        same(&db, "SELECT * FROM t ORDER BY id LIMIT 5 OFFSET 100").await;
        let with = same(
            &db,
            "SELECT * FROM t WHERE w = 3 ORDER BY x DESC, id LIMIT 5 OFFSET 3",
        )
        .await;
        assert!(with.contains("columns=[id, x, row address]"), "{with}");
        let with = same(
            &db,
            "SELECT * FROM t WHERE note LIKE '%77' ORDER BY x, id LIMIT 7",
        )
        .await;
        assert!(with.contains("FetchRows"), "{with}");
        let with = same(
            &db,
            "SELECT note, id + 1 AS next FROM t ORDER BY next DESC LIMIT 4",
        )
        .await;
        assert!(with.contains("FetchRows: table=t, columns=[note]"), "{with}");
        same(&db, "SELECT note FROM t ORDER BY x NULLS FIRST, id LIMIT 2").await;
        same(
            &db,
            "SELECT * FROM (SELECT * FROM t ORDER BY id LIMIT 9) ORDER BY note DESC LIMIT 3",
        )
        .await;
        let two =
            "(SELECT * FROM t ORDER BY id LIMIT 3) UNION ALL (SELECT * FROM t ORDER BY id DESC LIMIT 3)";
        same(&db, &format!("SELECT * FROM ({two}) ORDER BY id")).await;
        let joined = "SELECT * FROM (SELECT * FROM t ORDER BY id LIMIT 3) a JOIN t b ON a.x = b.x";
        same(&db, &format!("{joined} ORDER BY b.id LIMIT 20")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_offsets_are_skipped_by_rank() {
    let (_dir, db) = table().await;
    for partitions in [1, 2] {
        partition(&db, partitions).await;
        let with = same(&db, "SELECT * FROM t ORDER BY id DESC LIMIT 5 OFFSET 30000").await;
        assert!(
            with.contains("FetchRows") && with.contains("skip=30000, fetch=5"),
            "{with}"
        );
        same(&db, "SELECT * FROM t ORDER BY x DESC, id LIMIT 5 OFFSET 20000").await;
        same(&db, "SELECT * FROM t ORDER BY note, id LIMIT 5 OFFSET 20000").await;
        same(
            &db,
            "SELECT * FROM t WHERE w < 4 ORDER BY w DESC, note LIMIT 9 OFFSET 17000",
        )
        .await;
        let with = same(&db, "SELECT id FROM t ORDER BY id LIMIT 5 OFFSET 50000").await;
        assert!(with.contains("TopRows") && !with.contains("FetchRows"), "{with}");
        same(&db, "SELECT * FROM t ORDER BY id LIMIT 5 OFFSET 5000000").await;
        same(&db, "SELECT * FROM t ORDER BY id LIMIT 100 OFFSET 53990").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_rows_are_read_at_once() {
    let (_dir, db) = table().await;
    let with = same(&db, "SELECT * FROM t ORDER BY id LIMIT 9000").await;
    assert!(!with.contains("FetchRows"), "{with}");
    let with = same(&db, "SELECT id FROM t ORDER BY id LIMIT 5").await;
    assert!(!with.contains("FetchRows") && !with.contains("TopRows"), "{with}");
    let with = same(&db, "SELECT * FROM t ORDER BY id LIMIT 0").await;
    assert!(!with.contains("FetchRows"), "{with}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_runs_twice_over_changed_rows() {
    let (_dir, db) = table().await;
    let text = "SELECT * FROM t ORDER BY id DESC LIMIT 2";
    assert_eq!(
        query(&db, text).await,
        ["60001|NULL|in the log|1", "60000|5|in the log|0"]
    );
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO t VALUES (70000, 1, 'open', 2)").await;
    run(&db, "DELETE FROM t WHERE id = 60001").await;
    assert_eq!(query(&db, text).await, ["70000|1|open|2", "60000|5|in the log|0"]);
    run(&db, "ROLLBACK").await;
    assert_eq!(
        query(&db, text).await,
        ["60001|NULL|in the log|1", "60000|5|in the log|0"]
    );
    run(&db, "VACUUM FULL t").await;
    assert_eq!(
        query(&db, text).await,
        ["60001|NULL|in the log|1", "60000|5|in the log|0"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_before_a_rank_are_counted_by_zone_maps() {
    let (_dir, db) = new_pool();
    let counted = |plan: &str| -> usize {
        let after = plan.split("skipped_by_zone_maps=").nth(1);
        let digits = after.map(|after| after.split(|c: char| !c.is_ascii_digit()).next().unwrap());
        digits.map_or(0, |digits| digits.parse().unwrap())
    };
    // One thread stores the rows in the order of the series.
    partition(&db, 1).await;
    // Sorted by `id`, roughly by `near`, not at all by `x`; `maybe` has NULL.
    for text in [
        "CREATE TABLE t AS SELECT v AS id, v - (v * 7919) % 3000 AS near, (v * 7919) % 100000 AS x, \
         CASE WHEN v % 1000 = 1 THEN NULL ELSE v END AS maybe, 'note ' || (v + 1000000) AS note, \
         date '2020-01-01' + CAST(v / 100 AS INT) AS day, CAST(v AS DOUBLE) AS float \
         FROM generate_series(0, 199999) AS s(v)",
        "INSERT INTO t SELECT v, v, 7, v, 'more', date '2021-01-01', 0.5 FROM generate_series(200000, 259999) AS s(v)",
        "CREATE TABLE u AS SELECT 1 AS one",
        "DELETE FROM t WHERE id % 10 = 4",
        "INSERT INTO t VALUES (-5, 600, 5, 3, 'a segment', date '2020-05-05', 1), (260001, 260001, 1, NULL, 'a segment', date '2020-05-06', 1)",
        "INSERT INTO t VALUES (-6, 600, 5, 3, 'in the log', NULL, 1), (260002, 260001, 1, NULL, 'in the log', NULL, 1)",
    ] {
        run(&db, text).await;
    }
    for partitions in [1, 2] {
        partition(&db, partitions).await;
        for (order, expected) in [
            ("id", true),
            ("id DESC", true),
            ("near, id", true),
            ("day DESC, id", true),
            ("x, id", false),
            ("maybe, id", false),
            ("note, id", false),
            ("id + 1", false),
        ] {
            for offset in [20_000, 130_000, 233_990] {
                let text = format!("SELECT * FROM t ORDER BY {order} LIMIT 7 OFFSET {offset}");
                let with = same(&db, &text).await;
                let found = counted(&with);
                assert!(found <= offset, "{with}");
                let is_far = offset >= 130_000;
                assert!(found > 0 || !(expected && is_far), "{text}\n{with}");
                // The later segments have few values of `x`.
                assert!(found == 0 || expected || order.starts_with('x'), "{text}\n{with}");
            }
        }
    }
    // Conditions leave rows out, of which zone maps do not say how many.
    let with = same(
        &db,
        "SELECT id FROM t WHERE x < 50000 ORDER BY id LIMIT 7 OFFSET 100000",
    )
    .await;
    assert_eq!(counted(&with), 0, "{with}");
}
