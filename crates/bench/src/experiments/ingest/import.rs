//! Importing a Parquet file, without and with an index.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use halocline_emulator::Watch;
use halocline_engine::{Database, ImportOptions, IndexSpec};
use halocline_workloads::{ParquetCompression, ParquetOptions, TpchTable, write_tpch_parquet};

use crate::timing::{Run, interleaved};
use crate::{BenchError, Reporter, Settings, config};

/// The columns of the index.
const INDEXED: [&str; 4] = ["l_shipdate", "l_discount", "l_quantity", "l_partkey"];
const NAMES: [&str; 2] = ["import", "import and Elf"];

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let scale_factor = settings
        .scale_factor
        .unwrap_or(if settings.quick { 0.01 } else { 1.0 });
    let directory = settings.temporary_directory()?;
    let file = directory.path().join("lineitem.parquet");
    let options = ParquetOptions {
        compression: ParquetCompression::Snappy,
        threads: settings.threads(),
        ..ParquetOptions::default()
    };
    let rows = write_tpch_parquet(&file, TpchTable::Lineitem, scale_factor, &options, |_| {})
        .map_err(|error| BenchError::Setup(error.to_string()))?;
    let medium = RefCell::new(String::new());
    let run = |with_index| {
        let (file, medium) = (&file, &medium);
        let run: Run<'_> =
            Box::new(move || import(file, settings, with_index, rows, &mut medium.borrow_mut()));
        run
    };
    let samples = interleaved(settings.repetitions(3), &mut [run(false), run(true)])?;
    let medium = medium.into_inner();
    for (name, samples) in NAMES.iter().zip(&samples) {
        let config = config! {
            "scale_factor": scale_factor,
            "rows": rows,
            "threads": settings.threads(),
            "medium": medium,
            "indexed": if *name == NAMES[0] { &[][..] } else { &INDEXED[..] },
        };
        report.samples(name, &config, "rate", samples, "rows/s")?;
    }
    Ok(())
}

/// Imports the file into a new pool and returns the rows per second, up to the end of the sync. Sets `medium`
/// to the description of the storage of the pool.
fn import(
    file: &Path,
    settings: &Settings,
    with_index: bool,
    rows: u64,
    medium: &mut String,
) -> Result<f64, BenchError> {
    let directory = settings.temporary_directory()?;
    let options = settings.database_options()?;
    let database = Database::create(&directory.path().join("ingest.pool"), &options)?;
    let watch = Watch::start(database.device());
    let imported = database.import(
        "lineitem",
        &[file.to_owned()],
        &ImportOptions::default(),
        &mut |_| {},
        &AtomicBool::new(false),
    )?;
    if with_index {
        database.create_index(&IndexSpec::new("lineitem_elf", "lineitem", INDEXED))?;
    }
    database.sync()?;
    let seconds = watch.elapsed().as_secs_f64();
    if imported.rows != rows {
        return Err(BenchError::Disagreement {
            what: "rows of lineitem".to_owned(),
            left_system: "the file".to_owned(),
            left: rows.to_string(),
            right_system: "the import".to_owned(),
            right: imported.rows.to_string(),
        });
    }
    *medium = database.info()?.pool.medium;
    Ok(rows as f64 / seconds)
}
