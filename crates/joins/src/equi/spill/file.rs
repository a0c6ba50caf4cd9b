//! Spill space in a file without a name, which ends with the query and with the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::free_ranges::FreeRanges;
use super::{SpillRange, SpillSpace};
use crate::{JoinError, JoinResult};

/// Ranges are multiples of a page.
const UNIT: usize = 4096;

/// A temporary file in a directory. It has no name there, so nothing remains of it after a crash. It is made
/// by the first write.
#[derive(Debug)]
pub struct FileSpillSpace {
    directory: PathBuf,
    state: Mutex<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    file: Option<std::sync::Arc<File>>,
    len: u64,
    free: FreeRanges,
}

impl FileSpillSpace {
    /// Creates spill space in a directory.
    pub fn new(directory: impl Into<PathBuf>) -> FileSpillSpace {
        FileSpillSpace {
            directory: directory.into(),
            state: Mutex::default(),
        }
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the length of the file in bytes: its peak size.
    pub fn len(&self) -> u64 {
        self.state().len
    }

    /// Returns true if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> std::sync::MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, operation: &'static str, bytes: usize) -> impl FnOnce(io::Error) -> JoinError {
        let place = self.place();
        move |source| JoinError::Spill {
            place,
            operation,
            bytes,
            source,
        }
    }
}

impl SpillSpace for FileSpillSpace {
    fn place(&self) -> String {
        self.directory.display().to_string()
    }

    fn unit(&self) -> usize {
        UNIT
    }

    fn write(&self, bytes: &[u8]) -> JoinResult<SpillRange> {
        let len = bytes.len() as u64;
        let (file, offset) = {
            let mut state = self.state();
            if state.file.is_none() {
                let file = tempfile::tempfile_in(&self.directory);
                state.file = Some(file.map_err(self.error("write", bytes.len()))?.into());
            }
            let file = state.file.clone();
            let offset = state.free.take(len).unwrap_or_else(|| {
                state.len += len;
                state.len - len
            });
            (file, offset)
        };
        let range = SpillRange {
            offset,
            len: bytes.len(),
        };
        let written = file.map_or(Ok(()), |file| file.write_all_at(bytes, offset));
        written.map_err(|error| {
            self.free(range);
            self.error("write", bytes.len())(error)
        })?;
        Ok(range)
    }

    fn read(&self, range: SpillRange, bytes: &mut Vec<u8>) -> JoinResult<()> {
        let file = self.state().file.clone();
        bytes.resize(range.len, 0);
        let read = file.map_or(Err(io::ErrorKind::UnexpectedEof.into()), |file| {
            file.read_exact_at(bytes, range.offset)
        });
        read.map_err(self.error("read", range.len))
    }

    fn free(&self, range: SpillRange) {
        self.state().free.add(range.offset, range.len as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_reused_and_no_name_remains() {
        let directory = tempfile::tempdir().unwrap();
        let spill = FileSpillSpace::new(directory.path());
        assert!(spill.is_empty());
        let first = spill.write(&[1; UNIT]).unwrap();
        let second = spill.write(&[2; UNIT]).unwrap();
        spill.free(first);
        let third = spill.write(&[3; UNIT]).unwrap();
        assert_eq!((third.offset, spill.len()), (first.offset, 2 * UNIT as u64));
        let mut bytes = Vec::new();
        spill.read(second, &mut bytes).unwrap();
        assert_eq!(bytes, [2; UNIT]);
        spill.read(third, &mut bytes).unwrap();
        assert_eq!(bytes, [3; UNIT]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let spill = FileSpillSpace::new("/nonexistent/spill");
        let error = spill.write(&[0; UNIT]).unwrap_err().to_string();
        assert!(
            error.starts_with("/nonexistent/spill: cannot write 4096 bytes"),
            "{error}"
        );
    }
}
