//! Temporary files of queries: what sorts, aggregates and exchanges of DataFusion spill, and joins.
//!
//! They lie in the directory of the pool, that is on the slow tier, unless the database was opened with
//! another one. They have no name there, so that nothing remains of them after a crash, and are gone with the
//! query.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use halocline_import::TemporaryFiles;
use halocline_pool::Pool;
use halocline_sql::error::spill_error;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Makes temporary files in a directory.
#[derive(Debug)]
pub struct SpillFiles {
    wanted: Option<PathBuf>,
    pool: PathBuf,
    directory: OnceLock<PathBuf>,
}

impl SpillFiles {
    /// Returns those of a pool: in `wanted`, or else in the directory of the pool.
    pub fn new(wanted: Option<PathBuf>, pool: &Pool) -> Self {
        Self {
            wanted,
            pool: pool.path().to_owned(),
            directory: OnceLock::new(),
        }
    }

    /// Returns the directory. Where it was not chosen, and no file can be made in that of the pool, as with a
    /// pool that is only read, it is the one of the system.
    pub fn directory(&self) -> &Path {
        self.directory.get_or_init(|| {
            if let Some(wanted) = &self.wanted {
                return wanted.clone();
            }
            // Errors name it, also if it is the current one.
            let pool = std::path::absolute(&self.pool).ok();
            let parent = pool.as_deref().and_then(Path::parent);
            match parent.filter(|parent| self.pool.is_file() && tempfile::tempfile_in(parent).is_ok()) {
                Some(parent) => parent.to_owned(),
                None => std::env::temp_dir(),
            }
        })
    }

    fn create(&self) -> Result<Arc<TempFile>> {
        let directory = self.directory();
        let file = self.file().map_err(DataFusionError::IoError)?;
        Ok(Arc::new(TempFile {
            file,
            len: AtomicU64::new(0),
            directory: directory.to_owned(),
        }))
    }
}

impl TemporaryFiles for SpillFiles {
    fn file(&self) -> io::Result<File> {
        let directory = self.directory();
        tempfile::tempfile_in(directory).map_err(|error| spill_error(directory, &error))
    }
}

fn failed(directory: &Path, error: &io::Error) -> DataFusionError {
    DataFusionError::IoError(spill_error(directory, error))
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(SharedFile(self.create()?)))
    }
}

/// A file without a name.
#[derive(Debug)]
struct TempFile {
    file: File,
    len: AtomicU64,
    directory: PathBuf,
}

/// A temporary file, its writer or a reader of it.
struct SharedFile(Arc<TempFile>);

impl SpillFile for SharedFile {
    fn size(&self) -> Option<u64> {
        Some(self.0.len.load(Ordering::Acquire))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let start = (Arc::clone(&self.0), 0_u64);
        let chunks = stream::try_unfold(start, |(file, offset)| async move {
            let read = SpawnedTask::spawn_blocking(move || file.read(offset).map(|bytes| (bytes, file)));
            let read = read.join_unwind().await;
            let (bytes, file) = read.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            let next = offset + bytes.len() as u64;
            Ok((!bytes.is_empty()).then_some((bytes, (file, next))))
        });
        Ok(Box::pin(chunks))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(SharedFile(Arc::clone(&self.0))))
    }
}

impl TempFile {
    /// Reads some bytes, none at the end of what has been written.
    fn read(&self, offset: u64) -> Result<Bytes> {
        let left = self.len.load(Ordering::Acquire).saturating_sub(offset);
        let mut bytes = vec![0; READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES))];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|error| failed(&self.directory, &error))?;
        Ok(bytes.into())
    }
}

impl Write for SharedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (file, end) = (&self.0, self.0.len.load(Ordering::Relaxed));
        file.file
            .write_all_at(bytes, end)
            .map_err(|error| spill_error(&file.directory, &error))?;
        // A reader that sees the new length sees the bytes.
        file.len.store(end + bytes.len() as u64, Ordering::Release);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for SharedFile {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    fn files(wanted: Option<PathBuf>, pool: PathBuf) -> SpillFiles {
        SpillFiles {
            wanted,
            pool,
            directory: OnceLock::new(),
        }
    }

    #[tokio::test]
    async fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(Some(directory.path().to_owned()), PathBuf::new());
        let file = files.create_temp_file("a test").unwrap();
        let mut expected = Vec::new();
        let mut writer = file.open_writer().unwrap();
        for number in 0..100_u8 {
            let bytes = vec![number; 7_000];
            writer.write_all(&bytes).unwrap();
            expected.extend(bytes);
            if number == 50 {
                let read: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
                assert_eq!(read.concat(), expected);
            }
        }
        writer.finish().unwrap();
        let read: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
        assert_eq!(read.concat(), expected);
        assert_eq!(file.size(), Some(700_000));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_directory_is_that_of_the_pool() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.pool");
        assert_eq!(files(None, path.clone()).directory(), std::env::temp_dir());
        std::fs::write(&path, "").unwrap();
        assert_eq!(files(None, path).directory(), directory.path());
        assert_eq!(files(None, "<dram>".into()).directory(), std::env::temp_dir());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let files = files(Some("/nonexistent/spill".into()), PathBuf::new());
        let error = files.create_temp_file("a test").err().unwrap().to_string();
        assert!(
            error.contains("temporary files in /nonexistent/spill: "),
            "{error}"
        );
    }
}
