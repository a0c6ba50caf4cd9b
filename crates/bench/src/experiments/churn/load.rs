//! One load and a hundred appends of the same rows.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use arrow_array::{RecordBatch, RecordBatchIterator};
use halocline_emulator::Watch;
use halocline_engine::{Database, ImportOptions, IndexSpec, Order};
use halocline_workloads::{ParquetCompression, ParquetOptions, TpchTable, write_parquet};

use super::TABLE;
use crate::medium::announce;
use crate::{BenchError, Config, Reporter, Settings, config};

/// Appends.
pub(super) const PARTS: u32 = 100;
/// The columns of the index, in its order.
const INDEXED: [&str; 4] = ["l_discount", "l_quantity", "l_shipdate", "l_partkey"];

/// The same rows twice.
pub(super) struct Loaded {
    /// Loaded at once.
    pub(super) one: Database,
    /// Loaded in [`PARTS`] appends.
    pub(super) many: Database,
}

pub(super) fn load(
    directory: &Path,
    scale_factor: f64,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<Loaded, BenchError> {
    let files = write_parts(directory, scale_factor)?;
    let options = settings.database_options()?;
    let one = Database::create(&directory.join("one.pool"), &options)?;
    announce(one.device(), report)?;
    report.set("medium", one.info()?.pool.medium);
    let watch = Watch::start(one.device());
    append(&one, &files)?;
    index(&one)?;
    one.sync()?;
    let at_once = watch.elapsed().as_secs_f64();

    let many = Database::create(&directory.join("many.pool"), &options)?;
    let watch = Watch::start(many.device());
    for (at, file) in files.chunks(1).enumerate() {
        append(&many, file)?;
        if at == 0 {
            index(&many)?;
        }
        many.sync()?;
    }
    let appends = watch.elapsed().as_secs_f64();
    for file in &files {
        std::fs::remove_file(file)?;
    }

    let config = config! {"appends": PARTS, "indexed": INDEXED};
    report.value("one load", &Config::new(), "load", at_once, "s")?;
    report.value("appends", &config, "load", appends, "s")?;
    for (name, database) in [("one load", &one), ("appends", &many)] {
        let info = database.info()?;
        let segments = info.tables.first().map_or(0, |table| table.segments);
        report.value(name, &config, "segments", segments as f64, "segments")?;
        report.value(name, &config, "pool_used", info.pool.used_bytes as f64, "bytes")?;
    }
    Ok(Loaded { one, many })
}

/// Writes lineitem as [`PARTS`] Parquet files of about equal size and returns their paths.
fn write_parts(directory: &Path, scale_factor: f64) -> Result<Vec<PathBuf>, BenchError> {
    let options = ParquetOptions {
        compression: ParquetCompression::Snappy,
        ..ParquetOptions::default()
    };
    let failed = |error: &dyn std::fmt::Display| BenchError::Setup(error.to_string());
    let mut files = Vec::new();
    for part in 0..PARTS {
        let reader = TpchTable::Lineitem.reader(scale_factor, part, PARTS);
        let schema = reader.schema();
        let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().map_err(|error| failed(&error))?;
        let file = directory.join(format!("{part}.parquet"));
        let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        write_parquet(&file, reader, &options).map_err(|error| failed(&error))?;
        files.push(file);
    }
    Ok(files)
}

fn append(database: &Database, files: &[PathBuf]) -> Result<(), BenchError> {
    let options = ImportOptions::default().with_append(true);
    database.import(TABLE, files, &options, &mut |_| {}, &AtomicBool::new(false))?;
    Ok(())
}

fn index(database: &Database) -> Result<(), BenchError> {
    database.create_index(&IndexSpec::new("lineitem_elf", TABLE, INDEXED).with_order(Order::Given))?;
    Ok(())
}
