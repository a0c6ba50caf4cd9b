//! `COPY … TO`: files that statements write.
//!
//! Invariants:
//! - a statement's files appear under their names when all of them are complete, or not at all: they are
//!   written beside their names and renamed at the end;
//! - no file that is a pool is replaced, whatever leads to it; links are followed and permissions kept;
//! - a file that cannot be written is an error that names it.
//!
//! An unquoted empty field is NULL and a quoted one an empty text, in files that are written as in those that
//! are read.

mod order;
mod staged;
mod store;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use halocline_pool::is_pool_file;

pub(crate) use order::{in_order, of_files_in_order};

use halocline_sql::EngineError;
use staged::StagedFile;
use store::WritingStore;

/// The files that one statement writes.
pub(crate) struct OutputFiles {
    /// The open pool's file.
    pool: PathBuf,
    complete: Mutex<Vec<StagedFile>>,
    started: Mutex<StartedFiles>,
    /// The first error of writing, which DataFusion may replace by one of its own.
    failure: Mutex<Option<EngineError>>,
}

/// The temporary files. Tasks of a query may outlive the statement, so the statement removes their files
/// itself.
#[derive(Default)]
struct StartedFiles {
    temporary: Vec<PathBuf>,
    /// Set when the statement has ended and no other file may be created.
    over: bool,
}

/// A guard that removes the files of a statement that were not published.
struct RemoveUnpublished(Arc<OutputFiles>);

impl Drop for RemoveUnpublished {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for OutputFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutputFiles")
    }
}

impl OutputFiles {
    /// Returns an empty set for a statement on the pool at `pool`.
    pub(crate) fn new(pool: &Path) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.to_owned(),
            complete: Mutex::default(),
            started: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// Returns a runtime that writes files through this, and else is the one given.
    ///
    /// # Errors
    /// DataFusion cannot make one.
    pub(crate) fn runtime(self: &Arc<Self>, runtime: &RuntimeEnv) -> Result<Arc<RuntimeEnv>, EngineError> {
        let registry = DefaultObjectStoreRegistry::new();
        let local = ObjectStoreUrl::local_filesystem();
        registry.register_store(local.as_ref(), Arc::new(WritingStore::new(Arc::clone(self))));
        let builder = RuntimeEnvBuilder::from_runtime_env(runtime);
        Ok(builder
            .with_object_store_registry(Arc::new(registry))
            .build_arc()?)
    }

    /// Fails if `path` leads to a pool.
    ///
    /// # Errors
    /// [`EngineError::PoolAsOutput`]; the file cannot be looked at.
    pub(crate) fn check(&self, path: &Path) -> Result<(), EngineError> {
        let identity = |path| {
            let found = fs::metadata(path).ok()?;
            Some((found.dev(), found.ino()))
        };
        let found = identity(path);
        let own = found.is_some() && found == identity(&self.pool);
        if own || is_pool_file(path)? {
            return Err(EngineError::PoolAsOutput {
                path: path.to_owned(),
            });
        }
        Ok(())
    }

    /// Fails if a URL or path, as a statement names it, leads to a pool.
    ///
    /// # Errors
    /// Those of [`check`](Self::check); DataFusion cannot read the URL.
    pub(crate) fn check_url(&self, url: &str) -> Result<(), EngineError> {
        let url = ListingTableUrl::parse(url)?;
        match url.scheme() {
            "file" => self.check(&local_path(url.prefix())?),
            _ => Ok(()),
        }
    }

    /// Passes the rows on and publishes the files before the first one, which holds their row count. The
    /// first error of writing replaces the one that DataFusion derives from it.
    pub(crate) fn publish_with(
        self: Arc<Self>,
        rows: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let writing = RemoveUnpublished(self);
        let published = rows.map(move |batch| {
            let files = &writing.0;
            let result = match batch {
                Ok(batch) => files.publish().map(|()| batch),
                Err(error) => Err(files.failed().unwrap_or_else(|| error.into())),
            };
            if result.is_err() {
                files.end();
            }
            result.map_err(|error| DataFusionError::External(Box::new(error)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, published))
    }

    fn publish(&self) -> Result<(), EngineError> {
        let complete: Vec<StagedFile> = self.complete().drain(..).collect();
        // No file is replaced if one of them must not be.
        for file in &complete {
            self.check(file.target())?;
        }
        complete.into_iter().try_for_each(StagedFile::publish)
    }

    /// Creates a temporary file that is renamed to this name when it is published.
    ///
    /// # Errors
    /// Those of [`check`](Self::check); [`EngineError::CannotWrite`].
    fn create(&self, named: &Path) -> Result<StagedFile, EngineError> {
        self.check(named)?;
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.over {
            return Err(EngineError::Cancelled);
        }
        let file = StagedFile::create(named)?;
        started.temporary.push(file.temporary().to_owned());
        Ok(file)
    }

    /// Removes the files that were not published, and prevents further ones.
    fn end(&self) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.over = true;
        for temporary in started.temporary.drain(..) {
            // Published files have been renamed.
            let _ = fs::remove_file(temporary);
        }
    }

    fn failed(&self) -> Option<EngineError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the first error and returns the text of this one.
    fn fail(&self, error: EngineError) -> String {
        let text = error.to_string();
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        text
    }

    fn complete(&self) -> std::sync::MutexGuard<'_, Vec<StagedFile>> {
        self.complete.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts a path of the object store of local files to a path of the file system.
fn local_path(path: &ObjectPath) -> Result<PathBuf, EngineError> {
    let found = LocalFileSystem::new().path_to_filesystem(path);
    found.map_err(|error| DataFusionError::from(error).into())
}

/// Returns the error for a file that cannot be written.
fn cannot_write(path: &Path, source: io::Error) -> EngineError {
    let instead = match source.kind() {
        io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f) or write less",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space or write elsewhere",
        _ => "",
    };
    EngineError::CannotWrite {
        path: path.to_owned(),
        source,
        instead,
    }
}
