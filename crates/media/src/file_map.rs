//! A file that is mapped for reading: [`FileMap`].
//!
//! Its pages belong to the page cache, and can be reclaimed, so that they take no memory from anyone who
//! needs it.
#![allow(unsafe_code, reason = "maps a file")]

use std::fs::File;
use std::ptr::{self, NonNull};

use rustix::mm::{self, MapFlags, ProtFlags};

/// The bytes of a file that nobody else knows.
#[derive(Debug)]
pub struct FileMap {
    start: NonNull<u8>,
    len: usize,
    /// Nobody can shorten the file while it is mapped.
    _file: File,
}

// SAFETY: the bytes are only read.
unsafe impl Send for FileMap {}
// SAFETY: the bytes are only read.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps the first `len` bytes of a file without a name, which must have been written.
    ///
    /// # Errors
    /// That of the system; [`InvalidInput`](std::io::ErrorKind::InvalidInput) if the file is shorter, or has
    /// a name by which others could shorten it.
    #[allow(clippy::disallowed_methods, reason = "maps a file that is no medium")]
    pub fn new(file: File, len: usize) -> std::io::Result<FileMap> {
        let stat = rustix::fs::fstat(&file)?;
        if stat.st_nlink > 0 || u64::try_from(stat.st_size).unwrap_or(0) < len as u64 {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let start = match len {
            0 => NonNull::dangling(),
            _ => {
                let flags = MapFlags::PRIVATE;
                // SAFETY: a new mapping at an address of the system's choice touches no existing one.
                let start = unsafe { mm::mmap(ptr::null_mut(), len, ProtFlags::READ, flags, &file, 0) }?;
                NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?
            }
        };
        Ok(FileMap {
            start,
            len,
            _file: file,
        })
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped until `self` is dropped. The file has no name, so that nobody else
        // can open it, and whoever made it has given it away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping was made by `new`, and nothing borrows it.
            let unmapped = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        file.write_all(&bytes).unwrap();
        for len in [0, 1, 4_097, bytes.len()] {
            let map = FileMap::new(file.try_clone().unwrap(), len).unwrap();
            assert_eq!(map.as_ref(), &bytes[..len]);
        }
        let error = FileMap::new(file, bytes.len() + 1).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }

    #[test]
    fn files_with_names_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10).unwrap();
        assert!(FileMap::new(file.reopen().unwrap(), 10).is_err());
    }
}
