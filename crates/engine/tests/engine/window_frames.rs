//! Frames of windows that slide, and those with `EXCLUDE`, beside a model that goes through all rows of a
//! partition.

use std::time::{SystemTime, UNIX_EPOCH};

use halocline_engine::Database;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::support::{new_pool, query, run};

/// A row: its number, partition, key and value.
#[derive(Debug, Clone, Copy)]
struct Row {
    id: i64,
    part: i64,
    key: Option<i64>,
    value: Option<i64>,
}

/// An end of a frame, as an offset in rows or groups of peers; `None` if it is unbounded.
type Bound = Option<i64>;

fn bound(text_of_side: &str, bound: Bound) -> String {
    match bound {
        None => format!("UNBOUNDED {text_of_side}"),
        Some(0) => "CURRENT ROW".to_owned(),
        Some(offset) if offset < 0 => format!("{} PRECEDING", -offset),
        Some(offset) => format!("{offset} FOLLOWING"),
    }
}

/// Returns the rows of the frame of the row at `at`, of a partition in its order, without those that are left
/// out.
fn frame(rows: &[Row], at: usize, unit: &str, bounds: (Bound, Bound), exclusion: &str) -> Vec<Row> {
    let group = |at: usize| {
        let keys = rows[..=at].windows(2);
        i64::try_from(keys.filter(|pair| pair[0].key != pair[1].key).count()).unwrap()
    };
    let place = |other: usize| match unit {
        "ROWS" => i64::try_from(other).unwrap() - i64::try_from(at).unwrap(),
        _ => group(other) - group(at),
    };
    let is_within = |other: usize| {
        bounds.0.is_none_or(|start| place(other) >= start) && bounds.1.is_none_or(|end| place(other) <= end)
    };
    let is_peer = |other: usize| rows[other].key == rows[at].key;
    let is_left = |other: usize| match exclusion {
        "CURRENT ROW" => other != at,
        "GROUP" => !is_peer(other),
        "TIES" => other == at || !is_peer(other),
        _ => true,
    };
    let left = (0..rows.len()).filter(|other| is_within(*other) && is_left(*other));
    left.map(|other| rows[other]).collect()
}

fn shown(value: Option<i64>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// Returns the value of a function over rows.
fn model(function: &str, rows: &[Row]) -> String {
    let values = || rows.iter().filter_map(|row| row.value);
    match function {
        "sum(v)" => shown(values().reduce(|a, b| a + b)),
        "sum(DISTINCT v)" => {
            let distinct: std::collections::BTreeSet<i64> = values().collect();
            shown(distinct.into_iter().reduce(|a, b| a + b))
        }
        "count(*)" => rows.len().to_string(),
        "count(*) FILTER (WHERE v > 4)" => values().filter(|value| *value > 4).count().to_string(),
        "min(v)" => shown(values().min()),
        "string_agg(v, ',')" => {
            let texts: Vec<String> = values().map(|value| value.to_string()).collect();
            if texts.is_empty() {
                "NULL".to_owned()
            } else {
                texts.join(",")
            }
        }
        "first_value(v)" => shown(rows.first().and_then(|row| row.value)),
        "first_value(v) IGNORE NULLS" => shown(values().next()),
        "last_value(v)" => shown(rows.last().and_then(|row| row.value)),
        "nth_value(v, 2)" => shown(rows.get(1).and_then(|row| row.value)),
        "nth_value(v, -2)" => shown(rows.iter().rev().nth(1).and_then(|row| row.value)),
        other => panic!("{other} has no model"),
    }
}

const FUNCTIONS: [&str; 11] = [
    "sum(v)",
    "sum(DISTINCT v)",
    "count(*)",
    "count(*) FILTER (WHERE v > 4)",
    "min(v)",
    "string_agg(v, ',')",
    "first_value(v)",
    "first_value(v) IGNORE NULLS",
    "last_value(v)",
    "nth_value(v, 2)",
    "nth_value(v, -2)",
];

const EXCLUSIONS: [&str; 4] = ["CURRENT ROW", "GROUP", "TIES", "NO OTHERS"];

/// Creates the table `t` and returns its rows, sorted by partition, key (NULL last) and number.
async fn table(db: &Database, random: &mut StdRng, rows: i64, parts: i64) -> Vec<Row> {
    let rows = (1..=rows).map(|id| Row {
        id,
        part: random.random_range(0..parts),
        key: random.random_bool(0.9).then(|| random.random_range(0..9)),
        value: random.random_bool(0.8).then(|| random.random_range(0..10)),
    });
    let mut rows: Vec<Row> = rows.collect();
    run(
        db,
        "CREATE OR REPLACE TABLE t (id BIGINT, p BIGINT, k BIGINT, v BIGINT)",
    )
    .await;
    let values: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "({}, {}, {}, {})",
                row.id,
                row.part,
                shown(row.key),
                shown(row.value)
            )
        })
        .collect();
    run(db, &format!("INSERT INTO t VALUES {}", values.join(", "))).await;
    rows.sort_by_key(|row| (row.part, row.key.is_none(), row.key, row.id));
    rows
}

/// Compares a function over frames with the model.
async fn agrees(
    db: &Database,
    rows: &[Row],
    unit: &str,
    bounds: (Bound, Bound),
    exclusion: &str,
    function: &str,
) {
    // Of the unit ROWS, the order is total, so that no two rows are peers of each other.
    let order = if unit == "ROWS" { "k, id" } else { "k" };
    let rows: Vec<Row> = match unit {
        "ROWS" => rows
            .iter()
            .map(|row| Row {
                key: Some(row.id),
                ..*row
            })
            .collect(),
        _ => rows.to_vec(),
    };
    let (start, end) = (bound("PRECEDING", bounds.0), bound("FOLLOWING", bounds.1));
    let text = format!(
        "SELECT id, {function} OVER (PARTITION BY p ORDER BY {order} {unit} BETWEEN {start} AND {end} EXCLUDE \
         {exclusion}) AS r FROM t ORDER BY id"
    );
    let mut expected = Vec::new();
    for part in rows.chunk_by(|a, b| a.part == b.part) {
        for (at, row) in part.iter().enumerate() {
            let left = frame(part, at, unit, bounds, exclusion);
            expected.push((row.id, model(function, &left)));
        }
    }
    expected.sort_unstable();
    let expected: Vec<String> = expected
        .iter()
        .map(|(id, value)| format!("{id}|{value}"))
        .collect();
    assert_eq!(query(db, &text).await, expected, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the seed")]
async fn random_frames_are_as_in_the_model() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (_dir, db) = new_pool();
    for _ in 0..6 {
        let number = random.random_range(1..60);
        let rows = table(&db, &mut random, number, 3).await;
        for _ in 0..20 {
            let unit = *["ROWS", "GROUPS", "RANGE"].choose(&mut random).unwrap();
            let bounds = match unit {
                // Values as offsets are another model.
                "RANGE" => *[(None, Some(0)), (Some(0), None), (None, None), (Some(0), Some(0))]
                    .choose(&mut random)
                    .unwrap(),
                _ => {
                    let start = random.random_bool(0.8).then(|| random.random_range(-3..=2));
                    let least = start.unwrap_or(-3);
                    (
                        start,
                        random.random_bool(0.8).then(|| random.random_range(least..=3)),
                    )
                }
            };
            let functions: &[&str] = match unit {
                "ROWS" => &FUNCTIONS,
                // Which of the peers is first is not defined.
                _ => &FUNCTIONS[..5],
            };
            let function = functions.choose(&mut random).unwrap();
            let exclusion = EXCLUSIONS.choose(&mut random).unwrap();
            agrees(&db, &rows, unit, bounds, exclusion, function).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_frames_are_as_in_the_model() {
    let (_dir, db) = new_pool();
    let rows = table(&db, &mut StdRng::seed_from_u64(1), 1700, 1).await;
    for function in [
        "sum(v)",
        "sum(DISTINCT v)",
        "count(*) FILTER (WHERE v > 4)",
        "min(v)",
        "nth_value(v, 2)",
    ] {
        agrees(&db, &rows, "ROWS", (None, None), "CURRENT ROW", function).await;
    }
    for exclusion in EXCLUSIONS {
        agrees(&db, &rows, "RANGE", (None, None), exclusion, "sum(v)").await;
    }
    // The order of a long frame is kept, too.
    let text = "SELECT min(substr(r, 1, 10)), max(substr(r, 1, 10)), count(DISTINCT length(r)) FROM \
                (SELECT string_agg(CAST(v % 10 AS TEXT), '') OVER (ORDER BY v \
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS r, v \
                FROM range(3000) AS g(v)) WHERE v >= 10";
    assert_eq!(query(&db, text).await, ["0123456789|0123456789|1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_with_exclude_have_names_and_places() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 1), (2, 1), (3, 2), (4, 2)) AS x(i, k)",
    )
    .await;
    for (text, expected) in [
        // Without an order, all rows are peers.
        (
            "SELECT i, sum(i) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES) FROM t ORDER BY i",
            "1|1 2|2 3|3 4|4",
        ),
        (
            "SELECT i, count(*) OVER (ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) FROM t ORDER BY i",
            "1|0 2|0 3|0 4|0",
        ),
        // A window of a name, several times, and beside others.
        (
            "SELECT i, sum(i) OVER w, max(i) OVER w, sum(i) OVER (PARTITION BY k), row_number() OVER w FROM t \
             WINDOW w AS (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) ORDER BY i",
            "1|9|4|3|1 2|8|4|3|2 3|7|4|7|3 4|6|3|7|4",
        ),
        // In ORDER BY, in a subquery with columns of the query around it, and in a condition on it.
        (
            "SELECT i FROM t ORDER BY sum(i) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW)",
            "4 3 2 1",
        ),
        (
            "SELECT i, (SELECT max(s) FROM (SELECT sum(b.i) OVER (ORDER BY b.i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS s \
             FROM t AS b WHERE b.k = a.k)) FROM t AS a ORDER BY i",
            "1|2 2|2 3|4 4|4",
        ),
        (
            "SELECT i FROM t QUALIFY count(*) OVER (PARTITION BY k ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) = 1 ORDER BY i",
            "2 4",
        ),
        // A frame that does not have the row itself.
        (
            "SELECT i, sum(i) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING EXCLUDE TIES) FROM t ORDER BY i",
            "1|5 2|7 3|4 4|NULL",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floats_leave_no_trace_in_frames_behind_them() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i, CAST(s AS DOUBLE) AS x FROM (VALUES (1, '1.5'), (2, 'Infinity'), (3, '2'), (4, '1'), \
         (5, '1e300'), (6, '1'), (7, '2'), (8, 'NaN'), (9, '3'), (10, '5'), (11, NULL), (12, '4')) AS v(i, s)",
    )
    .await;
    for (function, values) in [
        ("sum(x)", "1.5 inf inf 3.0 1e300 1e300 3.0 NaN NaN 8.0 5.0 4.0"),
        ("avg(x)", "1.5 inf inf 1.5 5e299 5e299 1.5 NaN NaN 4.0 5.0 4.0"),
        ("var_pop(x)", "0.0 NaN NaN 0.25 inf inf 0.25 NaN NaN 1.0 0.0 0.0"),
        (
            "sum(x) FILTER (WHERE i > 3)",
            "NULL NULL NULL 1.0 1e300 1e300 3.0 NaN NaN 8.0 5.0 4.0",
        ),
        (
            "sum(DISTINCT x)",
            "1.5 inf inf 3.0 1e300 1e300 3.0 NaN NaN 8.0 5.0 4.0",
        ),
        ("min(x)", "1.5 1.5 2.0 1.0 1.0 1.0 1.0 2.0 3.0 3.0 5.0 4.0"),
        ("max(x)", "1.5 inf inf 2.0 1e300 1e300 2.0 NaN NaN 5.0 5.0 4.0"),
    ] {
        for frame in ["ROWS 1 PRECEDING", "RANGE 1 PRECEDING", "GROUPS 1 PRECEDING"] {
            let text = format!("SELECT CAST({function} OVER (ORDER BY i {frame}) AS TEXT) FROM t ORDER BY i");
            assert_eq!(query(&db, &text).await.join(" "), values, "{text}");
        }
    }
    // Rows come in batches, and long frames have states of blocks.
    run(&db, "SET datafusion.execution.batch_size = 100").await;
    for (frame, rows) in [
        ("2 PRECEDING AND 1 FOLLOWING", 4),
        ("1500 PRECEDING AND 499 FOLLOWING", 2000),
    ] {
        let text = format!(
            "SELECT count(*) FROM (SELECT sum(x) OVER (PARTITION BY p ORDER BY i ROWS BETWEEN {frame}) AS s, \
             count(*) OVER (PARTITION BY p ORDER BY i ROWS BETWEEN {frame}) AS n \
             FROM (SELECT v AS i, v % 3 AS p, CAST(0.5 AS DOUBLE) AS x FROM range(9000) AS g(v))) \
             WHERE s = n / 2.0 AND n <= {rows}"
        );
        assert_eq!(query(&db, &text).await, ["9000"], "{text}");
    }
}

#[tokio::test]
async fn functions_share_expressions_in_their_keys() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 6) AS g(value)",
    )
    .await;
    let text = "SELECT k, max(DATE '2000-01-01' + k) OVER w AS a, lag(k) OVER w AS b FROM t \
        WINDOW w AS (PARTITION BY k > 4 ORDER BY k % 3, k) ORDER BY k";
    let expected = [
        "1|2000-01-04|3",
        "2|2000-01-05|4",
        "3|2000-01-04|NULL",
        "4|2000-01-05|1",
        "5|2000-01-07|6",
        "6|2000-01-07|NULL",
    ];
    assert_eq!(query(&db, text).await, expected);
}
