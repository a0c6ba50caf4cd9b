//! The data of the experiment: a Parquet file, a pool with the table and its indexes.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use halocline_engine::{Database, DatabaseOptions, ImportOptions, IndexInfo, IndexSpec, Order};
use halocline_workloads::{ParquetOptions, TpchTable, lineitem_selection_columns, write_tpch_parquet};

use crate::{BenchError, Config, Reporter, Settings, config};

pub(super) const TABLE: &str = "lineitem";
pub(super) const INDEX: &str = "lineitem_elf";
/// The columns of many values, each of which comes first in an index of its own.
pub(super) const LEADS: [&str; 7] = [
    "l_orderkey",
    "l_partkey",
    "l_suppkey",
    "l_extendedprice",
    "l_shipdate",
    "l_commitdate",
    "l_receiptdate",
];

/// Where the data is.
pub(super) struct Prepared {
    pub(super) parquet: PathBuf,
    pub(super) pool: PathBuf,
}

/// Generates, imports and indexes; reports how long and how large.
pub(super) fn prepare(
    directory: &Path,
    scale_factor: f64,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<Prepared, BenchError> {
    let parquet = directory.join("lineitem.parquet");
    let pool = directory.join("lineitem.pool");
    let options = ParquetOptions {
        threads: settings.threads(),
        ..ParquetOptions::default()
    };
    write_tpch_parquet(&parquet, TpchTable::Lineitem, scale_factor, &options, |_| {})
        .map_err(|error| BenchError::Setup(error.to_string()))?;

    let database_options = DatabaseOptions::default().with_threads(Some(settings.threads()));
    let database = Database::create(&pool, &database_options)?;
    let cancel = AtomicBool::new(false);
    let import = database.import(
        TABLE,
        std::slice::from_ref(&parquet),
        &ImportOptions::default(),
        &mut |_| {},
        &cancel,
    )?;
    report.set("medium", database.info()?.pool.medium);
    let (indexes, seconds) = index(&database, report)?;
    let config = config! {"indexes": indexes.len()};
    let bytes: u64 = indexes.iter().map(|index| index.bytes).sum();
    report.value(
        "halocline",
        &Config::new(),
        "import",
        import.elapsed.as_secs_f64(),
        "s",
    )?;
    report.value(
        "halocline",
        &Config::new(),
        "table_size",
        import.stored_bytes as f64,
        "bytes",
    )?;
    report.value("elf-set", &config, "build", seconds, "s")?;
    report.value("elf-set", &config, "size", bytes as f64, "bytes")?;
    report.line(&format!(
        "TPC-H lineitem, scale factor {scale_factor}: imported in {:.1} s ({:.0} MB)",
        import.elapsed.as_secs_f64(),
        import.stored_bytes as f64 / 1e6,
    ))?;
    report.line(&format!(
        "elf-set: {} indexes in {seconds:.1} s ({:.0} MB), that one and each column of many values put first",
        indexes.len(),
        bytes as f64 / 1e6
    ))?;
    Ok(Prepared { parquet, pool })
}

/// Builds all indexes, reports the first one; returns them and the seconds of all.
fn index(database: &Database, report: &mut Reporter<'_>) -> Result<(Vec<IndexInfo>, f64), BenchError> {
    let start = Instant::now();
    let build = |name: &str, columns: Vec<String>, order| {
        database.create_index(&IndexSpec::new(name, TABLE, columns).with_order(order))
    };
    let all = lineitem_selection_columns().map(str::to_owned).to_vec();
    let mut indexes = vec![build(INDEX, all, Order::Auto)?];
    let seconds = start.elapsed().as_secs_f64();
    let order = indexes[0].columns.clone();
    report.set("index_columns", order.clone());
    report.value("elf", &Config::new(), "build", seconds, "s")?;
    report.value("elf", &Config::new(), "size", indexes[0].bytes as f64, "bytes")?;
    report.line(&format!(
        "elf: one index in {seconds:.1} s ({:.0} MB) over {}",
        indexes[0].bytes as f64 / 1e6,
        order.join(", ")
    ))?;
    for lead in LEADS {
        let mut columns = vec![lead.to_owned()];
        columns.extend(order.iter().filter(|column| *column != lead).cloned());
        indexes.push(build(&format!("{INDEX}_{lead}"), columns, Order::Given)?);
    }
    Ok((indexes, start.elapsed().as_secs_f64()))
}
