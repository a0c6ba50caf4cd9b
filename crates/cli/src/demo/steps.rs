//! The steps of the demo, each measured.

use std::fs;
use std::io::{Stdout, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use arrow_array::RecordBatch;
use halocline_bench::{answer, reopen, reopen::Reopened};
use halocline_engine::{
    Database, EngineError, ImportOptions, ImportReport, IndexInfo, IndexSpec, Layout, Order,
};
use tokio::runtime::Runtime;

use super::queries::{DemoQuery, INDEXED};
use crate::args::OpenArgs;
use crate::commands::current_program;
use crate::error::CliError;
use crate::interrupt::Guard;
use crate::output::plain_table;
use crate::size::{display, grouped};
use crate::{opening, progress, sql};

pub(crate) const PARQUET: &str = "lineitem.parquet";
pub(crate) const POOL: &str = "demo.pool";

/// How often each query runs each way; the fastest run counts.
const RUNS: usize = 3;

/// The generated file.
pub(crate) struct Generated {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

/// Writes the file in a process of its own, whose memory then is not counted as ours.
pub(crate) fn generate(scale_factor: f64, file: &Path) -> Result<Generated, CliError> {
    let start = Instant::now();
    let output = Command::new(current_program()?)
        .args(["internal", "generate", &scale_factor.to_string()])
        .arg(file)
        .stderr(Stdio::inherit())
        .output()?;
    let rows = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .ok()
        .filter(|_| output.status.success());
    let rows = rows.ok_or_else(|| CliError::failed("the data could not be generated"))?;
    Ok(Generated {
        rows,
        bytes: fs::metadata(file)?.len(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Makes the pool and imports the file.
pub(crate) fn import(
    open: &OpenArgs,
    file: &Path,
    pool: &Path,
) -> Result<(Database, ImportReport), CliError> {
    let database = Database::create(pool, &opening::options(open, false))?;
    let guard = Guard::new();
    let bar = progress::bytes(0);
    bar.set_message("importing");
    let files = [file.to_owned()];
    let report = database.import(
        "lineitem",
        &files,
        &ImportOptions::default(),
        &mut |state| {
            bar.set_length(state.total_bytes);
            bar.set_position(state.bytes);
        },
        guard.requested(),
    );
    bar.finish_and_clear();
    let report = report?;
    guard.end()?;
    Ok((database, report))
}

/// Builds the index; returns it and the seconds it took.
pub(crate) fn index(database: &Database) -> Result<(IndexInfo, f64), CliError> {
    let spinner = progress::spinner("building the index");
    let start = Instant::now();
    let index = database.create_index(&IndexSpec {
        name: "lineitem_elf".to_owned(),
        table: "lineitem".to_owned(),
        columns: INDEXED.map(str::to_owned).to_vec(),
        layout: Layout::Packed,
        order: Order::Auto,
    })?;
    spinner.finish_and_clear();
    Ok((index, start.elapsed().as_secs_f64()))
}

/// One query, answered both ways.
pub(crate) struct Answer {
    pub(crate) lines: Vec<String>,
    without_ms: f64,
    with_ms: f64,
    /// True if the engine chooses the index by itself.
    chosen: bool,
}

/// Runs every query without and with the index.
///
/// # Errors
/// A query fails, or its two answers differ.
pub(crate) fn compare(database: &Database, queries: &[DemoQuery]) -> Result<Vec<Answer>, CliError> {
    let session = |mode: &str| -> Result<Database, CliError> {
        let session = database.session();
        collect(&session, &format!("SET halocline.index = '{mode}'"))?;
        Ok(session)
    };
    let (off, force, auto) = (session("off")?, session("force")?, session("auto")?);
    let bar = progress::steps(queries.len() as u64);
    let mut answers = Vec::new();
    for query in queries {
        bar.set_message(query.name.clone());
        let (mut without_ms, mut with_ms) = (f64::INFINITY, f64::INFINITY);
        let mut lines = Vec::new();
        for _ in 0..RUNS {
            let (left, left_ms) = timed(&off, &query.sql)?;
            let (right, right_ms) = timed(&force, &query.sql)?;
            if left != right {
                return Err(CliError::failed(format!(
                    "the answers of `{}` differ: {left:?} without the index, {right:?} with it",
                    query.name
                )));
            }
            (without_ms, with_ms) = (without_ms.min(left_ms), with_ms.min(right_ms));
            lines = left;
        }
        let plan = answer::lines(&collect(&auto, &format!("EXPLAIN {}", query.sql))?)?;
        let chosen = plan.iter().any(|line| line.contains("ElfScan"));
        answers.push(Answer {
            lines,
            without_ms,
            with_ms,
            chosen,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(answers)
}

/// The query that is repeated behind the restart: the range, which needs the index most.
pub(crate) fn to_repeat<'a>(queries: &'a [DemoQuery], answers: &'a [Answer]) -> (&'a DemoQuery, &'a Answer) {
    (&queries[1], &answers[1])
}

/// Opens the pool in a fresh process and runs the query twice.
pub(crate) fn restart(pool: &Path, query: &DemoQuery) -> Result<Reopened, CliError> {
    let command = [
        current_program()?.into_os_string(),
        "internal".into(),
        "reopen".into(),
    ];
    Ok(reopen::measure_in_process(&command, pool, &query.sql, None)?)
}

pub(crate) fn print_answers(
    queries: &[DemoQuery],
    answers: &[Answer],
    out: &mut Stdout,
) -> Result<(), CliError> {
    let mut table = plain_table(6);
    table.set_header([
        "query",
        "rows",
        "without, ms",
        "with, ms",
        "speed-up",
        "by itself uses",
    ]);
    for (query, answer) in queries.iter().zip(answers) {
        let rows = answer
            .lines
            .first()
            .and_then(|line| line.split('|').next()?.parse().ok())
            .unwrap_or(0);
        table.add_row([
            query.name.clone(),
            grouped(rows),
            format!("{:.2}", answer.without_ms),
            format!("{:.2}", answer.with_ms),
            format!("{:.1}x", answer.without_ms / answer.with_ms),
            if answer.chosen { "the index" } else { "a scan" }.to_owned(),
        ]);
    }
    right_align(&mut table, 1..5);
    Ok(writeln!(out, "{table}")?)
}

pub(crate) fn print_bytes(
    generated: &Generated,
    imported: &ImportReport,
    index: &IndexInfo,
    pool: &Path,
    dram: u64,
    out: &mut Stdout,
) -> Result<(), CliError> {
    let mut table = plain_table(2);
    table.set_header(["what", "bytes"]);
    let mut row = |what: &str, bytes: u64| {
        table.add_row([what.to_owned(), display(bytes)]);
    };
    row("Parquet file", generated.bytes);
    row("table in the pool", imported.stored_bytes);
    row("index in the pool", index.bytes);
    row("pool file", fs::metadata(pool)?.len());
    row(
        "DRAM of the restarted process (anonymous resident pages, measured)",
        dram,
    );
    right_align(&mut table, 1..2);
    Ok(writeln!(out, "{table}")?)
}

fn right_align(table: &mut comfy_table::Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
}

/// Runs a statement and takes all of its rows.
pub(crate) fn collect(database: &Database, text: &str) -> Result<Vec<RecordBatch>, CliError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = match RUNTIME.get() {
        Some(runtime) => runtime,
        None => {
            let runtime = sql::runtime()?;
            RUNTIME.get_or_init(|| runtime)
        }
    };
    let batches: Result<_, EngineError> =
        runtime.block_on(async { database.sql(text).await?.collect().await });
    Ok(batches?)
}

/// The answer and the milliseconds it took.
fn timed(database: &Database, text: &str) -> Result<(Vec<String>, f64), CliError> {
    let start = Instant::now();
    let batches = collect(database, text)?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    Ok((answer::lines(&batches)?, milliseconds))
}
