//! Aggregates over one table: the fused pipeline beside DataFusion's plan, and what stays with DataFusion.

use halocline_engine::Database;
use halocline_workloads::{TpchTable, tpch_queries};

use super::support::{error, import, lines, new_pool, outcome, query, run, write_parquet};

/// A table with columns of all kinds, most of them with NULLs.
pub(super) async fn small(db: &Database) {
    run(
        db,
        "CREATE TABLE t AS SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE CAST(v % 23 - 7 AS INT) END AS i, \
         CAST(v * 1000003 % 17 * 100000000007 AS BIGINT) AS b, CAST(v / 3 AS BIGINT) AS k, \
         CASE WHEN v % 4 = 0 THEN NULL ELSE 'n' || (v % 3) END AS s, 'name ' || (v * 7919 % 999) AS u, \
         CASE WHEN v % 9 = 0 THEN NULL ELSE CAST(v % 31 AS DECIMAL(12, 2)) / 4 END AS wide, \
         CAST(CAST(v % 700 AS DECIMAL(12, 2)) / 4 AS DECIMAL(12, 2)) AS d, \
         CASE WHEN v % 13 = 0 THEN NULL ELSE CAST('1994-01-01' AS DATE) + CAST(v % 60 AS INT) END AS day, \
         CASE WHEN v % 7 = 0 THEN NULL ELSE v % 2 = 0 END AS flag, v * 0.5e0 AS f, \
         CASE WHEN v % 5 = 0 THEN NULL ELSE CAST(v * 7919 % 2000000000 AS INT) END AS x, \
         to_timestamp(v % 50 * 86400) AS at, CAST(v % 100 AS INT) AS y FROM generate_series(1, 20000) AS s(v)",
    )
    .await;
}

pub(super) async fn is_fused(db: &Database, text: &str) -> bool {
    let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
    plan.contains("FusedAggregate: table=")
}

/// The same with and without; says whether it was fused.
pub(super) async fn agrees(db: &Database, text: &str) -> bool {
    let fused = is_fused(db, text).await;
    let found = outcome(db, text).await;
    run(db, "SET halocline.fused_aggregate = off").await;
    assert!(!is_fused(db, text).await, "{text}");
    let wanted = outcome(db, text).await;
    run(db, "RESET halocline.fused_aggregate").await;
    assert_eq!(found, wanted, "{text}");
    fused
}

const FUSED: [&str; 38] = [
    // Without groups, with and without rows that match.
    "SELECT sum(x), count(*), count(x), min(y), max(x), avg(x), sum(d), avg(d), min(day), max(at) FROM t",
    "SELECT sum(x), count(*), count(x), min(y), avg(d) FROM t WHERE y < 0",
    "SELECT sum(d), sum(CAST(x AS BIGINT) * y), sum(d * (1 - wide)) FROM t WHERE day <= '1994-02-11'",
    "SELECT count(*) FROM t WHERE s = 'n1' AND y > 50",
    // Columns of each type, and NULL groups.
    "SELECT i, sum(x), count(*), count(x), min(x), max(x), avg(x) FROM t GROUP BY i",
    "SELECT b, count(*), sum(y) FROM t GROUP BY b",
    "SELECT k, sum(y), min(wide) FROM t GROUP BY k",
    "SELECT s, sum(d), avg(d), min(d), max(d) FROM t GROUP BY s",
    "SELECT u, sum(x), count(s), count(f), count(flag) FROM t GROUP BY u",
    "SELECT d, count(*) FROM t GROUP BY d",
    "SELECT wide, count(*) FROM t GROUP BY wide",
    "SELECT day, max(at), min(at) FROM t GROUP BY day",
    "SELECT flag, sum(y) FROM t GROUP BY flag",
    "SELECT at, sum(y) FROM t GROUP BY at",
    // Expressions over a column, also ones that fail for a value that no row has, or one.
    "SELECT y % 7, count(*), sum(x) FROM t GROUP BY y % 7",
    "SELECT i % 7, count(*) FROM t WHERE f > 3 GROUP BY i % 7",
    "SELECT substr(u, 6, 1) AS c, date_trunc('month', day) AS m, sum(d) FROM t GROUP BY c, m",
    "SELECT CASE WHEN i IS NULL THEN 'none' WHEN i < 0 THEN 'less' ELSE 'more' END AS c, s, avg(x) FROM t GROUP BY 1, 2",
    "SELECT 1000 / (d * 4 + 1), count(*) FROM t GROUP BY 1000 / (d * 4 + 1)",
    // Several columns: few groups, an array of them, and hashed ones.
    "SELECT s, flag, sum(x), sum(y), avg(y) FROM t GROUP BY s, flag",
    "SELECT y, i, s, sum(x) FROM t GROUP BY y, i, s",
    "SELECT b, k, u, sum(x), max(day) FROM t GROUP BY b, k, u",
    "SELECT u, b, count(*) FROM t WHERE i > 3 GROUP BY u, b",
    // Conditions that leave most rows, few, or none.
    "SELECT s, sum(x) FROM t WHERE y < 99 GROUP BY s",
    "SELECT s, sum(x) FROM t WHERE y = 99 AND i = 2 GROUP BY s",
    "SELECT s, sum(x) FROM t WHERE y = 1000 GROUP BY s",
    "SELECT s, count(*) FROM t WHERE i IS NULL AND u LIKE 'name 1%' GROUP BY s",
    // Columns of the output in any order, expressions over aggregates, and what is above.
    "SELECT sum(y) + 1, s FROM t GROUP BY s HAVING count(*) > 10 ORDER BY s DESC LIMIT 3",
    "SELECT max(n) FROM (SELECT u, count(*) AS n FROM t GROUP BY u)",
    "SELECT DISTINCT s, flag FROM t",
    "SELECT count(DISTINCT u) FROM t",
    "SELECT s, count(DISTINCT i) FROM t GROUP BY s",
    // Conditions of single aggregates.
    "SELECT s, sum(x) FILTER (WHERE y > 50), count(*) FILTER (WHERE i IS NULL), sum(x), count(s) FILTER (WHERE y < 9) FROM t GROUP BY s",
    "SELECT sum(y) FILTER (WHERE s = 'n1'), max(d) FILTER (WHERE day > '1994-01-20' AND y < 80) FROM t",
    // Sums that overflow 32 and 64 bits, and ones that do not.
    "SELECT s, sum(x * y) FROM t GROUP BY s",
    "SELECT s, sum(b * y), sum(x - y) FROM t GROUP BY s",
    // Floats.
    "SELECT s, sum(f), avg(f), max(f) FROM t GROUP BY s",
    "SELECT y, i, min(f), sum(x) FROM t GROUP BY y, i",
];

const NOT_FUSED: [&str; 12] = [
    // An overflow of rows that a FILTER excludes is none.
    "SELECT sum(x * y) FILTER (WHERE y = 0) FROM t WHERE x > 5",
    // Statistics have the answer.
    "SELECT count(*) FROM t",
    "SELECT min(y), max(y) FROM t",
    "SELECT f, count(*) FROM t GROUP BY f",
    "SELECT s, min(u) FROM t GROUP BY s",
    "SELECT y % 7 + i, count(*) FROM t GROUP BY y % 7 + i",
    "SELECT s, sum(y) FROM t WHERE x % 3 = 1 GROUP BY s",
    "SELECT s, sum(y) FILTER (WHERE x % 3 = 1) FROM t GROUP BY s",
    "SELECT s, flag, sum(y) FROM t GROUP BY GROUPING SETS ((s), (flag), ())",
    "SELECT s, median(y) FROM t GROUP BY s",
    "SELECT s, sum(y / 2) FROM t GROUP BY s",
    "SELECT s, array_agg(y ORDER BY y) FROM t WHERE y < 5 AND i = 3 GROUP BY s",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_agree() {
    let (_dir, db) = new_pool();
    small(&db).await;
    for text in FUSED {
        assert!(agrees(&db, text).await, "not fused: {text}");
    }
    for text in NOT_FUSED {
        assert!(!agrees(&db, text).await, "fused: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_seen() {
    let (_dir, db) = new_pool();
    small(&db).await;
    for change in [
        "DELETE FROM t WHERE y = 7",
        // Rows of the log: values that no segment has, NULL in columns without any.
        "INSERT INTO t (i, b, k, s, u, d, day, flag, x, y) VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
         (1000, -5, 7, 'new', 'name 3', 12.25, '2020-02-29', true, -1, 3), (3, 0, -99999, 'n1', 'other', -4.00, '1900-01-01', NULL, 1, 51)",
        "UPDATE t SET x = x + 1, s = 'n2' WHERE y = 3 AND i = 4",
        "DELETE FROM t WHERE i = 1000 OR y = 60",
        "VACUUM FULL t",
        // A second segment, whose dictionaries have other strings.
        "INSERT INTO t SELECT i + 1, b, k * 1000, 'more ' || (y % 5), u, wide, d + 0.01, day + 40, flag, f, x, at, y FROM t WHERE y < 20",
        "VACUUM t",
        "INSERT INTO t (i, s, y) VALUES (5, 'last', 1), (NULL, 'n0', 2)",
    ] {
        run(&db, change).await;
        for text in FUSED {
            assert!(agrees(&db, text).await, "not fused after {change}: {text}");
        }
    }
    run(&db, "DELETE FROM t").await;
    for text in FUSED {
        agrees(&db, text).await;
    }
    run(&db, "CREATE TABLE new (s TEXT, x INT)").await;
    let texts = [
        "SELECT sum(x), count(*) FROM new",
        "SELECT s, sum(x), count(*) FROM new GROUP BY s",
    ];
    for text in texts {
        assert!(agrees(&db, text).await, "{text}");
    }
    run(&db, "BEGIN").await;
    run(&db, "INSERT INTO new VALUES ('a', 1), ('b', 2), ('a', NULL)").await;
    for text in texts {
        assert!(agrees(&db, text).await, "{text}");
    }
    run(&db, "ROLLBACK").await;
    for text in texts {
        assert!(agrees(&db, text).await, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overflow_is_an_error() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE large AS SELECT v % 3 AS g, 9223372036854775807 - v AS x, CAST(2147483647 - v AS INT) AS n \
         FROM generate_series(0, 9) AS s(v)",
    )
    .await;
    for (text, fails) in [
        ("SELECT sum(x) FROM large", true),
        ("SELECT g, sum(x) FROM large GROUP BY g", true),
        ("SELECT sum(n * n) FROM large", true),
        ("SELECT sum(n) FROM large", false),
        (
            "SELECT sum(x) FROM large WHERE g = 1 AND x > 9223372036854775805",
            false,
        ),
        ("SELECT g, avg(n), max(x), min(x) FROM large GROUP BY g", false),
        ("SELECT sum(CAST(x AS DECIMAL(20, 0))) FROM large", false),
    ] {
        assert_eq!(outcome(&db, text).await.is_err(), fails, "{text}");
        agrees(&db, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_come_in_batches_and_within_the_memory() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE many AS SELECT v * 7919 % 300000 AS k, v * 1000003 % 300000 * 1000000007 AS far, v % 10 AS x \
         FROM generate_series(1, 400000) AS s(v)",
    )
    .await;
    let texts = [
        "SELECT k, sum(x), count(*) FROM many GROUP BY k",
        "SELECT far, sum(x), max(x) FROM many GROUP BY far",
    ];
    for text in texts {
        assert!(agrees(&db, text).await, "{text}");
        let batches = db.sql(text).await.unwrap().collect().await.unwrap();
        assert!(batches.iter().all(|batch| batch.num_rows() <= 8192), "{text}");
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, 300_000, "{text}");
    }
    let plan = query(&db, &format!("EXPLAIN ANALYZE {}", texts[0]))
        .await
        .join("\n");
    for part in [
        "FusedAggregate: table=many, no_index=[no conditions], groups=[k]",
        "dram_peak=",
        "rows_fact=",
    ] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    // The groups do not fit; DataFusion's aggregate runs, which spills as far as it can.
    run(&db, "SET datafusion.runtime.memory_limit = '6M'").await;
    for text in texts {
        let text = format!("SELECT count(*), sum(n) FROM ({text}) AS q(k, n, c)");
        assert!(is_fused(&db, &text).await);
        match db.sql(&text).await.unwrap().collect().await {
            Ok(rows) => assert_eq!(lines(&rows), ["300000|1800000"], "{text}"),
            Err(error) => assert!(error.to_string().contains("HashAggregateStream"), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_preferred_where_it_is_cheaper() {
    let (_dir, db) = new_pool();
    small(&db).await;
    run(&db, "CREATE INDEX by_k ON t (k, y)").await;
    let text = "SELECT sum(x) FROM t WHERE k = 77 AND y < 60";
    assert!(agrees(&db, text).await, "a scan of few rows takes no time");
    run(
        &db,
        "CREATE OR REPLACE TABLE t AS SELECT CAST(v * 7919 % 500000 AS INT) AS k, CAST(v % 100 AS INT) AS y, \
         CAST(v % 9 AS INT) AS x FROM generate_series(1, 2000000) AS s(v)",
    )
    .await;
    assert!(!agrees(&db, text).await);
    run(&db, "SET halocline.index = off").await;
    assert!(agrees(&db, text).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_switch_is_on_or_off() {
    let (_dir, db) = new_pool();
    let text = error(&db, "SET halocline.fused_aggregate = maybe").await;
    assert!(
        text.contains("halocline.fused_aggregate is on or off, not 'maybe'"),
        "{text}"
    );
    let text = error(&db, "SET halocline.star_join = maybe").await;
    assert!(
        text.contains("halocline.star_join is on or off, not 'maybe'"),
        "{text}"
    );
    assert_eq!(
        query(&db, "SHOW halocline.fused_aggregate").await,
        ["halocline.fused_aggregate|on"]
    );
}

/// The group-by questions of the db-benchmark.
const GROUP_BY: [(&str, bool); 10] = [
    ("SELECT id1, sum(v1) AS v1 FROM x GROUP BY id1", true),
    ("SELECT id1, id2, sum(v1) AS v1 FROM x GROUP BY id1, id2", true),
    (
        "SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM x GROUP BY id3",
        true,
    ),
    (
        "SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM x GROUP BY id4",
        true,
    ),
    (
        "SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM x GROUP BY id6",
        true,
    ),
    (
        "SELECT id4, id5, median(v3) AS median_v3, stddev(v3) AS sd_v3 FROM x GROUP BY id4, id5",
        false,
    ),
    (
        "SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM x GROUP BY id3",
        true,
    ),
    (
        "SELECT id6, largest2_v3 FROM (SELECT id6, v3 AS largest2_v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS order_v3 \
         FROM x WHERE v3 IS NOT NULL) WHERE order_v3 <= 2",
        false,
    ),
    (
        "SELECT id2, id4, power(corr(v1, v2), 2) AS r2 FROM x GROUP BY id2, id4",
        true,
    ),
    (
        "SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS count FROM x GROUP BY id1, id2, id3, id4, id5, id6",
        true,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn these_group_by_questions_are_fused() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE x AS SELECT 'id' || lpad(CAST(v * 7919 % 100 + 1 AS VARCHAR), 3, '0') AS id1, \
         'id' || lpad(CAST(v * 104729 % 100 + 1 AS VARCHAR), 3, '0') AS id2, \
         'id' || lpad(CAST(v * 15485863 % 1000 + 1 AS VARCHAR), 10, '0') AS id3, \
         CAST(v * 31 % 100 + 1 AS INT) AS id4, CAST(v * 17 % 100 + 1 AS INT) AS id5, CAST(v * 13 % 1000 + 1 AS INT) AS id6, \
         CAST(v / 100 % 5 + 1 AS INT) AS v1, CAST(v / 700 % 15 + 1 AS INT) AS v2, v * 7919 % 100000000 / 1e6 AS v3 \
         FROM generate_series(1, 100000) AS s(v)",
    )
    .await;
    for (text, fused) in GROUP_BY {
        assert_eq!(agrees(&db, text).await, fused, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_of_more_than_64_bits_in_the_log_are_groups_of_their_own() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE w AS SELECT v::decimal(38, 0) AS d FROM generate_series(1, 5) AS s(v)",
    )
    .await;
    run(
        &db,
        "INSERT INTO w VALUES (-30000000000000000000000000000), (3), (18446744073709551619)",
    )
    .await;
    for text in [
        "SELECT d, count(*) FROM w GROUP BY d",
        "SELECT d, count(d) FROM w WHERE d > -30000000000000000000000000001 GROUP BY d",
        "SELECT count(d), min(d), max(d), sum(d) FROM w",
    ] {
        agrees(&db, text).await;
    }
    let groups = query(&db, "SELECT d, count(*) FROM w GROUP BY d ORDER BY d").await;
    assert_eq!(groups.first().unwrap(), "-30000000000000000000000000000|1");
    assert_eq!(groups.last().unwrap(), "18446744073709551619|1");
    assert!(groups.contains(&"3|2".to_string()), "{groups:?}");
}

/// The queries of TPC-H whose plans have a fused aggregate over one table.
const TPCH_FUSED: [u32; 7] = [1, 6, 15, 17, 18, 20, 22];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn these_queries_of_tpch_are_fused() {
    let (dir, db) = new_pool();
    for of in TpchTable::ALL {
        let path = dir.path().join(format!("{of}.parquet"));
        write_parquet(&path, of.reader(0.01, 0, 1).map(Result::unwrap));
        import(&db, of.name(), std::slice::from_ref(&path));
    }
    let mut fused = Vec::new();
    for tpch in tpch_queries(0.01) {
        if agrees(&db, &tpch.sql).await {
            fused.push(tpch.number);
        }
    }
    assert_eq!(fused, TPCH_FUSED);
}
