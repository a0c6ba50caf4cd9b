//! Sets of indexes for random conjunctions on a table like lineorder: the advised set against each single
//! index, the index of each query as far as there is space, and one index over all columns.
//!
//! `cargo bench -p halocline-engine --bench index_sets`. `HALOCLINE_BENCH_ROWS` sets the number of rows
//! (1,000,000), `HALOCLINE_BENCH_QUERIES` the number of queries (20), `HALOCLINE_BENCH_RUNS` how often each
//! is run, of which the fastest counts (5), `HALOCLINE_BENCH_SPACE` the MiB for indexes (32), and
//! `HALOCLINE_BENCH_SEED` the random conjunctions (1). Prints the time of the workload with each set that
//! fits the space, and the ratio of the advised set to the best of all.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::{Duration, Instant};

use halocline_engine::{Database, DatabaseOptions, IndexSetOptions, WorkloadQuery};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use common::{Failure, IntegerColumn, expressions, number, print};

/// The columns that queries restrict, with the number of values of each and a factor that makes them
/// independent.
const COLUMNS: [IntegerColumn; 7] = [
    ("lo_custkey", 30_000, 7_919),
    ("lo_partkey", 200_000, 104_729),
    ("lo_suppkey", 2_000, 1_299_709),
    ("lo_orderdate", 2_556, 15_485_863),
    ("lo_quantity", 50, 32_452_843),
    ("lo_discount", 11, 49_979_687),
    ("lo_tax", 9, 67_867_967),
];

/// A set of indexes: its name and the statements that build them.
type IndexSet = (String, Vec<String>);

fn main() -> Result<(), Failure> {
    print(measure())
}

async fn lineorder(rows: u64) -> Result<Database, Failure> {
    let db = Database::in_memory(&DatabaseOptions::default())?;
    let table = format!(
        "CREATE TABLE lineorder AS SELECT v AS lo_orderkey, {}, v * 31 % 1000000 AS lo_revenue \
         FROM generate_series(1, {rows}) AS s(v)",
        expressions(&COLUMNS)
    );
    db.sql(&table).await?;
    Ok(db)
}

/// A random conjunction of conditions on two to five columns, as a text, and the columns.
fn conjunction(rng: &mut StdRng) -> (String, Vec<&'static str>) {
    let count = rng.random_range(2..=5);
    let chosen: Vec<_> = COLUMNS.choose_multiple(rng, count).collect();
    let conditions = chosen.iter().map(|(name, values, _)| {
        let low = rng.random_range(0..*values);
        match rng.random_range(0..3) {
            0 => format!("{name} = {low}"),
            1 => format!("{name} BETWEEN {low} AND {}", low + values / 50),
            _ => format!("{name} BETWEEN {low} AND {}", low + values / 5),
        }
    });
    let conditions: Vec<String> = conditions.collect();
    let text = format!(
        "SELECT sum(lo_revenue) FROM lineorder WHERE {}",
        conditions.join(" AND ")
    );
    (text, chosen.iter().map(|(name, ..)| *name).collect())
}

async fn measure() -> Result<String, Failure> {
    let rows = number("HALOCLINE_BENCH_ROWS", 1_000_000);
    let space = number("HALOCLINE_BENCH_SPACE", 32) << 20;
    let mut rng = StdRng::seed_from_u64(number("HALOCLINE_BENCH_SEED", 1));
    let db = lineorder(rows).await?;
    let queries: Vec<_> = (0..number("HALOCLINE_BENCH_QUERIES", 20))
        .map(|_| conjunction(&mut rng))
        .collect();
    let workload: Vec<WorkloadQuery> = queries
        .iter()
        .enumerate()
        .map(|(at, (text, _))| WorkloadQuery::new(text, format!("query {}", at + 1)))
        .collect();
    let start = Instant::now();
    let advice = db.advise_indexes(&workload, &IndexSetOptions::new(space)).await?;
    let mut report = String::new();
    writeln!(
        report,
        "{rows} rows, {} queries, {} MiB: {} indexes advised in {:.2} s; predicted {:.2} ms before, {:.2} ms after",
        queries.len(),
        space >> 20,
        advice.proposed.len(),
        start.elapsed().as_secs_f64(),
        advice.before * 1e3,
        advice.after * 1e3
    )?;
    let advised = advice
        .proposed
        .iter()
        .map(|index| index.statement.clone())
        .collect();
    let mut sets: Vec<IndexSet> = vec![("advised".into(), advised), ("none".into(), vec![])];
    sets.extend(alternatives(&queries));
    let mut times = Vec::new();
    for (name, statements) in sets {
        let (bytes, indexes) = build(&db, &statements, space).await?;
        let time = run(&db, &workload).await?;
        drop_all(&db).await?;
        writeln!(
            report,
            "{:9.2} ms  {indexes:2} indexes, {:6.1} MiB  {name}",
            time.as_secs_f64() * 1e3,
            bytes as f64 / f64::from(1 << 20)
        )?;
        times.push(time.as_secs_f64());
    }
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    writeln!(report, "advised / best: {:.3}", times[0] / best)?;
    Ok(report)
}

fn statement(name: &str, columns: &[&str]) -> String {
    format!(
        "CREATE INDEX {name} ON lineorder USING elf ({}) WITH (order = 'given')",
        columns.join(", ")
    )
}

/// Other sets of indexes.
fn alternatives(queries: &[(String, Vec<&'static str>)]) -> Vec<IndexSet> {
    let mut sets: Vec<IndexSet> = Vec::new();
    for (name, ..) in COLUMNS {
        sets.push((format!("({name})"), vec![statement("i", &[name])]));
    }
    let mut most_values = COLUMNS;
    most_values.sort_by_key(|column| std::cmp::Reverse(column.1));
    let descending: Vec<&str> = most_values.iter().map(|column| column.0).collect();
    let ascending: Vec<&str> = descending.iter().rev().copied().collect();
    sets.push((
        "all columns, most values first".into(),
        vec![statement("i", &descending)],
    ));
    sets.push((
        "all columns, fewest values first".into(),
        vec![statement("i", &ascending)],
    ));
    sets.push((
        "each column".into(),
        descending
            .iter()
            .enumerate()
            .map(|(at, name)| statement(&format!("i{at}"), &[name]))
            .collect(),
    ));
    // The columns of each query, those of the most queries first.
    let in_order = |columns: &[&'static str]| -> Vec<&str> {
        descending
            .iter()
            .copied()
            .filter(|name| columns.contains(name))
            .collect()
    };
    let of_queries: BTreeSet<Vec<&str>> = queries.iter().map(|(_, columns)| in_order(columns)).collect();
    let mut of_queries: Vec<Vec<&str>> = of_queries.into_iter().collect();
    let serves = |set: &Vec<&str>| {
        queries
            .iter()
            .filter(|(_, columns)| set.iter().all(|name| columns.contains(name)))
            .count()
    };
    of_queries.sort_by_key(|set| (std::cmp::Reverse(serves(set)), set.len()));
    let each = of_queries
        .iter()
        .enumerate()
        .map(|(at, set)| statement(&format!("i{at}"), set));
    sets.push(("columns of each query, as many as fit".into(), each.collect()));
    let pairs: BTreeSet<Vec<&str>> = queries
        .iter()
        .map(|(_, columns)| in_order(columns).into_iter().take(2).collect())
        .collect();
    let pairs = pairs
        .iter()
        .enumerate()
        .map(|(at, set)| statement(&format!("i{at}"), set));
    sets.push((
        "two columns of each query, as many as fit".into(),
        pairs.collect(),
    ));
    sets
}

/// Builds indexes, without those for which there is no space. Returns their bytes and their number.
async fn build(db: &Database, statements: &[String], space: u64) -> Result<(u64, usize), Failure> {
    for statement in statements {
        db.sql(statement).await?;
        let indexes = db.info()?.indexes;
        if indexes.iter().map(|index| index.bytes).sum::<u64>() > space {
            let name = statement.split_whitespace().nth(2).unwrap_or_default();
            db.drop_index(name)?;
        }
    }
    let indexes = db.info()?.indexes;
    Ok((indexes.iter().map(|index| index.bytes).sum(), indexes.len()))
}

async fn drop_all(db: &Database) -> Result<(), Failure> {
    for index in db.info()?.indexes {
        db.drop_index(&index.name)?;
    }
    Ok(())
}

/// Returns the sum of the fastest time of each query.
async fn run(db: &Database, workload: &[WorkloadQuery]) -> Result<Duration, Failure> {
    let mut sum = Duration::ZERO;
    for query in workload {
        let mut fastest = Duration::MAX;
        for _ in 0..number("HALOCLINE_BENCH_RUNS", 5).max(1) {
            let start = Instant::now();
            db.sql(&query.text).await?.collect().await?;
            fastest = fastest.min(start.elapsed());
        }
        sum += fastest;
    }
    Ok(sum)
}
