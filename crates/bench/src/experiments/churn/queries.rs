//! The same queries on one segment and on many.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

use halocline_emulator::Watch;
use halocline_engine::{CompactOptions, Database};
use halocline_measure::answer;
use halocline_workloads::{tpch_q6_sql, tpch_selections};
use tokio::runtime::Runtime;

use super::TABLE;
use super::load::Loaded;
use crate::timing::{Run, geometric_mean, interleaved};
use crate::{BenchError, Config, Reporter, Settings, config};

/// Asks all queries of both databases in turn; `state` is that of the one with the appends.
pub(super) fn compare(
    loaded: &Loaded,
    state: &str,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut ratios = Vec::new();
    for (name, sql) in queries() {
        let answers = RefCell::new([None, None]);
        let run = |at: usize, database| {
            let (runtime, sql, answers) = (&runtime, &sql, &answers);
            let run: Run<'_> = Box::new(move || {
                let (milliseconds, answer) = ask(database, runtime, sql)?;
                answers.borrow_mut()[at] = Some(answer);
                Ok(milliseconds)
            });
            run
        };
        let mut systems = [run(0, &loaded.one), run(1, &loaded.many)];
        let samples = interleaved(settings.repetitions(5), &mut systems)?;
        drop(systems);
        ensure_same(&sql, answers.into_inner())?;
        let config = config! {"query": sql, "name": name, "state": state};
        report.samples("one load", &config, "query", &samples[0], "ms")?;
        report.samples("appends", &config, "query", &samples[1], "ms")?;
        let ratio = samples[1].median() / samples[0].median();
        // On a virtual clock a query that reads nothing of the medium takes no time.
        if ratio.is_finite() && ratio > 0.0 {
            ratios.push(ratio);
        }
    }
    let mean = geometric_mean(&ratios);
    let worst = ratios.iter().copied().fold(f64::NAN, f64::max);
    let config = config! {"state": state};
    report.value("appends", &config, "query_ratio", mean, "x")?;
    report.value("appends", &config, "query_ratio.max", worst, "x")
}

/// Compacts the database with the appends.
pub(super) fn compact(loaded: &Loaded, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let watch = Watch::start(loaded.many.device());
    let options = CompactOptions::default();
    let done = loaded
        .many
        .compact(Some(TABLE), &options, &mut |_| {}, &AtomicBool::new(false))?;
    let seconds = watch.elapsed().as_secs_f64();
    report.value("appends", &Config::new(), "compaction", seconds, "s")?;
    let segments = loaded
        .many
        .info()?
        .tables
        .first()
        .map_or(0, |table| table.segments);
    let none = Config::new();
    report.value(
        "appends",
        &none,
        "compacted_segments",
        segments as f64,
        "segments",
    )?;
    report.value("appends", &none, "compacted_bytes", done.bytes as f64, "bytes")
}

fn queries() -> Vec<(String, String)> {
    let mut queries = vec![
        (
            "exact".to_owned(),
            format!(
                "SELECT count(*), sum(l_extendedprice) FROM {TABLE} \
                 WHERE l_discount = 0.05 AND l_quantity = 17 AND l_shipdate = DATE '1995-06-17'"
            ),
        ),
        ("Q6".to_owned(), tpch_q6_sql(TABLE)),
        (
            "all rows".to_owned(),
            format!(
                "SELECT l_returnflag, count(*), sum(l_quantity) FROM {TABLE} GROUP BY l_returnflag ORDER BY 1"
            ),
        ),
    ];
    let counts = tpch_selections().into_iter().map(|selection| {
        (
            format!("{}, selection", selection.name),
            selection.count_sql(TABLE),
        )
    });
    queries.extend(counts);
    queries
}

/// Runs a query and returns its time in milliseconds and the answer.
fn ask(database: &Database, runtime: &Runtime, sql: &str) -> Result<(f64, Vec<String>), BenchError> {
    let watch = Watch::start(database.device());
    let batches = runtime.block_on(async { database.sql(sql).await?.collect().await })?;
    let milliseconds = watch.elapsed().as_secs_f64() * 1e3;
    Ok((milliseconds, answer::lines(&batches)?))
}

fn ensure_same(sql: &str, answers: [Option<Vec<String>>; 2]) -> Result<(), BenchError> {
    let [left, right] = answers;
    if left == right {
        return Ok(());
    }
    Err(BenchError::Disagreement {
        what: sql.to_owned(),
        left_system: "one load".to_owned(),
        left: format!("{left:?}"),
        right_system: "the appends".to_owned(),
        right: format!("{right:?}"),
    })
}
