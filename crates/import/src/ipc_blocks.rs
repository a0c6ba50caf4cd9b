//! Reads the messages of an Arrow IPC file, each of which is decoded where it lies.
//!
//! A message that is larger than a batch may be is copied to a temporary file and mapped from there, so that
//! its arrays take no memory. The file itself is not mapped: others may truncate it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use halocline_media::FileMap;

use super::temporary_files::TemporaryFiles;

/// Alignment of a body in bytes, which that of all values divides: the decoder copies what is not aligned.
const ALIGNMENT: u64 = 64;

/// Reads parts of a file.
pub(super) struct BlockReader {
    file: File,
    /// Bytes from which a message is mapped.
    limit: u64,
    files: Option<Arc<dyn TemporaryFiles>>,
}

impl BlockReader {
    /// Reads `file`. Without temporary files, all messages are read into DRAM.
    pub(super) fn new(file: File, limit: u64, files: Option<Arc<dyn TemporaryFiles>>) -> Self {
        Self { file, limit, files }
    }

    /// Returns `N` bytes at `offset`.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter.
    pub(super) fn word<const N: usize>(&self, offset: u64) -> io::Result<[u8; N]> {
        let mut word = [0; N];
        self.file.read_exact_at(&mut word, offset)?;
        Ok(word)
    }

    /// Returns the bytes of a message at `offset`: `head` bytes, and `body` bytes after them.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter; a temporary file cannot be written.
    pub(super) fn message(&self, offset: u64, head: u64, body: u64) -> io::Result<Buffer> {
        let length = head.saturating_add(body);
        match &self.files {
            Some(files) if length > self.limit => self.mapped(offset, head, length, &**files),
            _ => {
                let length = usize::try_from(length).map_err(io::Error::other)?;
                let mut bytes = MutableBuffer::from_len_zeroed(length);
                self.file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes.into())
            }
        }
    }

    fn mapped(&self, offset: u64, head: u64, length: u64, files: &dyn TemporaryFiles) -> io::Result<Buffer> {
        let before = head.next_multiple_of(ALIGNMENT) - head;
        let mut copy = files.file()?;
        copy.seek(SeekFrom::Start(before))?;
        let mut from = &self.file;
        from.seek(SeekFrom::Start(offset))?;
        if io::copy(&mut from.take(length), &mut copy)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = usize::try_from(before + length).map_err(io::Error::other)?;
        let bytes = Bytes::from_owner(FileMap::new(copy, end)?);
        Ok(Buffer::from(bytes).slice(end - usize::try_from(length).map_err(io::Error::other)?))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::temporary_files::SystemFiles;
    use super::*;

    #[test]
    fn large_messages_are_mapped_with_an_aligned_body() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..3000_u32).map(|at| (at * 7) as u8).collect();
        file.write_all(&bytes).unwrap();
        let reader = BlockReader::new(file, 1000, Some(Arc::new(SystemFiles)));
        for (offset, head, body) in [(0, 8, 100), (16, 40, 2000), (24, 200, 2776), (8, 64, 1000)] {
            let message = reader.message(offset, head, body).unwrap();
            let range = offset as usize..(offset + head + body) as usize;
            assert_eq!(message.as_slice(), &bytes[range]);
            let is_aligned = message.slice(head as usize).as_ptr().addr().is_multiple_of(64);
            assert!(is_aligned || body <= 1000, "{head}");
        }
        assert!(reader.message(24, 200, 2777).is_err());
        assert_eq!(reader.word::<4>(1).unwrap(), bytes[1..5]);
    }
}
