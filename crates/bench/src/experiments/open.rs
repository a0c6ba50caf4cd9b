//! `open`: how long a restart takes, by size of the pool: open it in a fresh process and answer the first
//! query.
//!
//! Each pool holds a table of eight integer columns and an Elf over two of them; the query is a selection
//! through that Elf. *Warm* is the restart of a process: the file is in the page cache. *Cold* is that of a
//! machine: the kernel was asked to drop the file's pages before.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema};
use halocline_emulator::Device;
use halocline_engine::{Database, DatabaseOptions, ImportOptions, IndexSpec, Order};
use halocline_measure::reopen::{Reopened, measure_in_process};
use halocline_workloads::{ParquetCompression, ParquetOptions, SplitMix64, write_parquet};
use rustix::fs::{Advice, fadvise};

use crate::medium::announce;
use crate::{BenchError, Config, Reporter, Samples, Settings, TableView, config};

pub(super) const VIEWS: &[TableView] = &[TableView {
    title: "restart: opening, first query and DRAM by size of the pool",
    metrics: &["open", "first_query", "open_and_first_query", "dram"],
    split: &[],
    rows: &["pool_bytes", "cache"],
    columns: "metric",
    base: None,
}];

const COLUMNS: usize = 8;
/// Values of the two indexed columns.
const KEYS: u64 = 1000;
/// Bytes of a row in the pool: six columns of 32 bits, two of 10, and its part of the index.
const ROW_BYTES: usize = 32;
const BATCH_ROWS: usize = 65_536;
const QUERY: &str = "SELECT count(*), sum(c2) FROM t WHERE c0 = 17 AND c1 BETWEEN 100 AND 119";

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let directory = settings.temporary_directory()?;
    let sizes: &[usize] = if settings.quick {
        &[1 << 20, 4 << 20]
    } else {
        &[10_000_000, 1_000_000_000]
    };
    let repetitions = settings.repetitions(7);
    report.set("seed", settings.seed);
    let medium = settings.pool_medium()?;
    let device = medium.as_ref().map(Device::new).transpose()?;
    announce(device.as_ref(), report)?;
    // What an emulated device delays is not added to what a disk takes.
    let states: &[bool] = if device.is_some() {
        &[false]
    } else {
        &[false, true]
    };
    for &size in sizes {
        let (pool, kind) = make_pool(directory.path(), size, settings.seed, report)?;
        report.set(
            "medium",
            (medium.as_ref()).map_or_else(|| kind.clone(), |medium| format!("{medium} over {kind}")),
        );
        for &cold in states {
            let mut open = Samples::default();
            let mut first = Samples::default();
            let mut both = Samples::default();
            let mut dram = Samples::default();
            let mut bytes = 0;
            let mut answer = None;
            for _ in 0..repetitions {
                bytes = std::fs::metadata(&pool)?.len();
                if cold {
                    drop_from_cache(&pool)?;
                }
                let restart = measure_in_process(&settings.reopen, &pool, QUERY, medium.as_ref())?;
                ensure_same(&mut answer, &restart)?;
                open.push(restart.open_ms);
                first.push(restart.first_query_ms);
                both.push(restart.open_ms + restart.first_query_ms);
                dram.push(restart.dram_bytes as f64);
            }
            let state = if cold { "cold" } else { "warm" };
            let config = config! {"pool_bytes": bytes, "cache": state, "query": QUERY};
            record(
                report,
                &config,
                &[
                    ("open", &open),
                    ("first_query", &first),
                    ("open_and_first_query", &both),
                ],
            )?;
            report.samples("halocline", &config, "dram", &dram, "bytes")?;
        }
    }
    Ok(())
}

fn record(
    report: &mut Reporter<'_>,
    config: &Config,
    metrics: &[(&str, &Samples)],
) -> Result<(), BenchError> {
    metrics
        .iter()
        .try_for_each(|(metric, samples)| report.samples("halocline", config, metric, samples, "ms"))
}

/// Fails unless the restart gives the answer of the first one, which is kept in `answer`.
fn ensure_same(answer: &mut Option<Vec<String>>, restart: &Reopened) -> Result<(), BenchError> {
    let expected = answer.get_or_insert_with(|| restart.answer.clone());
    if *expected == restart.answer {
        return Ok(());
    }
    Err(BenchError::Disagreement {
        what: QUERY.to_owned(),
        left_system: "the first restart".to_owned(),
        left: format!("{expected:?}"),
        right_system: "a later one".to_owned(),
        right: format!("{:?}", restart.answer),
    })
}

/// Creates a pool of about `size` bytes and returns its path and the description of its storage.
pub(super) fn make_pool(
    directory: &Path,
    size: usize,
    seed: u64,
    report: &mut Reporter<'_>,
) -> Result<(PathBuf, String), BenchError> {
    let file = directory.join(format!("{size}.parquet"));
    let pool = directory.join(format!("{size}.pool"));
    write_table(&file, size / ROW_BYTES, seed)?;
    let database = Database::create(&pool, &DatabaseOptions::default())?;
    let cancel = AtomicBool::new(false);
    database.import(
        "t",
        std::slice::from_ref(&file),
        &ImportOptions::default(),
        &mut |_| {},
        &cancel,
    )?;
    std::fs::remove_file(&file)?;
    database.create_index(&IndexSpec::new("t_elf", "t", ["c0", "c1"]).with_order(Order::Given))?;
    database.sync()?;
    let info = database.info()?.pool;
    report.line(&format!(
        "made a pool of {:.0} MB on a {}",
        info.used_bytes as f64 / 1e6,
        info.medium
    ))?;
    Ok((pool, info.medium))
}

fn write_table(file: &Path, rows: usize, seed: u64) -> Result<(), BenchError> {
    let fields: Vec<Field> = (0..COLUMNS)
        .map(|column| Field::new(format!("c{column}"), DataType::Int64, false))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let mut rng = SplitMix64::new(seed);
    let batches = (0..rows.div_ceil(BATCH_ROWS)).map(|batch| {
        let length = BATCH_ROWS.min(rows - batch * BATCH_ROWS);
        let columns = (0..COLUMNS).map(|column| {
            let bound = if column < 2 { KEYS } else { 1 << 32 };
            Arc::new(Int64Array::from_iter_values(
                (0..length).map(|_| rng.below(bound) as i64),
            )) as ArrayRef
        });
        RecordBatch::try_new(Arc::clone(&schema), columns.collect())
    });
    let reader = RecordBatchIterator::new(batches, Arc::clone(&schema));
    let options = ParquetOptions {
        compression: ParquetCompression::Snappy,
        ..ParquetOptions::default()
    };
    write_parquet(file, reader, &options).map_err(|error| BenchError::Setup(error.to_string()))?;
    Ok(())
}

/// Asks the kernel to drop the pages of a file that nobody has mapped.
fn drop_from_cache(path: &Path) -> Result<(), BenchError> {
    let file = File::open(path)?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(std::io::Error::from)?;
    Ok(())
}
