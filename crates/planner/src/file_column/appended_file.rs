//! A temporary file that becomes a buffer of arrays.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use arrow_buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use halocline_catalog::spill_files::SpillFiles;
use halocline_import::TemporaryFiles;
use halocline_media::FileMap;
use halocline_sql::error::spill_error;

/// Bytes that are collected before they are written.
pub(super) const WRITE_BYTES: usize = 64 << 10;

/// A temporary file that is written from its start to its end.
pub(super) struct AppendedFile {
    file: File,
    directory: PathBuf,
    /// Bytes with those that are pending.
    len: u64,
    pending: Vec<u8>,
}

impl AppendedFile {
    /// Creates an empty file.
    ///
    /// # Errors
    /// That of the system.
    pub(super) fn new(files: &SpillFiles) -> Result<Self> {
        Ok(Self {
            file: files.file()?,
            directory: files.directory().to_owned(),
            len: 0,
            pending: Vec::with_capacity(WRITE_BYTES),
        })
    }

    /// Returns the bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.pending.len() + bytes.len() > WRITE_BYTES {
            self.write()?;
        }
        if bytes.len() > WRITE_BYTES {
            self.write_at(bytes, self.len)?
        } else {
            self.pending.extend_from_slice(bytes)
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Leaves out bytes, if the next `len` would be in two parts of `part` bytes.
    ///
    /// # Errors
    /// They are more than a part; the file cannot be written.
    pub(super) fn keep_together(&mut self, len: u64, part: u64) -> Result<()> {
        let next = (self.len / part + 1) * part;
        if len > part {
            let text =
                format!("a value of {len} bytes is too long for a window that does not fit into memory");
            return Err(DataFusionError::ResourcesExhausted(text));
        }
        if self.len + len > next {
            self.write()?;
            self.len = next;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.write_at(&self.pending, self.len - self.pending.len() as u64)?;
        self.pending.clear();
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let written = self.file.write_all_at(bytes, at);
        written.map_err(|error| DataFusionError::IoError(spill_error(&self.directory, &error)))
    }

    /// Returns all bytes, mapped.
    ///
    /// # Errors
    /// The file cannot be written, or mapped.
    pub(super) fn finish(mut self) -> Result<Buffer> {
        self.write()?;
        if self.len == 0 {
            return Ok(MutableBuffer::new(0).into());
        }
        let len = usize::try_from(self.len).map_err(|error| DataFusionError::External(error.into()))?;
        let map = FileMap::new(self.file, len);
        let map = map.map_err(|error| DataFusionError::IoError(spill_error(&self.directory, &error)))?;
        Ok(Buffer::from(Bytes::from_owner(map)))
    }
}
