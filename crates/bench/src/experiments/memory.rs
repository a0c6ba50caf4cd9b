//! `memory`: how much DRAM import, index build, append and compaction take at their peak, against `--memory`.
//!
//! Every step is a command of the program in a process of its own, which is watched from outside: twice a
//! millisecond the kernel is asked for its anonymous resident pages. These are all that a process holds for
//! itself, whatever allocated it: heap and what the allocator keeps of it, huge pages, stacks, written pages
//! of the program. Mapped pages of the pool are the slow tier and do not count. *wide* has long strings, all
//! different; *lineitem* is TPC-H's.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use halocline_engine::{Database, DatabaseOptions};
use halocline_measure::machine;
use halocline_workloads::{
    ParquetCompression, ParquetOptions, TpchTable, WideSpec, write_parquet, write_tpch_parquet,
};

use crate::{BenchError, Reporter, Settings, TableView, config};

pub(super) const VIEWS: &[TableView] = &[TableView {
    title: "peak of anonymous resident pages of a step, in a process of its own",
    metrics: &["peak", "peak_of_budget", "time"],
    split: &["table", "budget_bytes"],
    rows: &["step", "table_bytes"],
    columns: "metric",
    base: None,
}];

const MIB: u64 = 1 << 20;
/// Time between two looks at a process.
const INTERVAL: Duration = Duration::from_micros(500);
/// Bytes of a string of table *wide*.
const STRING_BYTES: usize = 480;

/// A table, what it is indexed on, and a budget.
struct Case<'a> {
    table: &'a str,
    budget: u64,
    /// Files of the first load and of the append.
    files: &'a [OsString; 2],
    indexes: &'a [(&'a str, &'a str)],
    cluster: &'a str,
}

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let directory = settings.temporary_directory()?;
    report.set("seed", settings.seed);
    let files = wide(directory.path(), settings)?;
    let mut measure = |case: &Case<'_>| steps(case, directory.path(), settings, report);
    measure(&Case {
        table: "wide",
        budget: 64 * MIB,
        files: &files,
        indexes: &[("index, numbers", "k,g"), ("index, strings", "name")],
        cluster: "k",
    })?;
    if !settings.quick {
        let files = lineitem(directory.path(), settings)?;
        for budget in [64 * MIB, 256 * MIB] {
            measure(&Case {
                table: "lineitem",
                budget,
                files: &files,
                indexes: &[
                    ("index, numbers", "l_shipdate,l_discount,l_quantity,l_partkey"),
                    ("index, strings", "l_comment"),
                ],
                cluster: "l_shipdate,l_discount,l_quantity",
            })?;
        }
    }
    Ok(())
}

/// Runs all steps of a case.
fn steps(
    case: &Case<'_>,
    directory: &Path,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let (pool, table) = (directory.join("memory.pool"), OsString::from(case.table));
    let path = pool.clone().into_os_string();
    let word = |text: &str| OsString::from(text);
    let import = |file: &OsString| vec![word("import"), path.clone(), table.clone(), file.clone()];
    let compact = || vec![word("compact"), path.clone(), table.clone(), word("--full")];
    let mut commands = vec![("import", import(&case.files[0]))];
    for (step, columns) in case.indexes {
        let name = format!("{}_{}", case.table, columns.replace(',', "_"));
        let mut command = vec![word("index"), path.clone(), table.clone()];
        command.extend([word("--on"), word(columns), word("--name"), word(&name)]);
        commands.push((*step, command));
    }
    let mut append = import(&case.files[1]);
    append.push(word("--append"));
    commands.push(("append", append.clone()));
    commands.push(("compaction", compact()));
    let alter = format!("ALTER TABLE {} CLUSTER BY ({})", case.table, case.cluster);
    commands.push(("", vec![word("sql"), path.clone(), word(&alter)]));
    commands.push(("append, clustered", append));
    commands.push(("compaction, clustered", compact()));
    for (step, mut command) in commands {
        command.extend([word("--memory"), word(&case.budget.to_string())]);
        if let Some(threads) = settings.threads {
            command.extend([word("--threads"), word(&threads.to_string())]);
        }
        let start = Instant::now();
        let peak = peak_of(settings, &command)?;
        let seconds = start.elapsed().as_secs_f64();
        if step.is_empty() {
            continue;
        }
        let (bytes, medium) = table_and_medium(&pool)?;
        let ratio = peak as f64 / case.budget as f64;
        let config = config! {
            "table": case.table,
            "step": step,
            "budget_bytes": case.budget,
            "table_bytes": bytes,
            "threads": settings.threads(),
            "medium": medium,
        };
        report.value("halocline", &config, "peak", peak as f64, "bytes")?;
        report.value("halocline", &config, "peak_of_budget", ratio, "ratio")?;
        report.value("halocline", &config, "time", seconds, "s")?;
    }
    Ok(std::fs::remove_file(&pool)?)
}

/// Runs a command of the program and returns the peak of its anonymous DRAM in bytes, as sampled.
pub(super) fn peak_of(settings: &Settings, arguments: &[OsString]) -> Result<u64, BenchError> {
    let mut child = Command::new(settings.program_for("the process that is measured")?)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let process = child.id().to_string();
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        peak = peak.max(machine::anonymous_dram_of(&process).unwrap_or(0));
        thread::sleep(INTERVAL);
    }
    let output = child.wait_with_output()?;
    if !output.status.success() || peak == 0 {
        let text = String::from_utf8_lossy(&output.stderr);
        let command = arguments[0].to_string_lossy();
        return Err(BenchError::Setup(format!(
            "{command} ({}): {}",
            output.status,
            text.trim()
        )));
    }
    Ok(peak)
}

/// Returns the size in bytes of the tables of a pool, and the description of its storage.
fn table_and_medium(pool: &Path) -> Result<(u64, String), BenchError> {
    let options = DatabaseOptions::default().with_read_only(true);
    let info = Database::open(pool, &options)?.info()?;
    let bytes = info.tables.iter().map(|table| table.bytes).sum();
    Ok((bytes, info.pool.medium))
}

fn wide(directory: &Path, settings: &Settings) -> Result<[OsString; 2], BenchError> {
    let rows = settings.rows.unwrap_or(600_000) as u64;
    let options = ParquetOptions {
        compression: ParquetCompression::Uncompressed,
        ..ParquetOptions::default()
    };
    let write = |name: &str, first_id: u64, rows: u64| {
        let path = directory.join(name);
        let spec = WideSpec {
            first_id,
            rows,
            string_bytes: STRING_BYTES,
            seed: settings.seed,
        };
        write_parquet(&path, spec.batches(), &options)
            .map(|_| path.into_os_string())
            .map_err(|error| BenchError::Setup(error.to_string()))
    };
    Ok([
        write("wide.parquet", 0, rows)?,
        write("more.parquet", rows, rows / 10)?,
    ])
}

fn lineitem(directory: &Path, settings: &Settings) -> Result<[OsString; 2], BenchError> {
    let scale_factor = settings.scale_factor.unwrap_or(1.0);
    let options = ParquetOptions {
        compression: ParquetCompression::Snappy,
        threads: settings.threads(),
        ..ParquetOptions::default()
    };
    let write = |name: &str, scale_factor: f64| {
        let path = directory.join(name);
        write_tpch_parquet(&path, TpchTable::Lineitem, scale_factor, &options, |_| {})
            .map(|_| path.into_os_string())
            .map_err(|error| BenchError::Setup(error.to_string()))
    };
    Ok([
        write("lineitem.parquet", scale_factor)?,
        write("lineitem-more.parquet", scale_factor / 10.0)?,
    ])
}
