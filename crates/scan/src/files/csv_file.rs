//! CSV files as tables of a query: read by the import reader, so that type inference never changes a value.
//!
//! That holds for paths in place of a table's name, with wildcards or not, and for external tables whose
//! columns are not declared. Files that the reader of imports cannot read (compressed ones, or with options
//! that it does not have) are left to DataFusion, with all columns as text.
//!
//! The types of large files come from a sample. A value of another kind makes the statement be planned again
//! with wider types as long as it has returned no row; the session caches the inferred types until the file
//! changes.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::CreateExternalTable;
use halocline_import::{CsvSource, ImportOptions, QuoteOption};
use halocline_sql::error::external;

use super::csv_scan::{CsvTable, ScanState};

/// Tables by the paths of files: CSV files by the reader of imports, all others by DataFusion.
#[derive(Debug)]
pub struct FileTables {
    listing: DynamicListTableFactory,
    known: Mutex<KnownFiles>,
    scans: StartedScans,
}

impl FileTables {
    /// Creates a factory that leaves files of other formats to `listing`.
    pub fn new(listing: DynamicListTableFactory) -> Self {
        Self {
            listing,
            known: Mutex::default(),
            scans: StartedScans::default(),
        }
    }

    /// Returns the scans of CSV files that the session has started lately.
    pub fn scans(&self) -> &StartedScans {
        &self.scans
    }

    /// Returns what is known of some CSV files; reads them if they are new or have changed.
    async fn source(&self, paths: Vec<PathBuf>) -> Result<Arc<CsvSource>> {
        let files: Vec<FileIdentity> = paths.iter().map(|path| FileIdentity::from_path(path)).collect();
        let found = self.known().iter().find(|(known, _)| *known == files).cloned();
        if let Some((_, source)) = found {
            return Ok(source);
        }
        let source = open(paths, ImportOptions::default()).await?;
        let mut known = self.known();
        let same_paths = |(other, _): &(Vec<FileIdentity>, Arc<CsvSource>)| {
            other
                .iter()
                .map(|file| &file.path)
                .eq(files.iter().map(|file| &file.path))
        };
        known.retain(|other| !same_paths(other));
        if known.len() >= MAX_KNOWN_TABLES {
            known.remove(0);
        }
        known.push((files, Arc::clone(&source)));
        Ok(source)
    }

    fn known(&self) -> MutexGuard<'_, KnownFiles> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, url: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !is_text(Path::new(url)) {
            return self.listing.try_new(url).await;
        }
        match matching(url) {
            paths if paths.is_empty() => self.listing.try_new(url).await,
            paths => {
                let source = self.source(paths).await?;
                Ok(Some(Arc::new(CsvTable::for_statement(
                    source,
                    self.scans.clone(),
                ))))
            }
        }
    }
}

/// Returns the provider of an external table over CSV files whose columns are to be inferred; `None` if
/// DataFusion is to make it, whose options are then changed so that it infers nothing but text.
///
/// # Errors
/// A file cannot be read, is malformed, or has other columns than the first one.
pub async fn external_csv(
    create: &mut CreateExternalTable,
    scans: &StartedScans,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let declared = !create.schema.fields().is_empty();
    if declared || !create.file_type.eq_ignore_ascii_case("csv") {
        return Ok(None);
    }
    let plain = create.table_partition_cols.is_empty() && create.order_exprs.is_empty() && !create.unbounded;
    let paths: Vec<PathBuf> = create
        .locations
        .iter()
        .flat_map(|location| files_at(location))
        .collect();
    if let Some(options) = import_options(create).filter(|_| plain)
        && !paths.is_empty()
        && paths.iter().all(|path| is_text(path))
    {
        let source = open(paths, options).await?;
        return Ok(Some(Arc::new(CsvTable::for_session(source, scans.clone()))));
    }
    let all_text = ("format.schema_infer_max_rec".into(), "0".into());
    create.options.extend([all_text]);
    Ok(None)
}

/// Returns the options of an external table as those of an import; `None` if there is one that an import does
/// not have.
fn import_options(create: &CreateExternalTable) -> Option<ImportOptions> {
    let mut options = ImportOptions::default();
    let one = |text: &str| <[u8; 1]>::try_from(text.as_bytes()).ok().map(|[byte]| byte);
    for (name, value) in &create.options {
        match name.strip_prefix("format.").unwrap_or(name) {
            "has_header" => options.header = Some(value.parse().ok()?),
            "delimiter" => options.delimiter = Some(one(value)?),
            "quote" => options.quote = QuoteOption::Char(one(value)?),
            "schema_infer_max_rec" => {}
            _ => return None,
        }
    }
    Some(options)
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|e| e.eq_ignore_ascii_case("csv") || e.eq_ignore_ascii_case("tsv"))
}

/// Returns the files at a location of an external table: a file, all CSV files of a directory, or those that
/// match a pattern.
fn files_at(location: &str) -> Vec<PathBuf> {
    let location = location.strip_prefix("file://").unwrap_or(location);
    if Path::new(location).is_dir() {
        let directory = glob::Pattern::escape(location.trim_end_matches('/'));
        matching(&format!("{directory}/*.csv"))
    } else {
        matching(location)
    }
}

/// Returns the file of this name, or else those that match it as a pattern, sorted.
fn matching(pattern: &str) -> Vec<PathBuf> {
    if Path::new(pattern).is_file() {
        return vec![pattern.into()];
    }
    let found = glob::glob(pattern).into_iter().flatten();
    found
        .filter_map(Result::ok)
        .filter(|path| path.is_file())
        .collect()
}

/// The states of the scans of CSV files that a session has started lately. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct StartedScans(Arc<Mutex<Vec<Arc<ScanState>>>>);

/// Scan states kept at most; older ones are dropped if no statement takes them.
const MAX_STATES: usize = 1024;

impl StartedScans {
    /// Returns the state of a scan that is planned.
    pub(super) fn start(&self) -> Arc<ScanState> {
        let state = Arc::new(ScanState::default());
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if states.len() >= MAX_STATES {
            states.clear();
        }
        states.push(Arc::clone(&state));
        state
    }

    /// Returns and forgets the states of the scans that were planned since the last call.
    pub fn take(&self) -> Vec<Arc<ScanState>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Path, size and modification time, by which a changed file is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileIdentity {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl FileIdentity {
    fn from_path(path: &Path) -> Self {
        let metadata = path.metadata();
        Self {
            path: path.to_owned(),
            bytes: metadata.as_ref().map_or(0, Metadata::len),
            modified: metadata.and_then(|metadata| metadata.modified()).ok(),
        }
    }
}

/// The CSV files that a session has read, the newest last.
type KnownFiles = Vec<(Vec<FileIdentity>, Arc<CsvSource>)>;

/// Most file tables whose inferred columns are cached.
const MAX_KNOWN_TABLES: usize = 64;

async fn open(paths: Vec<PathBuf>, options: ImportOptions) -> Result<Arc<CsvSource>> {
    let opened = tokio::task::spawn_blocking(move || CsvSource::open(&paths, &options));
    let source = opened.await.map_err(|e| DataFusionError::External(Box::new(e)))?;
    source.map(Arc::new).map_err(external)
}
