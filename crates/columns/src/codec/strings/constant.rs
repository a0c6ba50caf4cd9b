//! Constants that strings are compared with: [`Constant`].

/// A string that others are compared with, eight bytes at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Constant {
    /// The string, and eight zeros.
    padded: Box<[u8]>,
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

impl Constant {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let padded = [bytes, &[0; WORD]].concat();
        Self {
            padded: padded.into(),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.padded[..self.len()]
    }

    pub(crate) fn len(&self) -> usize {
        self.padded.len() - WORD
    }

    /// Returns the eight bytes from `at` on as a little-endian number; zeros past the end.
    ///
    /// # Panics
    /// If `at` is past the end.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.padded[at..]
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_with_zeros() {
        let constant = Constant::new(b"abcdefghij");
        assert_eq!(constant.as_bytes(), b"abcdefghij");
        assert_eq!(constant.word(1).to_le_bytes(), *b"bcdefghi");
        assert_eq!(constant.word(8).to_le_bytes(), *b"ij\0\0\0\0\0\0");
        assert_eq!(constant.word(10), 0);
        assert_eq!(Constant::new(b"").word(0), 0);
    }
}
