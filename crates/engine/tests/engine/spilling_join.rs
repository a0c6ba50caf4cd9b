//! Joins whose build side exceeds the memory of queries, beside hash joins with enough of it.

use std::sync::Arc;

use futures::StreamExt;
use halocline_engine::{Database, DatabaseOptions};

use super::support::{error, new_pool, query, run};

/// Rows of the build side, which take several times the least memory of queries.
const ROWS: usize = 700_000;

/// Two tables that share some keys. Both have rows whose key is NULL.
async fn tables() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    for (name, factor, rows) in [("build", 7, ROWS), ("probe", 11, ROWS + 50_000)] {
        run(
            &db,
            &format!(
                "CREATE TABLE {name} AS SELECT CASE WHEN v % 1000 = 1 THEN NULL ELSE v * {factor} % 1000003 END AS k, \
                 'text ' || CAST(v * {factor} % 5003 AS VARCHAR) AS s, v % 60 AS j, v \
                 FROM generate_series(1, {rows}) AS t(v)"
            ),
        )
        .await;
    }
    run(&db, "SET halocline.star_join = off").await;
    run(&db, "SET halocline.fused_aggregate = off").await;
    run(&db, "SET halocline.array_join = off").await;
    (dir, db)
}

/// Returns the value of a figure of all joins that spill of EXPLAIN ANALYZE.
fn figure(plan: &str, name: &str) -> u64 {
    let joins = plan.split("SpillingJoin:").skip(1);
    let values = joins.filter_map(|join| {
        let value = join.split_once(&format!("{name}="))?.1;
        let value: String = value
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        value.parse::<f64>().ok()
    });
    values.map(|value| value.ceil() as u64).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_spilled() {
    let (dir, db) = tables().await;
    let queries = [
        "SELECT count(*), sum(b.v), sum(p.v), min(b.s), max(p.s) FROM build b JOIN probe p ON b.k = p.k",
        "SELECT count(*), sum(b.v), sum(p.v), min(b.s) FROM build b LEFT JOIN probe p ON b.k = p.k AND b.j < p.j",
        "SELECT count(*), sum(b.v), sum(p.v), min(b.s) FROM build b FULL JOIN probe p ON b.k = p.k AND b.s = p.s",
        "SELECT count(*), sum(v), min(s) FROM build b WHERE k IN (SELECT k FROM probe)",
        "SELECT count(*), sum(v), min(s) FROM build b WHERE NOT EXISTS (SELECT 1 FROM probe p WHERE p.k = b.k)",
        "SELECT count(*), sum(v) FROM build WHERE k NOT IN (SELECT k FROM probe WHERE k IS NOT NULL)",
        "SELECT count(*), sum(v) FROM build WHERE k NOT IN (SELECT k FROM probe)",
        "SELECT count(*), sum(v) FROM build b WHERE k IN (SELECT k FROM probe) OR j = 3",
        "SELECT count(*) FROM build b JOIN probe p ON (b.k IS NOT DISTINCT FROM p.k) AND (b.v IS NOT DISTINCT FROM p.v)",
        "SELECT count(*), sum(b.v) FROM build b JOIN probe p ON b.k + 1 = p.k - 1 JOIN build c ON c.k = p.v",
    ];
    let mut spilled = 0;
    for text in queries {
        run(&db, "SET halocline.spilling_join = off").await;
        run(&db, "SET halocline.memory = '4GiB'").await;
        let expected = query(&db, text).await;
        run(&db, "SET halocline.spilling_join = auto").await;
        run(&db, "SET halocline.memory = '32MiB'").await;
        assert_eq!(query(&db, text).await, expected, "{text}");
        let plan = query(&db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
        assert!(plan.contains("SpillingJoin"), "{plan}");
        spilled += usize::from(figure(&plan, "spill_file_bytes") > 0);
        let files = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 1, "only the pool has a name");
    }
    assert!(spilled >= 6, "{spilled}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_does_not_spill_fails() {
    let (_dir, db) = tables().await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    let text = "SELECT count(*), min(b.s), max(p.s), sum(b.v), sum(b.j), sum(p.v), sum(p.j) FROM build b JOIN probe p ON b.k = p.k";
    run(&db, "SET halocline.spilling_join = off").await;
    assert!(error(&db, text).await.contains("HashJoinInput"));
    run(&db, "SET halocline.spilling_join = auto").await;
    query(&db, text).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_run_out_of_memory_are_planned_again() {
    let (_dir, db) = tables().await;
    run(&db, "SET halocline.star_join = on").await;
    run(&db, "SET halocline.fused_aggregate = on").await;
    let text = "SELECT count(*), max(s), max(total) FROM (SELECT b.s || CAST(b.v AS VARCHAR) AS s, b.k, sum(p.v) AS total \
                FROM probe p JOIN build b ON p.v = b.v GROUP BY b.s || CAST(b.v AS VARCHAR), b.k)";
    let expected = query(&db, text).await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    run(&db, "SET halocline.spilling_join = off").await;
    let failed = error(&db, text).await;
    assert!(failed.contains("StarJoin"), "{failed}");
    run(&db, "SET halocline.spilling_join = auto").await;
    // The third time, the plan is kept.
    for _ in 0..3 {
        assert_eq!(query(&db, text).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_build_sides_are_hash_joins() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v, v % 7 AS k FROM generate_series(1, 1000) AS t(v)",
    )
    .await;
    run(&db, "SET halocline.star_join = off").await;
    let text = "EXPLAIN SELECT * FROM t a JOIN t b ON a.k = b.v";
    let plan = query(&db, text).await.join("\n");
    assert!(
        plan.contains("HashJoinExec") && !plan.contains("SpillingJoin"),
        "{plan}"
    );
    run(&db, "SET halocline.spilling_join = force").await;
    let plan = query(&db, text).await.join("\n");
    assert!(
        !plan.contains("HashJoinExec") && plan.contains("SpillingJoin"),
        "{plan}"
    );
    run(&db, "RESET halocline.spilling_join").await;
    let plan = query(&db, text).await.join("\n");
    assert!(plan.contains("HashJoinExec"), "{plan}");
    let wrong = error(&db, "SET halocline.spilling_join = maybe").await;
    assert!(wrong.contains("off, auto or force"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_sets_a_dynamic_filter() {
    let (_dir, db) = tables().await;
    run(&db, "SET halocline.spilling_join = force").await;
    let text =
        "SELECT count(*) FROM probe p JOIN (SELECT k FROM build WHERE v BETWEEN 100 AND 120) b ON b.k = p.k";
    let pairs = query(&db, text).await.concat();
    let plan = query(&db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    assert!(
        plan.contains("SpillingJoin") && plan.contains("dynamic_filters"),
        "{plan}"
    );
    // Keys are unique, so that the scan returns a row for each pair.
    let scan = plan.lines().find(|line| line.contains("table=probe")).unwrap();
    assert!(scan.contains(&format!("output_rows={pairs},")), "{pairs}: {scan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_inputs_are_those_of_the_query() {
    let (_dir, db) = tables().await;
    run(&db, "SET halocline.spilling_join = force").await;
    for (build, probe) in [("1 / (v - 5)", "k"), ("v", "1 / (v - 700000)")] {
        let text = format!(
            "SELECT count(*) FROM (SELECT {build} AS k FROM build) b JOIN (SELECT {probe} AS k FROM probe) p ON b.k = p.k"
        );
        let failed = error(&db, &text).await;
        assert!(failed.contains("Divide by zero"), "{failed}");
    }
    let residual = "SELECT count(*) FROM build b JOIN probe p ON b.k = p.k AND 1 / (b.v % 100 - 9) < p.v";
    let failed = error(&db, residual).await;
    assert!(failed.contains("Divide by zero"), "{failed}");
    query(&db, "SELECT count(*) FROM build b JOIN probe p ON b.k = p.k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_gone_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let spill = dir.path().join("spill");
    let options = DatabaseOptions::default()
        .with_memory(Some(32 << 20))
        .with_temp_directory(Some(spill.clone()));
    let db = Database::create(&dir.path().join("p.pool"), &options).unwrap();
    run(&db, "SET halocline.array_join = off").await;
    run(
        &db,
        &format!("CREATE TABLE t AS SELECT v, 'text ' || v AS s FROM generate_series(1, {ROWS}) AS t(v)"),
    )
    .await;
    let text = "SELECT count(*), max(a.s) FROM t a JOIN t b ON a.v = b.v AND a.s <= b.s";
    let failed = error(&db, text).await;
    assert!(
        failed.contains("temporary files in") && failed.contains("spill: "),
        "{failed}"
    );
    let sorted = "SELECT s FROM t ORDER BY s, v DESC OFFSET 690000";
    let failed = error(&db, sorted).await;
    assert!(
        failed.contains("temporary files in") && failed.contains("spill: "),
        "{failed}"
    );
    std::fs::create_dir(&spill).unwrap();
    assert_eq!(query(&db, text).await.len(), 1);
    assert_eq!(query(&db, sorted).await.len(), 10_000);
    assert_eq!(std::fs::read_dir(&spill).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_joins_share_the_memory() {
    let (_dir, db) = tables().await;
    let text = "SELECT count(*), sum(b.v), min(b.s) FROM build b JOIN probe p ON b.k = p.k";
    let expected = query(&db, text).await;
    run(&db, "SET halocline.memory = '48MiB'").await;
    let db = Arc::new(db);
    let running: Vec<_> = (0..4)
        .map(|_| {
            let session = db.session();
            tokio::spawn(async move {
                run(&session, "SET halocline.star_join = off").await;
                run(&session, "SET halocline.fused_aggregate = off").await;
                query(&session, text).await
            })
        })
        .collect();
    for one in running {
        assert_eq!(one.await.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_ends_when_its_rows_are_dropped() {
    let (dir, db) = tables().await;
    run(&db, "SET halocline.memory = '32MiB'").await;
    for text in [
        "SELECT b.s, p.s FROM build b JOIN probe p ON b.k = p.k LIMIT 3",
        "SELECT b.s, p.s FROM build b JOIN probe p ON b.j = p.j LIMIT 100000",
    ] {
        assert!(query(&db, text).await.len() >= 3);
    }
    let rows = db.sql("SELECT b.s, p.s FROM build b JOIN probe p ON b.j = p.j");
    let mut rows = rows.await.unwrap().stream();
    assert!(rows.next().await.unwrap().is_ok());
    drop(rows);
    // All memory is free again: a query that needs most of it has it.
    let sum = "SELECT count(*), min(b.s) FROM build b JOIN probe p ON b.k = p.k";
    let plan = query(&db, &format!("EXPLAIN ANALYZE {sum}")).await.join("\n");
    assert!(plan.contains("SpillingJoin"), "{plan}");
    drop((db, dir));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_is_a_setting_of_the_database() {
    let (_dir, db) = new_pool();
    let other = db.session();
    let before = query(&db, "SHOW halocline.memory").await;
    run(&db, "SET halocline.memory = '1GiB'").await;
    assert!(query(&db, "SHOW halocline.memory").await[0].contains("1GiB"));
    assert!(query(&db.session(), "SHOW halocline.memory").await[0].contains("1GiB"));
    run(&other, "RESET halocline.memory").await;
    assert_eq!(query(&other, "SHOW halocline.memory").await, before);
    for (value, expected) in [
        ("much", "is not a size"),
        ("-1", "is not a size"),
        ("10", "10 is too little to work with; give 32MiB or more"),
    ] {
        let failed = error(&db, &format!("SET halocline.memory = '{value}'")).await;
        assert!(
            failed.contains("halocline.memory") && failed.contains(expected),
            "{failed}"
        );
    }
    let failed = error(&db, "SET datafusion.runtime.temp_directory = '/tmp'").await;
    assert!(failed.contains("when the database is opened"), "{failed}");
}
