//! The pool of all tables, made once: Parquet files as `halocline generate tpch` writes them, and their
//! import.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::{Database, DatabaseOptions, ImportOptions};
use halocline_workloads::{ParquetOptions, TpchTable, tpch_queries, write_tpch_parquet};

use crate::experiments::sql::{self, NO_DRAM, PoolDirectory, query_peak};
use crate::{BenchError, Reporter, Settings, config};

/// The pool with the tables.
pub(super) struct TpchPool {
    pub(super) path: PathBuf,
    /// Seconds in which all tables were imported and synced, if this run did that.
    import: Option<f64>,
    /// Rows of all tables.
    pub(super) rows: u64,
    /// The medium of its file, in words.
    medium: String,
    /// Keeps a temporary directory.
    _directory: PoolDirectory,
}

impl TpchPool {
    /// Makes what is not there yet of the pool and its Parquet files.
    ///
    /// # Errors
    /// There is no room for them; the pool that is there has no lineitem.
    pub(super) fn prepare(
        scale_factor: f64,
        settings: &Settings,
        report: &mut Reporter<'_>,
    ) -> Result<Self, BenchError> {
        let directory = PoolDirectory::new(settings)?;
        let place = directory.join(format!("tpch-sf{scale_factor}"));
        fs::create_dir_all(&place)?;
        let path = place.join("tables.pool");
        let mut import = None;
        sql::whole(&path, |path| {
            import = Some(make(path, &place, scale_factor, settings)?);
            Ok(())
        })?;
        let options = DatabaseOptions::default().with_read_only(true);
        let info = Database::open(&path, &options)?.info()?;
        let is_complete = |table: &TpchTable| info.tables.iter().any(|there| there.name == table.name());
        if let Some(missing) = TpchTable::ALL.iter().find(|table| !is_complete(table)) {
            return Err(BenchError::Setup(format!(
                "{} has no {missing}; remove it",
                path.display()
            )));
        }
        let rows = info.tables.iter().map(|table| table.rows).sum();
        report.line(&match import {
            Some(seconds) => format!("TPC-H, SF {scale_factor}: {rows} rows imported in {seconds:.1} s"),
            None => format!("TPC-H, SF {scale_factor}: {} was there", path.display()),
        })?;
        Ok(Self {
            path,
            import,
            rows,
            medium: info.pool.medium,
            _directory: directory,
        })
    }

    /// Reports the rate of the import, and the peaks of anonymous DRAM of a process that runs all queries and
    /// of one that only opens the pool; these take the program.
    pub(super) fn values(
        &self,
        scale_factor: f64,
        settings: &Settings,
        report: &mut Reporter<'_>,
    ) -> Result<(), BenchError> {
        let config = config! {"rows": self.rows, "medium": self.medium.clone()};
        let system = "halocline";
        if let Some(seconds) = self.import {
            let rate = self.rows as f64 / seconds;
            report.value(system, &config, "import", rate, "rows/s")?;
        }
        if settings.program.is_none() {
            return report.line(NO_DRAM);
        }
        let queries: Vec<String> = tpch_queries(scale_factor)
            .into_iter()
            .map(|query| query.sql)
            .collect();
        for (metric, statements) in [
            ("dram_peak", queries.join(";\n")),
            ("dram_opened", "SELECT count(*) FROM region".to_owned()),
        ] {
            let peak = query_peak(&self.path, &statements, settings)?;
            report.value(system, &config, metric, peak as f64, "bytes")?;
        }
        Ok(())
    }
}

/// Generates and imports all tables, and returns the seconds that the imports took.
fn make(path: &Path, place: &Path, scale_factor: f64, settings: &Settings) -> Result<f64, BenchError> {
    let options = DatabaseOptions::default().with_threads(Some(settings.threads()));
    let database = Database::create(path, &options)?;
    let mut seconds = 0.0;
    for table in TpchTable::ALL {
        let file = place.join(format!("{table}.parquet"));
        sql::whole(&file, |file| {
            let options = ParquetOptions {
                threads: settings.threads(),
                ..ParquetOptions::default()
            };
            write_tpch_parquet(file, table, scale_factor, &options, |_| {})
                .map(drop)
                .map_err(|error| BenchError::Setup(error.to_string()))
        })?;
        seconds += sql::import(&database, table.name(), file, &ImportOptions::default())?;
    }
    Ok(seconds)
}
