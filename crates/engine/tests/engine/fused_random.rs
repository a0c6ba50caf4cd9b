//! Random aggregates over one table between random changes, beside DataFusion's plan.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::fused::{agrees, small};
use super::star;
use super::support::{new_pool, run, some};

/// Queries tried per run.
const QUERIES: usize = 80;

const GROUPS: [&str; 15] = [
    "i",
    "b",
    "k",
    "s",
    "u",
    "wide",
    "d",
    "day",
    "flag",
    "at",
    "x",
    "y",
    "y % 5",
    "coalesce(i, 0)",
    "length(s)",
];

const CONDITIONS: [&str; 12] = [
    "y BETWEEN 10 AND 60",
    "y <> 3",
    "x IS NOT NULL",
    "i IS NULL OR i > 4",
    "s IN ('n0', 'n2', 'more 1')",
    "u > 'name 5'",
    "day < '1994-02-20'",
    "d > 10.5",
    "flag",
    "b = 0",
    "k < 100",
    "at >= '1970-01-20'",
];

const AGGREGATES: [&str; 24] = [
    "count(*)",
    "count(x)",
    "count(s)",
    "count(f)",
    "sum(x)",
    "avg(x)",
    "min(x)",
    "max(y)",
    "sum(x * y)",
    "sum(y * CAST(x AS BIGINT))",
    "sum(y - x)",
    "sum(b)",
    "min(b)",
    "sum(d)",
    "avg(d * 2)",
    "max(1 - wide)",
    "sum(d * (1 - wide))",
    "min(day)",
    "max(at)",
    "sum(k) + count(*)",
    "sum(f)",
    "avg(f - 1)",
    "min(f)",
    "sum(f * y)",
];

const CHANGES: [&str; 8] = [
    "INSERT INTO t SELECT i, b + 1, k, s, u, wide, d, day, flag, f, x, at, y FROM t WHERE y = 17",
    "INSERT INTO t (i, s, u, y, d) VALUES (4, 'x', 'name 77', 9, 1.25), (NULL, NULL, NULL, NULL, NULL), (-9000, 'n1', 'other', 11, -3.5)",
    "INSERT INTO t SELECT i, b, k % 1000 * 1000003, 'more ' || (y % 3), u || y, wide, d, day, flag, f, x, at, y FROM t WHERE y < 12",
    "DELETE FROM t WHERE y = 19 OR (i = 7 AND y < 30)",
    "UPDATE t SET i = 9, d = d + 0.01, s = 'n7' WHERE y = 23",
    "DELETE FROM t WHERE s = 'n2' AND y > 90",
    "VACUUM t",
    "VACUUM FULL t",
];

fn joined(words: &[&str], before: &str, between: &str) -> String {
    match words {
        [] => String::new(),
        words => format!("{before}{}", words.join(between)),
    }
}

fn statement(rng: &mut StdRng) -> String {
    let groups = some(rng, &GROUPS, 4);
    let conditions: Vec<String> = some(rng, &CONDITIONS, 3)
        .iter()
        .map(|text| format!("({text})"))
        .collect();
    let conditions: Vec<&str> = conditions.iter().map(String::as_str).collect();
    let number = rng.random_range(1..5);
    let aggregates: Vec<String> = AGGREGATES
        .choose_multiple(rng, number)
        .map(|aggregate| aggregate.to_string())
        .collect();
    let filtered: Vec<String> = aggregates
        .into_iter()
        .map(|aggregate| match CONDITIONS.choose(rng) {
            Some(condition) if !aggregate.contains('+') && rng.random_ratio(1, 5) => {
                format!("{aggregate} FILTER (WHERE {condition})")
            }
            _ => aggregate,
        })
        .collect();
    let columns: Vec<&str> = groups
        .iter()
        .copied()
        .chain(filtered.iter().map(String::as_str))
        .collect();
    format!(
        "SELECT {} FROM t{}{}",
        columns.join(", "),
        joined(&conditions, " WHERE ", " AND "),
        joined(&groups, " GROUP BY ", ", "),
    )
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
pub(super) fn seeded() -> StdRng {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_aggregates_agree() {
    let mut rng = seeded();
    let (_dir, db) = new_pool();
    small(&db).await;
    let mut fused = 0;
    for number in 0..QUERIES {
        if number % 4 == 3 {
            run(&db, CHANGES.choose(&mut rng).unwrap()).await;
        }
        let text = statement(&mut rng);
        fused += usize::from(agrees(&db, &text).await);
    }
    assert!(fused > QUERIES / 5, "{fused} of {QUERIES}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn star_joins_group_by_columns_of_the_fact_table() {
    let (_dir, db) = new_pool();
    star::small(&db).await;
    for text in [
        "SELECT y, count(*) FROM fact JOIN near ON a = k GROUP BY y",
        "SELECT name, y, sum(x), avg(x) FROM fact JOIN near ON a = k WHERE y > 20 GROUP BY y, name",
        "SELECT x, b, count(*), min(y) FROM fact JOIN near ON a = k GROUP BY b, x",
        "SELECT near.kind, far.kind, x, y, sum(x) FROM fact JOIN near ON a = near.k JOIN far ON b = far.k \
         GROUP BY near.kind, far.kind, x, y",
        "SELECT y, sum(x) FROM fact WHERE a IN (SELECT k FROM near WHERE kind = 1) GROUP BY y",
        "SELECT kind, sum(x) FILTER (WHERE y > 3), count(*) FILTER (WHERE b = 0) FROM fact JOIN near ON a = k GROUP BY kind",
        "SELECT kind, count(DISTINCT x) FROM fact JOIN near ON a = k GROUP BY kind",
    ] {
        assert!(star::agrees(&db, text).await, "no star: {text}");
    }
    run(
        &db,
        "INSERT INTO fact VALUES (4, 0, 1, -1000), (5, 100000007, NULL, NULL)",
    )
    .await;
    let text = "SELECT y, kind, sum(x) FROM fact JOIN near ON a = k GROUP BY y, kind";
    assert!(star::agrees(&db, text).await);
}
