//! The directory of an experiment's Parquet files and pools, which a later run uses again if the caller names
//! it.
//!
//! A file has its name only when it is whole, so that what is found can be used.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use halocline_engine::{Database, ImportOptions};
use tempfile::TempDir;

use crate::{BenchError, Settings};

/// A directory for files that are made once.
pub(in crate::experiments) struct PoolDirectory {
    directory: PathBuf,
    /// Removed with this, unless the caller wants to keep it.
    _temporary: Option<TempDir>,
}

impl PoolDirectory {
    /// Returns the directory of the settings, or else a temporary one.
    pub(in crate::experiments) fn new(settings: &Settings) -> Result<Self, BenchError> {
        if let Some(directory) = &settings.directory {
            return Ok(Self {
                directory: directory.clone(),
                _temporary: None,
            });
        }
        let temporary = settings.temporary_directory()?;
        Ok(Self {
            directory: temporary.path().to_owned(),
            _temporary: Some(temporary),
        })
    }

    /// Returns the path of a file or directory in it.
    pub(in crate::experiments) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }
}

/// Has a file made under another name, unless it is there.
pub(in crate::experiments) fn whole(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    if path.exists() {
        return Ok(());
    }
    let unfinished = path.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_file(&unfinished)?;
    }
    make(&unfinished)?;
    Ok(fs::rename(&unfinished, path)?)
}

/// Imports a file as a table and returns the seconds until it was synced.
pub(in crate::experiments) fn import(
    database: &Database,
    table: &str,
    file: PathBuf,
    options: &ImportOptions,
) -> Result<f64, BenchError> {
    let start = Instant::now();
    database.import(table, &[file], options, &mut |_| {}, &AtomicBool::new(false))?;
    database.sync()?;
    Ok(start.elapsed().as_secs_f64())
}
