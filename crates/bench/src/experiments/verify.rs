//! `verify`: what it costs to compare stored bytes with their checksums when they are first read.
//!
//! Three handles of one pool, with `halocline.verify` set to off, lazy and always, take turns with the same
//! queries. *First* is the first run of a query after opening, which verifies in the mode `lazy` what it
//! reads; *warm* are the later ones. The file is in the page cache, so that a first run shows the checksums
//! and no disk.

use std::path::Path;
use std::time::Instant;

use halocline_engine::{Database, DatabaseOptions};
use halocline_measure::answer;
use tokio::runtime::{Builder, Runtime};

use super::open::make_pool;
use crate::timing::{Run, interleaved};
use crate::{BenchError, Reporter, Samples, Settings, TableView, config};

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "time of the first query after opening, and of opening",
        metrics: &["open", "first_query"],
        split: &[],
        rows: &["name", "metric"],
        columns: "verify",
        base: Some("off"),
    },
    TableView {
        title: "time of later queries",
        metrics: &["warm_query"],
        split: &[],
        rows: &["name"],
        columns: "verify",
        base: Some("off"),
    },
];

const MODES: [&str; 3] = ["off", "lazy", "always"];

/// Name and text.
const QUERIES: [(&str, &str); 4] = [
    (
        "index, one key",
        "SELECT count(*), sum(c2) FROM t WHERE c0 = 17 AND c1 = 105",
    ),
    (
        "index, range",
        "SELECT count(*), sum(c2) FROM t WHERE c0 = 17 AND c1 BETWEEN 100 AND 119",
    ),
    (
        "scan of two columns",
        "SELECT count(*), sum(c2) FROM t WHERE c3 < 1000000000",
    ),
    (
        "groups",
        "SELECT c0, count(*), max(c4) FROM t GROUP BY c0 ORDER BY c0",
    ),
];

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let directory = settings.temporary_directory()?;
    let size = if settings.quick { 4 << 20 } else { 400_000_000 };
    let repetitions = settings.repetitions(15);
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    report.set("seed", settings.seed);
    let (pool, kind) = make_pool(directory.path(), size, settings.seed, report)?;
    report.set("medium", kind);
    for (name, query) in QUERIES {
        let (mut first, mut opening) = (
            vec![Samples::default(); MODES.len()],
            vec![Samples::default(); MODES.len()],
        );
        for _ in 0..settings.repetitions(5) {
            for (at, mode) in MODES.iter().enumerate() {
                let started = Instant::now();
                let database = open(&pool, settings)?;
                opening[at].push(milliseconds(started));
                set(&runtime, &database, mode)?;
                first[at].push(ask(&runtime, &database, query)?.0);
            }
        }
        let handles = MODES.map(|mode| {
            let database = open(&pool, settings)?;
            set(&runtime, &database, mode)?;
            Ok::<_, BenchError>(database)
        });
        let handles = handles.into_iter().collect::<Result<Vec<_>, _>>()?;
        let expected = ask(&runtime, &handles[0], query)?.1;
        let mut systems: Vec<Run<'_>> = handles
            .iter()
            .map(|database| {
                let (runtime, expected) = (&runtime, &expected);
                let run: Run<'_> = Box::new(move || {
                    let (time, found) = ask(runtime, database, query)?;
                    ensure_same(query, expected, &found)?;
                    Ok(time)
                });
                run
            })
            .collect();
        let warm = interleaved(repetitions, &mut systems)?;
        drop(systems);
        for (at, mode) in MODES.iter().enumerate() {
            let config = config! {"verify": *mode, "query": query, "name": name};
            report.samples("halocline", &config, "open", &opening[at], "ms")?;
            report.samples("halocline", &config, "first_query", &first[at], "ms")?;
            report.samples("halocline", &config, "warm_query", &warm[at], "ms")?;
        }
    }
    Ok(())
}

fn open(pool: &Path, settings: &Settings) -> Result<Database, BenchError> {
    let options = DatabaseOptions::default()
        .with_read_only(true)
        .with_threads(Some(settings.threads()));
    Ok(Database::open(pool, &options)?)
}

fn set(runtime: &Runtime, database: &Database, mode: &str) -> Result<(), BenchError> {
    runtime.block_on(database.sql(&format!("SET halocline.verify = {mode}")))?;
    Ok(())
}

/// Runs a query and returns the milliseconds from its text to its last row, and the rows.
fn ask(runtime: &Runtime, database: &Database, query: &str) -> Result<(f64, Vec<String>), BenchError> {
    let started = Instant::now();
    let found = runtime.block_on(async { database.sql(query).await?.collect().await })?;
    Ok((milliseconds(started), answer::lines(&found)?))
}

fn ensure_same(query: &str, expected: &[String], found: &[String]) -> Result<(), BenchError> {
    if expected == found {
        return Ok(());
    }
    Err(BenchError::Disagreement {
        what: query.to_owned(),
        left_system: "without verification".to_owned(),
        left: format!("{expected:?}"),
        right_system: "with it".to_owned(),
        right: format!("{found:?}"),
    })
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
