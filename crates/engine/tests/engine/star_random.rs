//! Random star queries between random changes, beside plain DataFusion.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::star::{agrees, small};
use super::support::{new_pool, run, some};

/// Queries tried per run.
const QUERIES: usize = 60;

/// A join with a table, and the attributes, filters and aggregates of the table.
type DimensionTexts = (&'static str, Texts, Texts, Texts);

type Texts = &'static [&'static str];

/// The tables that random queries join.
const DIMENSIONS: [DimensionTexts; 15] = [
    (
        "JOIN near n ON f.a = n.k",
        &["n.name", "n.kind", "n.k", "n.kind + 1", "f.a"],
        &[
            "n.kind = 1",
            "n.name LIKE 'n%'",
            "n.name IS NULL",
            "n.k > 10",
            "length(n.name) = 2",
        ],
        &[
            "sum(n.kind)",
            "avg(n.half)",
            "sum(n.half * f.y)",
            "count(n.name)",
            "min(n.k - f.x)",
        ],
    ),
    (
        "JOIN near m ON f.y = m.k",
        &["m.kind", "m.name"],
        &["m.k % 3 = 1", "m.k < 20"],
        &["max(m.kind * 3)", "sum(m.k)", "max(m.half)", "count(m.half)"],
    ),
    (
        "JOIN far ON far.k = f.b",
        &["far.kind", "far.k"],
        &["far.kind <> 2", "far.k > 300000000"],
        &[
            "sum(far.kind * f.x)",
            "sum(far.k)",
            "sum(far.kind) FILTER (WHERE f.y > 9)",
        ],
    ),
    (
        "JOIN nulls u ON f.a = u.k",
        &["u.kind % 4"],
        &["u.kind > 2"],
        &["sum(u.kind + f.y)", "count(DISTINCT u.kind)"],
    ),
    (
        "JOIN twice t ON f.a = t.k",
        &["t.kind"],
        &["t.kind > 9"],
        &["sum(t.kind)"],
    ),
    (
        "JOIN pairs p ON f.a = p.k1 AND p.k2 = f.y",
        &["p.g", "p.k1"],
        &["p.g > 1", "p.k1 < p.k2"],
        &[
            "sum(p.g * f.y)",
            "avg(p.price)",
            "sum(f.price - p.price)",
            "count(p.price)",
        ],
    ),
    (
        "JOIN far z ON f.b = z.k JOIN kinds ON z.kind = kinds.kind",
        &["kinds.text", "kinds.parity + z.kind"],
        &["kinds.parity = 1", "kinds.parity < z.kind"],
        &["sum(kinds.parity + z.kind)", "max(kinds.text)"],
    ),
    (
        "JOIN big w ON f.c = w.k",
        &["w.g"],
        &["w.g = 1"],
        &["sum(w.k)", "min(w.g)"],
    ),
    (
        "JOIN (SELECT kind AS k, count(*) AS many FROM twice GROUP BY kind) d ON f.a = d.k",
        &["d.many"],
        &["d.many > 0"],
        &["sum(d.many)"],
    ),
    (
        "JOIN names s ON f.s = s.name",
        &["s.kind", "s.name", "f.s"],
        &["s.kind > 0", "s.num <> 3"],
        &["sum(s.num)", "sum(s.num * f.y)", "max(s.kind)"],
    ),
    (
        "JOIN near sn ON f.s = sn.name",
        &["sn.kind"],
        &["sn.k < 6"],
        &["sum(sn.k)"],
    ),
    (
        "LEFT JOIN near ln ON f.a = ln.k",
        &[],
        &[],
        &[
            "sum(ln.kind)",
            "count(ln.half)",
            "min(ln.half)",
            "sum(ln.k - f.y)",
        ],
    ),
    (
        "LEFT JOIN far lf ON f.b = lf.k AND lf.kind > 2",
        &[],
        &[],
        &["sum(lf.kind)"],
    ),
    (
        "LEFT JOIN pairs lp ON f.a = lp.k1 AND lp.k2 = f.y",
        &["lp.g"],
        &["lp.g IS NULL"],
        &["sum(lp.g)", "count(lp.price)", "max(f.price + lp.price)"],
    ),
    (
        "LEFT JOIN twice lt ON f.a = lt.k",
        &[],
        &["lt.kind IS NOT NULL"],
        &["sum(lt.kind)"],
    ),
];

const CONDITIONS: [&str; 9] = [
    "f.y BETWEEN 10 AND 60",
    "f.x IS NOT NULL",
    "f.a <> 3",
    "f.a IN (SELECT k FROM twice WHERE kind > 3)",
    "f.s IN (SELECT name FROM near)",
    "EXISTS (SELECT 1 FROM nulls WHERE nulls.k = f.a AND nulls.kind < 12)",
    "f.price > 1000.5",
    "f.b IN (SELECT k FROM far WHERE kind IN (SELECT kind FROM kinds WHERE parity = 0))",
    "NOT EXISTS (SELECT 1 FROM nulls WHERE nulls.k = f.y AND nulls.kind < 12)",
];

const AGGREGATES: [&str; 15] = [
    "count(*)",
    "count(f.x)",
    "sum(f.x)",
    "avg(f.x)",
    "min(f.x)",
    "max(f.y)",
    "sum(f.x * f.y)",
    "sum(f.y * CAST(f.x AS BIGINT))",
    "sum(f.y - f.x)",
    "min(f.c)",
    "sum(f.c)",
    "sum(f.price)",
    "avg(f.price * 2)",
    "max(1 - f.price)",
    "min(f.b)",
];

const CHANGES: [&str; 6] = [
    "INSERT INTO facts SELECT a, b + 1, x, y, c, price, s FROM facts WHERE y = 17",
    "INSERT INTO facts VALUES (4, 100000007, 9, 11, 0, 1.25, 'n2'), (NULL, 0, NULL, 12, NULL, NULL, NULL)",
    "DELETE FROM facts WHERE y = 19 OR (a = 7 AND y < 30)",
    "UPDATE facts SET a = 9, price = price + 0.01 WHERE y = 23",
    "VACUUM FULL facts",
    "INSERT INTO near VALUES (50, 'n7', 3, 1.5)",
];

fn statement(rng: &mut StdRng) -> String {
    let number = rng.random_range(1..4);
    let (mut from, mut groups, mut filters) = (String::from("facts f"), Vec::new(), Vec::new());
    let mut aggregates = Vec::new();
    for (join, attributes, conditions, measures) in DIMENSIONS.choose_multiple(rng, number) {
        from = format!("{from} {join}");
        // A column of the fact table is one of the dimension's only where it is its key.
        groups.extend(some(rng, attributes, 2));
        filters.extend(some(rng, conditions, 1));
        aggregates.extend(some(rng, measures, 1));
    }
    filters.extend(some(rng, &CONDITIONS, 2));
    let number = rng.random_range(1..5);
    aggregates.extend(AGGREGATES.choose_multiple(rng, number).copied());
    let columns = [groups.clone(), aggregates].concat().join(", ");
    let and = |filters: &[&str]| match filters {
        [] => String::new(),
        filters => format!(" WHERE {}", filters.join(" AND ")),
    };
    let by = match groups.as_slice() {
        [] => String::new(),
        groups => format!(" GROUP BY {}", groups.join(", ")),
    };
    format!("SELECT {columns} FROM {from}{}{by}", and(&filters))
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_stars_agree() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (_dir, db) = new_pool();
    small(&db).await;
    for text in [
        "CREATE TABLE facts AS SELECT a, b, x, y, b * 1000003 AS c, CAST(x AS DECIMAL(12, 2)) AS price, CASE WHEN y % 9 = 0 THEN NULL ELSE 'n' || (y % 7) END AS s FROM fact WHERE y % 3 <> 1",
        "CREATE TABLE names AS SELECT 'n' || v AS name, v AS num, CAST(v % 3 AS INT) AS kind FROM generate_series(1, 9) AS s(v)",
        "CREATE TABLE kinds AS SELECT CAST(v AS INT) AS kind, 'kind ' || v AS text, CAST(v % 2 AS INT) AS parity FROM generate_series(0, 6) AS s(v)",
        "CREATE TABLE pairs AS SELECT CAST(v % 20 AS INT) AS k1, CAST(v / 20 AS INT) AS k2, v % 5 AS g, CASE WHEN v % 7 = 0 THEN NULL ELSE CAST(v % 90 AS DECIMAL(9, 2)) / 4 END AS price FROM generate_series(0, 1500) AS s(v)",
        "CREATE TABLE big AS SELECT v * 100000007 * 1000003 AS k, v % 3 AS g FROM generate_series(0, 12) AS s(v)",
    ] {
        run(&db, text).await;
    }
    let mut stars = 0;
    for number in 0..QUERIES {
        if number % 4 == 3 {
            run(&db, CHANGES.choose(&mut rng).unwrap()).await;
        }
        let text = statement(&mut rng);
        stars += usize::from(agrees(&db, &text).await);
    }
    assert!(stars > QUERIES / 5, "{stars} stars of {QUERIES}");
}
