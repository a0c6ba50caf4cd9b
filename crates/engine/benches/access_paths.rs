//! The choice between index and scan: random conjunctions by the path that is chosen, by the index, and by
//! the scan.
//!
//! `cargo bench -p halocline-engine --bench access_paths`. `HALOCLINE_BENCH_ROWS` sets the number of rows
//! (3,000,000), `HALOCLINE_BENCH_QUERIES` the number of queries (100), `HALOCLINE_BENCH_RUNS` the turns, of
//! which the median counts (5), and `HALOCLINE_BENCH_SEED` the random conjunctions (1). Prints the time with
//! the chosen path as a ratio to that of the faster one, by selectivity.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use halocline_engine::{Database, DatabaseOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use common::{Failure, IntegerColumn, expressions, number, print};

/// The columns that queries restrict, with the number of values of each and a factor that makes them
/// independent. The index is over all but the last.
const COLUMNS: [IntegerColumn; 5] = [
    ("tax", 9, 67_867_967),
    ("discount", 11, 49_979_687),
    ("quantity", 50, 32_452_843),
    ("day", 2_556, 15_485_863),
    ("part", 200_000, 104_729),
];

/// The outputs of queries.
const OUTPUTS: [&str; 4] = [
    "count(*)",
    "count(*), sum(price)",
    "count(*), sum(price * quantity)",
    "count(*), min(note)",
];

/// The values of `halocline.index`: the choice, and each path.
const MODES: [&str; 3] = ["auto", "force", "off"];

fn main() -> Result<(), Failure> {
    print(measure())
}

async fn table(rows: u64) -> Result<Database, Failure> {
    let db = Database::in_memory(&DatabaseOptions::default())?;
    let statement = format!(
        "CREATE TABLE t AS SELECT {}, v * 31 % 1000000 AS price, 'note ' || (v * 7919) AS note \
         FROM generate_series(1, {rows}) AS s(v)",
        expressions(&COLUMNS)
    );
    db.sql(&statement).await?;
    db.sql("CREATE INDEX i ON t USING elf (tax, discount, quantity, day)")
        .await?;
    db.sql("SET datafusion.execution.target_partitions = 2").await?;
    Ok(db)
}

/// A random conjunction of conditions on one to four columns, with a random selectivity.
fn conjunction(rng: &mut StdRng) -> String {
    let count = rng.random_range(1..=4);
    let share = 10_f64.powf(rng.random_range(-6.5..-0.3) / f64::from(count));
    let chosen: Vec<_> = COLUMNS.choose_multiple(rng, count as usize).collect();
    let conditions = chosen.iter().map(|(name, values, _)| {
        let width = (*values as f64 * share) as u64;
        let low = rng.random_range(0..*values - width.min(*values - 1));
        format!("{name} BETWEEN {low} AND {}", low + width.saturating_sub(1))
    });
    let conditions: Vec<String> = conditions.collect();
    let output = OUTPUTS.choose(rng).copied().unwrap_or("count(*)");
    format!("SELECT {output} FROM t WHERE {}", conditions.join(" AND "))
}

/// Returns the milliseconds of the second of two executions, and the number of rows that match.
async fn time(db: &Database, text: &str) -> Result<(f64, i64), Failure> {
    db.sql(text).await?.collect().await?;
    let start = Instant::now();
    let batches = db.sql(text).await?.collect().await?;
    let time = start.elapsed().as_secs_f64() * 1e3;
    Ok((time, batches[0].column(0).as_primitive::<Int64Type>().value(0)))
}

async fn measure() -> Result<String, Failure> {
    let rows = number("HALOCLINE_BENCH_ROWS", 3_000_000);
    let runs = number("HALOCLINE_BENCH_RUNS", 5).max(1);
    let mut rng = StdRng::seed_from_u64(number("HALOCLINE_BENCH_SEED", 1));
    let db = table(rows).await?;
    let mut ratios: BTreeMap<i32, Vec<(f64, String)>> = BTreeMap::new();
    for _ in 0..number("HALOCLINE_BENCH_QUERIES", 100) {
        let text = conjunction(&mut rng);
        let (mut times, mut matching) = ([const { Vec::new() }; MODES.len()], 0);
        for _ in 0..runs {
            for (mode, times) in MODES.iter().zip(&mut times) {
                db.sql(&format!("SET halocline.index = {mode}")).await?;
                let (time, found) = time(&db, &text).await?;
                times.push(time);
                matching = found;
            }
        }
        let [chosen, index, scan] = times.map(median);
        let decade = (matching.max(1) as f64 / rows as f64).log10().floor() as i32;
        let line = format!("{chosen:8.3} {index:8.3} {scan:8.3} ms  {matching:9} rows  {text}");
        ratios
            .entry(decade)
            .or_default()
            .push((chosen / index.min(scan), line));
    }
    report(rows, ratios)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn report(rows: u64, ratios: BTreeMap<i32, Vec<(f64, String)>>) -> Result<String, Failure> {
    let mut report = format!("{rows} rows\nselectivity  queries  mean  worst  above 1.1\n");
    let mut all = Vec::new();
    for (decade, mut of_decade) in ratios {
        of_decade.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        let logs: f64 = of_decade.iter().map(|(ratio, _)| ratio.ln()).sum();
        writeln!(
            report,
            "  from 1e{decade:<3} {:8} {:5.2} {:6.2} {:10}",
            of_decade.len(),
            (logs / of_decade.len() as f64).exp(),
            of_decade.last().map_or(1.0, |(ratio, _)| *ratio),
            of_decade.iter().filter(|(ratio, _)| *ratio > 1.1).count()
        )?;
        all.extend(of_decade);
    }
    all.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    writeln!(
        report,
        "the five that are slowest for their best path: chosen, index, scan"
    )?;
    for (ratio, line) in all.iter().take(5) {
        writeln!(report, "{ratio:5.2}  {line}")?;
    }
    Ok(report)
}
