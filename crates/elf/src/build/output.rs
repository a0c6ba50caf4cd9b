//! The output of a build, and temporary space for data beyond its memory.

use halocline_media::huge::HugeVec;

/// An error of an [`Output`] or a [`Spill`].
pub type WriteError = Box<dyn std::error::Error + Send + Sync>;

/// Receives the bytes of an index: mostly appended, a few patched.
pub trait Output {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// Whatever the medium reports; the build stops with it.
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError>;

    /// Replaces bytes that were appended before.
    ///
    /// # Errors
    /// Whatever the medium reports; the build stops with it.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError>;

    /// Completes the output after all `len` bytes have been written. Returns false if they did not fit: the
    /// output has room for them now, and the caller must write all bytes again from the first on.
    ///
    /// # Errors
    /// Whatever the medium reports; the build stops with it.
    fn complete(&mut self, len: u64) -> Result<bool, WriteError> {
        let _ = len;
        Ok(true)
    }
}

impl Output for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let at = at as usize;
        self.get_mut(at..at + bytes.len())
            .ok_or("a patch lies outside what was written")?
            .copy_from_slice(bytes);
        Ok(())
    }
}

impl Output for HugeVec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.try_reserve(bytes.len())?;
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let at = at as usize;
        let place = self.get_mut(at..at + bytes.len());
        place
            .ok_or("a patch lies outside what was written")?
            .copy_from_slice(bytes);
        Ok(())
    }
}

/// Temporary space beyond the build's memory.
pub trait Spill {
    /// Returns a new area for up to `words` 64-bit words.
    ///
    /// # Errors
    /// If there is no space; the build stops with it.
    fn area(&self, words: usize) -> Result<Box<dyn SpillArea + '_>, WriteError>;
}

/// One area of a [`Spill`]: written once from front to back, then read. Freed when dropped.
pub trait SpillArea: Sync {
    /// Adds words at the end.
    ///
    /// # Errors
    /// Whatever the medium reports; the build stops with it.
    fn append(&mut self, words: &[u64]) -> Result<(), WriteError>;

    /// Ends writing.
    fn freeze(&mut self) {}

    /// Returns all words that were appended; called after [`freeze`](Self::freeze).
    ///
    /// # Errors
    /// Whatever the medium reports; the build stops with it.
    fn words(&self) -> Result<&[u64], WriteError>;
}

/// An output with a buffer at its end, so that small appends and near patches stay in memory.
pub(crate) struct Buffered<'a> {
    out: &'a mut dyn Output,
    /// Position of the buffer in the output.
    base: u64,
    buffer: Vec<u8>,
}

const BUFFER: usize = 1 << 20;

impl<'a> Buffered<'a> {
    pub(crate) fn new(out: &'a mut dyn Output) -> Self {
        Self {
            out,
            base: 0,
            buffer: vec![],
        }
    }

    /// Returns the position of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if bytes.len() >= BUFFER {
            self.flush()?;
            self.base += bytes.len() as u64;
            return self.out.append(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Adds `len` zero bytes.
    pub(crate) fn skip(&mut self, mut len: usize) -> Result<(), WriteError> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while len > 0 {
            let part = len.min(ZEROS.len());
            self.append(&ZEROS[..part])?;
            len -= part;
        }
        Ok(())
    }

    pub(crate) fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        if at < self.base {
            let early = bytes.len().min((self.base - at) as usize);
            self.out.write_at(at, &bytes[..early])?;
            return if early < bytes.len() {
                self.write_at(self.base, &bytes[early..])
            } else {
                Ok(())
            };
        }
        let at = (at - self.base) as usize;
        self.buffer[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), WriteError> {
        if !self.buffer.is_empty() {
            self.out.append(&self.buffer)?;
            self.base += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}
