//! The files: Parquet as `halocline generate ssb` writes it, and pools made of it, each once.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::{Database, DatabaseOptions, ImportOptions};
use halocline_workloads::{ParquetOptions, SsbTable, write_ssb_parquet};

use super::variant::PoolSpec;
use crate::experiments::sql::{self, PoolDirectory};
use crate::{BenchError, Reporter, Settings};

/// Where the files are.
pub(super) struct Data(PoolDirectory);

/// Size of a pool and of the files it was imported from.
pub(super) struct Sizes {
    pub(super) stored: PoolSpec,
    pub(super) path: PathBuf,
    /// Rows of lineorder.
    pub(super) rows: u64,
    /// Bytes of lineorder in the pool.
    pub(super) lineorder: u64,
    /// Bytes of all tables.
    pub(super) tables: u64,
    /// Bytes of lineorder as Parquet.
    pub(super) parquet_lineorder: u64,
    /// Bytes of all Parquet files.
    pub(super) parquet: u64,
    /// Seconds in which lineorder was imported and synced, if this run did that.
    pub(super) import: Option<f64>,
}

impl Data {
    pub(super) fn new(settings: &Settings) -> Result<Self, BenchError> {
        PoolDirectory::new(settings).map(Self)
    }

    /// Returns the directory of a scale factor.
    fn directory(&self, scale_factor: f64) -> PathBuf {
        self.0.join(format!("sf{scale_factor}"))
    }

    /// Returns the path of the file of a pool.
    pub(super) fn pool(&self, stored: &PoolSpec) -> PathBuf {
        self.directory(stored.scale_factor).join(stored.file())
    }

    fn parquet(&self, scale_factor: f64, table: SsbTable) -> PathBuf {
        self.directory(scale_factor).join(format!("{table}.parquet"))
    }

    /// Makes what is not there yet of a pool and its Parquet files.
    pub(super) fn prepare(
        &self,
        stored: &PoolSpec,
        settings: &Settings,
        report: &mut Reporter<'_>,
    ) -> Result<Sizes, BenchError> {
        let scale_factor = stored.scale_factor;
        fs::create_dir_all(self.directory(scale_factor))?;
        let mut bytes = vec![];
        for table in SsbTable::ALL {
            let path = self.parquet(scale_factor, table);
            sql::whole(&path, |path| {
                let options = ParquetOptions {
                    threads: settings.threads(),
                    ..ParquetOptions::default()
                };
                write_ssb_parquet(path, table, scale_factor, &options, |_| {})
                    .map(drop)
                    .map_err(|error| BenchError::Setup(error.to_string()))
            })?;
            bytes.push((table, fs::metadata(&path)?.len()));
        }
        let path = self.pool(stored);
        let mut import = None;
        sql::whole(&path, |path| {
            import = Some(self.import(path, stored, settings)?);
            Ok(())
        })?;
        let options = DatabaseOptions::default().with_read_only(true);
        let tables = Database::open(&path, &options)?.info()?.tables;
        let lineorder = tables
            .iter()
            .find(|table| table.name == SsbTable::Lineorder.name())
            .ok_or_else(|| BenchError::Setup(format!("{} has no lineorder; remove it", path.display())))?;
        let sizes = Sizes {
            stored: stored.clone(),
            rows: lineorder.rows,
            lineorder: lineorder.bytes,
            tables: tables.iter().map(|table| table.bytes).sum(),
            parquet_lineorder: bytes.last().map_or(0, |(_, bytes)| *bytes),
            parquet: bytes.iter().map(|(_, bytes)| bytes).sum(),
            import,
            path,
        };
        report.line(&match import {
            Some(seconds) => format!(
                "{stored}: {} rows of lineorder imported in {seconds:.1} s",
                sizes.rows
            ),
            None => format!("{stored}: {} was there", sizes.path.display()),
        })?;
        Ok(sizes)
    }

    /// Imports all tables and returns the seconds that lineorder took, including its sync.
    fn import(&self, path: &Path, stored: &PoolSpec, settings: &Settings) -> Result<f64, BenchError> {
        let options = DatabaseOptions::default().with_threads(Some(settings.threads()));
        let database = Database::create(path, &options)?;
        let mut seconds = 0.0;
        for table in SsbTable::ALL {
            let mut options = ImportOptions::default().with_encoding(stored.encoding);
            if table == SsbTable::Lineorder {
                options.cluster = stored.sort.iter().cloned().collect();
            }
            let file = self.parquet(stored.scale_factor, table);
            seconds = sql::import(&database, table.name(), file, &options)?;
        }
        Ok(seconds)
    }
}
