//! Sections of a chunk: a header, then arrays, each at a multiple of [`ALIGN`].

use crate::format::{ALIGN, KeysHeader, align_up};
use crate::kernel::Lane;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sections on their way into a chunk.
#[derive(Debug)]
pub(crate) struct SectionsWriter {
    words: Vec<u64>,
}

impl SectionsWriter {
    /// Starts with a header.
    pub(crate) fn new(header: &KeysHeader) -> Self {
        let mut writer = Self { words: Vec::new() };
        writer.push(header.as_bytes());
        writer
    }

    /// Appends a section.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let start = self.words.len();
        self.words.resize(start + align_up(bytes.len()) / 8, 0);
        self.words[start..].as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    }

    /// Appends values in lanes.
    pub(crate) fn push_lanes<L: Lane>(&mut self, values: impl Iterator<Item = u64>) {
        let lanes: Vec<L> = values.map(L::truncate).collect();
        self.push(lanes.as_bytes());
    }

    /// Returns the words of all sections, after `last` has appended the last one, which needs no padding.
    pub(crate) fn finish(mut self, last: impl FnOnce(&mut Vec<u64>)) -> Vec<u64> {
        last(&mut self.words);
        self.words
    }
}

/// Sections of a chunk that is read.
#[derive(Debug)]
pub(crate) struct SectionsReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> SectionsReader<'a> {
    /// Reads the header of a chunk and returns it with a reader of the sections that follow; `None` if the
    /// chunk is shorter than its header.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<(KeysHeader, Self)> {
        let (header, _) = KeysHeader::read_from_prefix(bytes).ok()?;
        let at = size_of::<KeysHeader>();
        Some((header, Self { bytes, at }))
    }

    /// Takes the next section, of `len` bytes; `None` if the chunk is too short.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let section = self.bytes.get(self.at..end)?;
        self.at = end.checked_next_multiple_of(ALIGN)?;
        Some(section)
    }

    /// Takes the last section, of `len` bytes; `None` unless it ends where the chunk does, except for padding
    /// to a word.
    pub(crate) fn take_last(self, len: usize) -> Option<&'a [u8]> {
        let section = self.bytes.get(self.at..)?;
        (section.len() == len.checked_next_multiple_of(8)?).then(|| &section[..len])
    }
}

/// Reinterprets the bytes of a section as values.
///
/// # Panics
/// If they are misaligned or not a whole number of values. Both are checked when a chunk is opened.
pub(crate) fn typed<T: FromBytes + Immutable + KnownLayout>(bytes: &[u8]) -> &[T] {
    <[T]>::ref_from_bytes(bytes).expect("size and alignment were checked when the chunk was opened")
}
