//! Star queries: the fused pipeline beside plain DataFusion, and what stays with DataFusion.

use std::path::{Path, PathBuf};

use halocline_engine::Database;
use halocline_workloads::{SsbTable, ssb_queries};

use super::support::{import, lines, new_pool, plain, query, run, write_parquet};

fn files(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    SsbTable::ALL
        .map(|table| {
            let path = folder.join(format!("{}.parquet", table.name()));
            write_parquet(&path, table.reader(0.02, 0, 1).map(Result::unwrap));
            (table.name(), path)
        })
        .to_vec()
}

async fn is_star(db: &Database, text: &str) -> bool {
    let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
    plan.contains("StarJoin: fact=")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_star_schema_benchmark_agrees_with_datafusion() {
    let (dir, db) = new_pool();
    let files = files(dir.path());
    for (name, path) in &files {
        import(&db, name, std::slice::from_ref(path));
    }
    let paths: Vec<(&str, &Path)> = files.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let context = plain(&paths).await;
    let mut answered = 0;
    for ssb in ssb_queries() {
        assert!(is_star(&db, ssb.sql).await, "{}", ssb.name);
        let wanted = lines(&context.sql(ssb.sql).await.unwrap().collect().await.unwrap());
        answered += wanted.len();
        // Ties in what is ordered by may come in any order.
        let sorted = |mut lines: Vec<String>| {
            lines.sort_unstable();
            lines
        };
        assert_eq!(
            sorted(query(&db, ssb.sql).await),
            sorted(wanted.clone()),
            "{}",
            ssb.name
        );
        run(&db, "SET halocline.star_join = off").await;
        assert!(!is_star(&db, ssb.sql).await);
        assert_eq!(sorted(query(&db, ssb.sql).await), sorted(wanted), "{}", ssb.name);
        run(&db, "RESET halocline.star_join").await;
    }
    assert!(answered > 500, "{answered} rows are hardly a test");
}

/// A fact table with NULL keys, keys that no dimension has, and NULL measures; dimensions of several kinds.
async fn small(db: &Database) {
    for text in [
        "CREATE TABLE fact AS SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE CAST(v % 23 AS INT) END AS a, \
         CAST(v * 1000003 % 17 * 100000007 AS BIGINT) AS b, \
         CASE WHEN v % 5 = 0 THEN NULL ELSE CAST(v * 7919 % 2000000000 AS INT) END AS x, \
         CAST(v % 100 AS INT) AS y FROM generate_series(1, 20000) AS s(v)",
        "CREATE TABLE near AS SELECT CAST(v AS INT) AS k, CASE WHEN v % 4 = 0 THEN NULL ELSE 'n' || (v % 3) END AS name, \
         CAST(v % 2 AS INT) AS kind FROM generate_series(3, 40) AS s(v)",
        "CREATE TABLE far AS SELECT CAST(v * 100000007 AS BIGINT) AS k, CAST(v % 5 AS INT) AS kind \
         FROM generate_series(0, 12) AS s(v)",
        "CREATE TABLE twice AS SELECT CAST(v % 10 AS INT) AS k, CAST(v AS INT) AS kind FROM generate_series(0, 15) AS s(v)",
        "CREATE TABLE nulls AS SELECT CASE WHEN v % 3 = 0 THEN NULL ELSE CAST(v AS INT) END AS k, CAST(v AS INT) AS kind \
         FROM generate_series(0, 15) AS s(v)",
    ] {
        run(db, text).await;
    }
}

/// The same with and without; says whether it was planned as a star.
async fn agrees(db: &Database, text: &str) -> bool {
    let star = is_star(db, text).await;
    let mut found = query(db, text).await;
    run(db, "SET halocline.star_join = off").await;
    let mut wanted = query(db, text).await;
    run(db, "RESET halocline.star_join").await;
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{text}");
    star
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_stars_agree_too() {
    let (_dir, db) = new_pool();
    small(&db).await;
    for text in [
        // NULL attributes, NULL keys and measures, all functions, overflow of a product of 32 bits.
        "SELECT name, count(*), count(x), sum(x), min(x), max(x), avg(x), sum(x * x), sum(x - y) FROM fact JOIN near ON a = k GROUP BY name",
        // Nothing is grouped by; keys far apart.
        "SELECT sum(x), count(*), min(y) FROM fact JOIN far ON b = k WHERE kind = 2",
        // Two dimensions, an expression over one, conditions on both sides, in another order.
        "SELECT near.kind + 10, far.kind, sum(y) AS s FROM far, fact, near WHERE b = far.k AND near.k = a AND y BETWEEN 10 AND 60 \
         AND far.kind <> 3 GROUP BY near.kind + 10, far.kind HAVING sum(y) > 100 ORDER BY s",
        // A dimension without rows that match: nothing, and one row of nothing.
        "SELECT name, sum(x) FROM fact JOIN near ON a = k WHERE name = 'none' GROUP BY name",
        "SELECT sum(x), count(*), avg(x) FROM fact JOIN near ON a = k WHERE name = 'none'",
        // One dimension under two names.
        "SELECT n.kind, m.kind, count(*) FROM fact JOIN near n ON a = n.k JOIN near m ON y = m.k GROUP BY n.kind, m.kind",
        // NULL keys of a dimension match nothing.
        "SELECT kind, count(*) FROM fact JOIN nulls ON a = k GROUP BY kind",
        // Keys that come twice: found out when the dimension is read.
        "SELECT kind, count(*), sum(x) FROM fact JOIN twice ON a = k GROUP BY kind",
    ] {
        assert!(agrees(&db, text).await, "no star: {text}");
    }
    for text in [
        "SELECT kind, sum(x) FROM fact LEFT JOIN near ON a = k GROUP BY kind",
        "SELECT kind, count(DISTINCT x) FROM fact JOIN near ON a = k GROUP BY kind",
        "SELECT y, count(*) FROM fact JOIN near ON a = k GROUP BY y",
        "SELECT kind, sum(x) FROM fact JOIN near ON a = k AND y > kind GROUP BY kind",
        "SELECT near.kind, count(*) FROM fact JOIN near ON a = near.k JOIN far ON near.kind = far.kind GROUP BY near.kind",
        "SELECT kind, sum(x) FILTER (WHERE y > 3) FROM fact JOIN near ON a = k GROUP BY kind",
        "SELECT sum(x), sum(y) FROM fact WHERE y > 3",
        "SELECT kind, sum(x) FROM fact JOIN near ON a = k WHERE kind < (SELECT max(kind) FROM far) GROUP BY kind",
        "SELECT kind, sum(x) FROM fact JOIN near ON a = k WHERE y > (SELECT avg(y) FROM fact) GROUP BY kind",
    ] {
        assert!(!agrees(&db, text).await, "a star: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_seen() {
    let (_dir, db) = new_pool();
    small(&db).await;
    let text = "SELECT kind, count(*), sum(x) FROM fact JOIN near ON a = k GROUP BY kind";
    assert!(agrees(&db, text).await);
    // Deleted rows are gone from the segments.
    run(&db, "DELETE FROM fact WHERE y = 7").await;
    assert!(agrees(&db, text).await);
    // Rows in the log are in no segment.
    run(&db, "INSERT INTO fact VALUES (4, 0, 1, 1)").await;
    assert!(!agrees(&db, text).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probes_are_told_with_what_they_left() {
    let (_dir, db) = new_pool();
    small(&db).await;
    let text = "EXPLAIN ANALYZE SELECT sum(x) FROM fact JOIN near ON a = near.k JOIN far ON b = far.k WHERE far.kind = 1";
    let plan = query(&db, text).await.join("\n");
    for part in [
        "StarJoin: fact=fact, on=[",
        "rows_fact=20",
        "passed_1_",
        "passed_2_",
    ] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
}
