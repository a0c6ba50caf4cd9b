//! Joins without an equality, sorts and aggregates of long texts that exceed the memory of queries, beside the
//! same with enough of it.

use halocline_engine::Database;

use super::support::{error, new_pool, query, run};

/// Rows of the table with long texts, which take more than the least memory of queries.
const ROWS: usize = 16_000;

async fn tables() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(
        &db,
        &format!(
            "CREATE TABLE long AS SELECT v AS x, repeat('x', 2500) || v AS s FROM generate_series(1, {ROWS}) AS t(v)"
        ),
    )
    .await;
    run(
        &db,
        "CREATE TABLE other AS SELECT v AS x FROM generate_series(1, 140000) AS t(v)",
    )
    .await;
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_a_partner_come_once() {
    let (_dir, db) = tables().await;
    run(&db, "SET datafusion.execution.target_partitions = 2").await;
    // Rows of `other` from both ends of the table, so that each of its partitions has some.
    let few = "(SELECT x FROM other WHERE x * 3 % 700 = 6) AS d";
    let joined = |join: &str| {
        format!(
            "SELECT n, l, d, right(s, 9) FROM (SELECT count(*) AS n, count(l.x) AS l, count(d.x) AS d, max(l.s) AS s \
             FROM {join} ON l.x > d.x + {})",
            ROWS - 50
        )
    };
    let partner = "EXISTS (SELECT 1 FROM other d \
                   WHERE d.x * 3 % 700 = 6 AND l.x > d.x + 9000 AND l.x < d.x * 2 + 9000)";
    let chosen = |condition: String| {
        format!(
            "SELECT n, right(s, 9) FROM (SELECT count(*) AS n, max(s) AS s FROM long l WHERE {condition})"
        )
    };
    let queries = [
        joined(&format!("long l LEFT JOIN {few}")),
        joined(&format!("long l JOIN {few}")),
        joined(&format!("long l RIGHT JOIN {few}")),
        joined(&format!("{few} LEFT JOIN long l")),
        joined(&format!("{few} RIGHT JOIN long l")),
        chosen(partner.to_owned()),
        chosen(format!("NOT {partner}")),
        chosen(format!("l.x % 3 = 0 OR {partner}")),
        "SELECT count(*), max(right(a.s, 9)), min(right(b.s, 9)) \
         FROM long a CROSS JOIN (SELECT s FROM long WHERE x % 4000 = 7) b"
            .to_owned(),
        "SELECT count(*), max(right(a.s, 9)), min(right(b.s, 9)) FROM long a, long b WHERE b.x % 4000 = 7"
            .to_owned(),
    ];
    for text in queries {
        for join_order in ["on", "off"] {
            run(&db, &format!("SET halocline.join_order = {join_order}")).await;
            run(&db, "SET halocline.memory = '4GiB'").await;
            let expected = query(&db, &text).await;
            run(&db, "SET halocline.memory = '32MiB'").await;
            assert_eq!(
                query(&db, &text).await,
                expected,
                "join_order = {join_order}: {text}"
            );
        }
    }
    let failed = error(&db, &joined(&format!("long l FULL JOIN {few}"))).await;
    assert!(failed.contains("give it more (--memory)"), "{failed}");
}

/// Queries over texts of thousands of bytes, of which a batch of the usual number of rows is large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_texts_are_sorted_and_collected_in_little_memory() {
    let (_dir, db) = tables().await;
    run(&db, "SET datafusion.execution.target_partitions = 2").await;
    let hashed = |rows: &str| {
        format!(
            "SELECT count(*), sum(ascii(right(s, 1))), max(n) FROM (SELECT s, row_number() OVER () AS n FROM ({rows}))"
        )
    };
    let queries = [
        hashed("SELECT s FROM long ORDER BY right(s, 3), s"),
        hashed("SELECT s FROM long ORDER BY s LIMIT 12000"),
        hashed("SELECT DISTINCT ON (x % 7000) s FROM long ORDER BY x % 7000, s"),
        hashed("SELECT s FROM long INTERSECT ALL SELECT s FROM long WHERE x % 3 > 0"),
        hashed("SELECT s FROM long EXCEPT ALL SELECT s FROM long WHERE x % 3 > 0"),
        "SELECT count(*), sum(r), max(right(p, 5)) FROM (SELECT row_number() OVER (PARTITION BY x % 5 ORDER BY s) AS r, \
         lag(s) OVER (PARTITION BY x % 5 ORDER BY s) AS p FROM long)"
            .to_owned(),
        "SELECT x % 100 AS g, count(DISTINCT s) FROM long GROUP BY x % 100 ORDER BY g".to_owned(),
        "SELECT g, length(t), right(t, 5) FROM (SELECT x % 100 AS g, string_agg(s, ',' ORDER BY x DESC) AS t \
         FROM long GROUP BY x % 100) ORDER BY g"
            .to_owned(),
        "SELECT count(a), max(g) FROM (SELECT x % 100 AS g, array_agg(s ORDER BY x) AS a FROM long GROUP BY x % 100)"
            .to_owned(),
    ];
    for text in queries {
        run(&db, "SET halocline.memory = '4GiB'").await;
        let expected = query(&db, &text).await;
        run(&db, "SET halocline.memory = '48MiB'").await;
        // The third time, the plan is kept.
        for _ in 0..3 {
            assert_eq!(query(&db, &text).await, expected, "{text}");
        }
    }
}
