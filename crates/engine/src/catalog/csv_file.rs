//! CSV files as tables of a query: read as an import reads them, so that a type never alters a value.
//!
//! That holds for paths in place of a table's name, with wildcards or not, and for external tables whose
//! columns are not declared. Files that the reader of imports cannot read (compressed ones, or with options
//! that it does not have) are left to DataFusion, with all columns as text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::CreateExternalTable;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;

use crate::import::{CsvSource, ImportOptions, QuoteOption};

/// Batches between the reader of a file and the query.
const QUEUE: usize = 2;

/// Tables by the paths of files: CSV files by the reader of imports, all others by DataFusion.
#[derive(Debug)]
pub(crate) struct FileTables {
    listing: DynamicListTableFactory,
}

impl FileTables {
    pub(crate) fn new(listing: DynamicListTableFactory) -> Self {
        Self { listing }
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
            paths => Ok(Some(open(paths, ImportOptions::default()).await?)),
        }
    }
}

/// Returns the provider of an external table over CSV files whose columns are to be inferred; none if
/// DataFusion is to make it, whose options are then changed so that it infers nothing but text.
///
/// # Errors
/// A file cannot be read, is malformed, or has other columns than the first one.
pub(crate) async fn external_csv(create: &mut CreateExternalTable) -> Result<Option<Arc<dyn TableProvider>>> {
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
        return open(paths, options).await.map(Some);
    }
    let all_text = ("format.schema_infer_max_rec".into(), "0".into());
    create.options.extend([all_text]);
    Ok(None)
}

/// Returns the options of an external table as those of an import; none if there is one that an import does
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
    match Path::new(location).is_dir() {
        true => {
            let directory = glob::Pattern::escape(location.trim_end_matches('/'));
            matching(&format!("{directory}/*.csv"))
        }
        false => matching(location),
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

async fn open(paths: Vec<PathBuf>, options: ImportOptions) -> Result<Arc<dyn TableProvider>> {
    let opened = tokio::task::spawn_blocking(move || CsvSource::open(&paths, options));
    let source = opened.await.map_err(|e| DataFusionError::External(Box::new(e)))?;
    let source = Arc::new(source.map_err(|e| DataFusionError::External(Box::new(e)))?);
    let rows = (0..source.count()).map(|file| -> Arc<dyn PartitionStream> {
        Arc::new(CsvRows {
            source: Arc::clone(&source),
            file,
        })
    });
    let table = StreamingTable::try_new(Arc::clone(source.schema()), rows.collect())?;
    Ok(Arc::new(table))
}

/// The rows of one file.
#[derive(Debug)]
struct CsvRows {
    source: Arc<CsvSource>,
    file: usize,
}

impl PartitionStream for CsvRows {
    fn schema(&self) -> &SchemaRef {
        self.source.schema()
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(self.source.schema()), QUEUE);
        let (sender, source, file) = (stream.tx(), Arc::clone(&self.source), self.file);
        stream.spawn_blocking(move || {
            for batch in source
                .read(file)
                .map_err(|e| DataFusionError::External(Box::new(e)))?
            {
                let batch = batch.map_err(|e| DataFusionError::External(Box::new(e)));
                let failed = batch.is_err();
                if sender.blocking_send(batch).is_err() || failed {
                    break;
                }
            }
            Ok(())
        });
        stream.build()
    }
}
