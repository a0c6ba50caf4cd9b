//! Fused aggregates of floats, and statistics of integers and decimals, beside DataFusion's plan.
//!
//! Most doubles here are multiples of 1/16, whose sums are exact in any order. Statistics are compared with a
//! tolerance: DataFusion rounds after each row.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use halocline_engine::Database;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::fused::{agrees, is_fused};
use super::fused_random::seeded;
use super::star;
use super::support::{new_pool, query, run, some};

/// Queries tried per run.
const QUERIES: usize = 60;

/// Statements that build a table with floats of all kinds.
const TABLE: [&str; 2] = [
    "CREATE TABLE t (g INT, h TEXT, d DOUBLE, p DOUBLE NOT NULL, s REAL, wild DOUBLE, i INT, j INT NOT NULL, b BIGINT, m DECIMAL(12, 2), far BIGINT)",
    "INSERT INTO t SELECT CASE WHEN v % 13 = 0 THEN NULL ELSE CAST(v * 7919 % 23 AS INT) END, \
     CASE WHEN v % 4 = 0 THEN NULL ELSE 'h' || (v % 3) END, \
     CASE WHEN v % 5 = 0 THEN NULL ELSE CAST(v * 7919 % 8001 - 4000 AS DOUBLE) / 16e0 END, \
     CAST(v * 104729 % 4001 AS DOUBLE) / 8e0, \
     CASE WHEN v % 6 = 0 THEN NULL ELSE CAST(CAST(v * 31 % 2001 - 1000 AS DOUBLE) / 4e0 AS REAL) END, \
     CASE WHEN v % 997 = 0 THEN CAST('NaN' AS DOUBLE) WHEN v % 991 = 0 THEN CAST('inf' AS DOUBLE) \
       WHEN v % 983 = 0 THEN CAST('-inf' AS DOUBLE) WHEN v % 3 = 0 THEN -0.0e0 WHEN v % 7 = 0 THEN NULL \
       ELSE CAST(v % 100 AS DOUBLE) / 2e0 END, \
     CASE WHEN v % 11 = 0 THEN NULL ELSE CAST(v * 7919 % 1009 AS INT) END, CAST(v * 15485863 % 499 + v % 3 AS INT), \
     v * 1000003 % 99991 - 50000, CASE WHEN v % 9 = 0 THEN NULL ELSE CAST(v * 31 % 5003 AS DECIMAL(12, 2)) / 4 END, \
     v * 1000003 % 20011 * 1000000007 FROM generate_series(1, 20000) AS s(v)",
];

async fn floats(db: &Database) {
    for text in TABLE {
        run(db, text).await;
    }
    run(db, "VACUUM FULL t").await;
}

/// Rows by the text of all columns but doubles, and the doubles.
fn rows(batches: &[RecordBatch]) -> Vec<(String, Vec<Option<f64>>)> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let (mut key, mut values) = (String::new(), Vec::new());
            for column in batch.columns() {
                match column.as_primitive_opt::<Float64Type>() {
                    Some(doubles) => values.push(doubles.iter().nth(row).flatten()),
                    None => {
                        let cell = ArrayFormatter::try_new(column, &options).unwrap();
                        key.push_str(&format!("{}|", cell.value(row)));
                    }
                }
            }
            rows.push((key, values));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

async fn answer(db: &Database, text: &str) -> Vec<(String, Vec<Option<f64>>)> {
    let result = db.sql(text).await.unwrap_or_else(|e| panic!("{text}: {e}"));
    rows(&result.collect().await.unwrap_or_else(|e| panic!("{text}: {e}")))
}

fn are_near(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) if a.is_nan() || b.is_nan() => a.is_nan() && b.is_nan(),
        (Some(a), Some(b)) => a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The same with and without, but for rounding; says whether it was fused. Groups must differ in columns that
/// are no doubles.
async fn nearly_agrees(db: &Database, text: &str) -> bool {
    let fused = is_fused(db, text).await;
    let found = answer(db, text).await;
    run(db, "SET halocline.fused_aggregate = off").await;
    let wanted = answer(db, text).await;
    run(db, "RESET halocline.fused_aggregate").await;
    assert_eq!(found.len(), wanted.len(), "{text}");
    for (found, wanted) in found.iter().zip(&wanted) {
        let near = found.1.iter().zip(&wanted.1).all(|(a, b)| are_near(*a, *b));
        assert!(found.0 == wanted.0 && near, "{text}: {found:?} and {wanted:?}");
    }
    fused
}

/// Sums that are exact in any order.
const EXACT: [&str; 12] = [
    "SELECT sum(d), avg(d), count(d), min(d), max(d), sum(p), avg(p), min(p), max(p) FROM t",
    "SELECT sum(s), avg(s), count(s), min(s), max(s) FROM t WHERE j < 300",
    "SELECT g, sum(d), avg(d), sum(p), sum(s), sum(i), sum(j), avg(j) FROM t GROUP BY g",
    "SELECT h, min(d), max(d), min(s), max(s), count(d), count(s), count(*) FROM t GROUP BY h",
    "SELECT h, g, sum(d * p), sum(d + 0.5), sum(p - d), sum(2 * d), sum(s * CAST(2 AS DOUBLE)) FROM t GROUP BY h, g",
    "SELECT g, sum(p * j), sum(d - i), sum(CAST(b AS DOUBLE) * d) FROM t GROUP BY g",
    "SELECT far, sum(p), sum(d), avg(s) FROM t GROUP BY far",
    "SELECT b, g, sum(p) FROM t GROUP BY b, g",
    "SELECT g, sum(p) FILTER (WHERE j > 100), avg(d) FILTER (WHERE h = 'h1'), max(d) FILTER (WHERE i IS NULL), sum(p) FROM t GROUP BY g",
    "SELECT h, sum(wild), avg(wild), count(wild) FROM t GROUP BY h",
    "SELECT sum(wild), sum(CAST(i AS DOUBLE)), min(CAST(i AS DOUBLE)), max(CAST(m AS DOUBLE)), avg(CAST(b AS DOUBLE)) FROM t",
    "SELECT g, sum(d) FROM t WHERE j < 0 GROUP BY g",
];

/// Sums that depend on the order of rows, and statistics.
const NEAR: [&str; 11] = [
    "SELECT g, sum(d * 0.1), avg(p * 1.1 - d), sum(CAST(m AS DOUBLE)), avg(CAST(m AS DOUBLE) * p) FROM t GROUP BY g",
    "SELECT sum(d * 0.1), avg(p * 1.1 - d), sum(CAST(m AS DOUBLE)), sum(CAST(m AS DOUBLE) + i) FROM t",
    "SELECT far, avg(b), avg(far), avg(j) FROM t GROUP BY far",
    "SELECT var_samp(i), var_pop(i), stddev(i), stddev_pop(i), var_samp(m), stddev(m), var_pop(j) FROM t",
    "SELECT g, var_samp(i), var_pop(i), stddev(i), stddev_pop(i), var_samp(m), stddev_pop(m), var_pop(j) FROM t GROUP BY g",
    "SELECT corr(i, j), corr(j, i), covar_samp(i, j), covar_pop(i, m), corr(i, b), corr(m, b), corr(i, i) FROM t",
    "SELECT h, corr(i, j), covar_samp(i, j), covar_pop(i, m), corr(m, i), corr(m, b) FROM t GROUP BY h",
    "SELECT g, h, corr(i, j), covar_samp(j, i), avg(i), var_pop(i), avg(d), count(*) FROM t GROUP BY g, h",
    "SELECT g, corr(i, j) FILTER (WHERE h = 'h1'), var_samp(i) FILTER (WHERE j > 400), stddev(i) FROM t GROUP BY g",
    "SELECT far, corr(i, j), var_samp(j), stddev_pop(j), covar_pop(i, j), covar_samp(i, j) FROM t GROUP BY far",
    "SELECT g, var_pop(i + j), corr(i, i + j), covar_samp(i - j, j) FROM t GROUP BY g",
];

const NOT_FUSED: [&str; 6] = [
    // Extremes of infinities and NaN, and of expressions.
    "SELECT h, min(wild), max(wild) FROM t GROUP BY h",
    "SELECT h, max(d * 2) FROM t GROUP BY h",
    // Arithmetic of single precision.
    "SELECT h, sum(s * s) FROM t GROUP BY h",
    "SELECT h, var_samp(d), corr(d, p), stddev(s) FROM t GROUP BY h",
    // Squares of more than 64 bits.
    "SELECT h, var_samp(far) FROM t GROUP BY h",
    "SELECT h, sum(d / 4) FROM t GROUP BY h",
];

async fn check_all(db: &Database, after: &str) {
    for text in EXACT {
        assert!(agrees(db, text).await, "not fused after {after}: {text}");
    }
    for text in NEAR {
        assert!(nearly_agrees(db, text).await, "not fused after {after}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floats_and_statistics_agree() {
    let (_dir, db) = new_pool();
    floats(&db).await;
    check_all(&db, "nothing").await;
    for text in NOT_FUSED {
        assert!(!is_fused(&db, text).await, "fused: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floats_of_deleted_and_inserted_rows() {
    let (_dir, db) = new_pool();
    floats(&db).await;
    for change in [
        "DELETE FROM t WHERE j % 7 = 3 OR d = 1.5",
        // Rows of the log, with NULL where there was none.
        "INSERT INTO t (g, h, d, p, s, wild, i, j, b, m, far) VALUES (NULL, 'new', -0.0e0, 0.5e0, 1.5, -0.0e0, NULL, 3, 1, 2.25, 0), \
         (4, NULL, 1e300, 0.25e0, NULL, CAST('NaN' AS DOUBLE), 7, 9, NULL, NULL, NULL), (77, 'h1', NULL, 2e0, -0.25, NULL, -5000, 0, -9, -7.75, 1)",
        "UPDATE t SET d = -0.0625e0, i = i + 1 WHERE g = 3 AND d > 0e0",
        "DELETE FROM t WHERE d = 1e300",
        "VACUUM FULL t",
        // A second segment, with negative floats where there were none.
        "INSERT INTO t SELECT g + 1, 'more', d, -p, s, wild, i - 50, j, b, m + 1, far FROM t WHERE j < 90",
        "VACUUM t",
        "INSERT INTO t (g, p, j) VALUES (1, 3.5e0, 1)",
    ] {
        run(&db, change).await;
        check_all(&db, change).await;
    }
    run(&db, "DELETE FROM t").await;
    check_nothing(&db).await;
}

/// A table without rows has no groups, and one row without groups.
async fn check_nothing(db: &Database) {
    for text in EXACT {
        agrees(db, text).await;
    }
    for text in NEAR {
        nearly_agrees(db, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn infinite_values_of_the_log_are_left_to_datafusion() {
    let (_dir, db) = new_pool();
    floats(&db).await;
    let text = "SELECT h, min(p), max(p) FROM t GROUP BY h";
    assert!(agrees(&db, text).await);
    run(&db, "INSERT INTO t (p, j) VALUES (CAST('inf' AS DOUBLE), 1)").await;
    assert!(!is_fused(&db, text).await);
    assert!(agrees(&db, "SELECT h, sum(p), avg(p) FROM t GROUP BY h").await);
}

/// Groups of no pair, one, two; without variance on one side or both; with a NULL in either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_of_few_values() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE few (k INT, x INT, y INT, m DECIMAL(9, 1))").await;
    run(
        &db,
        "INSERT INTO few VALUES (1, NULL, 1, 0.5), (2, 7, NULL, NULL), (2, NULL, 7, 0.5), (3, -5, 3, 1.5), (4, 1, 2, 0.5), (4, 2, 4, 0.5), \
         (5, 3, 1, 2.5), (5, 3, 2, 1.5), (6, 4, 4, 3.5), (6, 4, 4, 3.5), (7, 1, -1, 4.5), (7, 2, NULL, 1.5), (7, 3, -3, 0.5), (7, NULL, 9, 0.5), \
         (8, 0, 0, 0.0), (8, 0, 0, 0.0), (8, 0, 0, 0.0), (9, NULL, NULL, NULL)",
    )
    .await;
    let all = "count(*), var_samp(x), var_pop(x), stddev(x), stddev_pop(x), var_pop(m), corr(x, y), corr(y, x), corr(x, m), covar_samp(x, y), \
               covar_pop(x, y), covar_samp(y, m), covar_pop(m, y)";
    for stored in [false, true] {
        if stored {
            run(&db, "VACUUM FULL few").await;
        }
        assert!(nearly_agrees(&db, &format!("SELECT k, {all} FROM few GROUP BY k")).await);
        for k in 0..10 {
            let text = format!("SELECT {all} FROM few WHERE k = {k}");
            assert!(nearly_agrees(&db, &text).await, "{text}");
        }
        let found = query(
            &db,
            "SELECT k, corr(x, y), var_samp(y) FROM few WHERE k IN (3, 4, 5, 7) GROUP BY k ORDER BY k",
        )
        .await;
        assert_eq!(
            found,
            [
                "3|NULL|NULL",
                "4|1.000000000e0|2.000000000e0",
                "5|NULL|5.000000000e-1",
                "7|-1.000000000e0|4.133333333e1"
            ]
        );
    }
}

const GROUPS: [&str; 6] = ["g", "h", "b", "far", "j % 5", "coalesce(i, 0)"];

const CONDITIONS: [&str; 6] = [
    "j BETWEEN 10 AND 400",
    "i IS NOT NULL",
    "h IN ('h0', 'more')",
    "d > 10.5",
    "p <= 250e0",
    "g IS NULL OR g > 4",
];

const AGGREGATES: [&str; 20] = [
    "sum(d)",
    "avg(d)",
    "min(d)",
    "max(p)",
    "sum(p)",
    "avg(s)",
    "max(s)",
    "sum(wild)",
    "count(d)",
    "sum(d * p)",
    "sum(p * j - 0.5)",
    "sum(i)",
    "avg(b)",
    "sum(CAST(m AS DOUBLE))",
    "var_pop(i)",
    "stddev(j)",
    "corr(i, j)",
    "covar_samp(i, m)",
    "var_samp(m)",
    "count(*)",
];

const CHANGES: [&str; 6] = [
    "INSERT INTO t SELECT g, h, d + 1e0, p, s, wild, i, j, b, m, far FROM t WHERE j = 17",
    "INSERT INTO t (g, h, d, p, j) VALUES (4, 'x', -0.5e0, 1.25e0, 9), (NULL, NULL, NULL, 0e0, 0)",
    "DELETE FROM t WHERE j = 19 OR (g = 7 AND j < 30)",
    "UPDATE t SET d = d / 2e0, i = 9 WHERE j = 23",
    "VACUUM t",
    "VACUUM FULL t",
];

fn statement(rng: &mut StdRng) -> String {
    let groups = some(rng, &GROUPS, 3);
    let conditions = some(rng, &CONDITIONS, 2);
    let aggregates: Vec<&str> = AGGREGATES.choose_multiple(rng, 4).copied().collect();
    let columns: Vec<&str> = groups.iter().chain(&aggregates).copied().collect();
    let conditions: Vec<String> = conditions.iter().map(|text| format!("({text})")).collect();
    let filter = match conditions.as_slice() {
        [] => String::new(),
        conditions => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let grouped = match groups.as_slice() {
        [] => String::new(),
        groups => format!(" GROUP BY {}", groups.join(", ")),
    };
    format!("SELECT {} FROM t{filter}{grouped}", columns.join(", "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_floats_agree() {
    let mut rng = seeded();
    let (_dir, db) = new_pool();
    floats(&db).await;
    let mut fused = 0;
    for number in 0..QUERIES {
        if number % 4 == 3 {
            run(&db, CHANGES.choose(&mut rng).unwrap()).await;
        }
        let text = statement(&mut rng);
        fused += usize::from(nearly_agrees(&db, &text).await);
    }
    assert!(fused > QUERIES / 2, "{fused} of {QUERIES}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn star_joins_add_floats() {
    let (_dir, db) = new_pool();
    floats(&db).await;
    run(
        &db,
        "CREATE TABLE near AS SELECT CAST(v AS INT) AS k, CASE WHEN v % 4 = 0 THEN NULL ELSE 'n' || (v % 3) END AS name \
         FROM generate_series(3, 40) AS s(v)",
    )
    .await;
    for text in [
        "SELECT name, sum(d), avg(p), min(d), max(s), count(d), sum(d * p) FROM t JOIN near ON g = k GROUP BY name",
        "SELECT name, h, sum(d), sum(i) FROM t JOIN near ON g = k WHERE j < 200 GROUP BY name, h",
        "SELECT sum(d), avg(s) FROM t JOIN near ON g = k WHERE name = 'n1'",
        "SELECT sum(d) FROM t WHERE g IN (SELECT k FROM near WHERE name = 'n2')",
        "SELECT name, var_pop(j), stddev(i) FROM t JOIN near ON g = k GROUP BY name",
    ] {
        assert!(star::agrees(&db, text).await, "no star: {text}");
    }
    // Groups are restricted by the keys of the join above.
    let text = "SELECT name, sums.d FROM (SELECT g, sum(d) AS d FROM t GROUP BY g) AS sums JOIN near ON g = k WHERE k < 9";
    assert!(agrees(&db, text).await);
}
