//! A sorted dictionary of distinct strings; the rank of a string is its code.
//!
//! Bytes: [`DictionaryHeader`], the strings one after the other in byte order, padding to 8, `count + 1`
//! offsets of 4 or 8 bytes. Any string is found without decoding another, and nothing is read when it is
//! opened but the header. Of an extent with checksums of its blocks, blocks are verified before they are
//! read. Damaged offsets in others give wrong or missing strings, never a read outside of the dictionary.

use crate::error::damaged;
use crate::format::{DICTIONARY_MAGIC, DictionaryHeader};
use crate::write::blob::Blob;
use crate::{ColumnsError, Result};
use halocline_media::BlockDamage;
use halocline_pool::ExtentBytes;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

pub(crate) const HEADER: usize = size_of::<DictionaryHeader>();

/// Creates the header of a dictionary of `count` strings with `bytes_len` bytes in total.
pub(crate) fn header(count: u64, bytes_len: u64) -> DictionaryHeader {
    DictionaryHeader {
        magic: DICTIONARY_MAGIC,
        count,
        bytes_len,
        offset_bytes: if u32::try_from(bytes_len).is_ok() { 4 } else { 8 },
        reserved: [0; 9],
    }
}

/// Distinct strings (or binary values) in byte order, in a pool extent or in DRAM. Cheap to clone.
#[derive(Clone)]
pub struct Dictionary {
    blob: Blob,
    /// The table and column that it belongs to, for error messages.
    place: Arc<str>,
    count: usize,
    bytes_len: usize,
    offset_bytes: usize,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("count", &self.count)
            .field("bytes", &self.bytes_len)
            .finish()
    }
}

impl Dictionary {
    /// Encodes a dictionary, to be written to an extent. `strings` must be in strictly ascending byte order.
    /// O(total bytes); the result takes the bytes of the strings plus 4 bytes per string (8 beyond 4 GiB of
    /// strings).
    ///
    /// # Panics
    /// If the strings are not strictly ascending.
    pub fn encode<'a>(strings: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        let mut ends = Vec::new();
        let mut last = 0..0;
        for string in strings {
            assert!(
                ends.is_empty() || out[last.clone()] < *string,
                "dictionary strings must ascend"
            );
            last = out.len()..out.len() + string.len();
            out.extend_from_slice(string);
            ends.push((out.len() - HEADER) as u64);
        }
        let header = header(ends.len() as u64, (out.len() - HEADER) as u64);
        out.resize(out.len().next_multiple_of(8), 0);
        let offset_bytes = header.offset_bytes as usize;
        for offset in std::iter::once(0).chain(ends.iter().copied()) {
            out.extend_from_slice(&offset.to_le_bytes()[..offset_bytes]);
        }
        out[..HEADER].copy_from_slice(header.as_bytes());
        out
    }

    /// Opens a dictionary in DRAM, from the bytes that [`encode`](Self::encode) returned.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`] if they are not a dictionary.
    pub fn from_vec(bytes: Vec<u8>) -> Result<Self> {
        Self::new(Blob::Memory(Arc::from(bytes)), "dictionary".into())
    }

    /// Opens the dictionary in `range` of an extent. O(1).
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`] if there is no dictionary there.
    pub fn open(extent: ExtentBytes, range: Range<usize>) -> Result<Self> {
        Self::open_at(extent, range, "dictionary")
    }

    /// Opens a dictionary like [`open`](Self::open). `place` says what it belongs to, for error messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(extent: ExtentBytes, range: Range<usize>, place: impl Into<Arc<str>>) -> Result<Self> {
        let place = place.into();
        if range.start > range.end || range.end > extent.len() {
            return Err(damaged(&*place, "lies outside of its extent"));
        }
        Self::new(Blob::Extent(extent, range), place)
    }

    fn new(blob: Blob, place: Arc<str>) -> Result<Self> {
        let wrong = |what: &str| Err::<Self, ColumnsError>(damaged(&*place, what));
        let bytes = blob.as_slice();
        if !blob.is_intact(0, HEADER.min(bytes.len())) {
            return wrong("its header does not match its checksum");
        }
        let Some((header, _)) = bytes
            .get(..HEADER)
            .and_then(|b| DictionaryHeader::read_from_prefix(b).ok())
        else {
            return wrong("is shorter than its header");
        };
        if header.magic != DICTIONARY_MAGIC {
            return wrong("has a foreign header");
        }
        let (Ok(count), Ok(bytes_len)) = (usize::try_from(header.count), usize::try_from(header.bytes_len))
        else {
            return wrong("has impossible counts");
        };
        let offset_bytes = header.offset_bytes as usize;
        if offset_bytes != 4 && offset_bytes != 8 {
            return wrong("has offsets of an unknown size");
        }
        let needed = count
            .checked_add(1)
            .and_then(|offsets| offsets.checked_mul(offset_bytes))
            .and_then(|len| len.checked_add(HEADER.checked_add(bytes_len)?.checked_next_multiple_of(8)?));
        if needed.is_none_or(|needed| needed > bytes.len()) {
            return wrong("is shorter than its header says");
        }
        Ok(Self {
            blob,
            place,
            count,
            bytes_len,
            offset_bytes,
        })
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there is no string.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the total size in bytes of all strings.
    pub fn bytes_len(&self) -> usize {
        self.bytes_len
    }

    /// Returns the stored size in bytes.
    pub fn stored_bytes(&self) -> usize {
        self.blob.as_slice().len()
    }

    fn offset(&self, index: usize) -> usize {
        let at = self.offset_at(index);
        self.blob.touch(at, self.offset_bytes);
        let bytes = &self.blob.as_slice()[at..at + self.offset_bytes];
        match bytes.try_into() {
            Ok(short) => u32::from_le_bytes(short) as usize,
            Err(_) => bytes
                .iter()
                .rev()
                .fold(0, |value, &byte| value << 8 | usize::from(byte)),
        }
    }

    /// Returns the position of the offset of string `index`.
    fn offset_at(&self, index: usize) -> usize {
        (HEADER + self.bytes_len).next_multiple_of(8) + index * self.offset_bytes
    }

    /// Returns the string of a rank; `None` beyond the last one, or if the dictionary is damaged. O(1).
    #[inline]
    pub fn get(&self, rank: u64) -> Option<&[u8]> {
        let rank = usize::try_from(rank).ok().filter(|&rank| rank < self.count)?;
        if !self.blob.is_intact(self.offset_at(rank), 2 * self.offset_bytes) {
            return None;
        }
        let (start, end) = (self.offset(rank), self.offset(rank + 1));
        let bytes = self
            .blob
            .as_slice()
            .get(HEADER..HEADER + self.bytes_len)?
            .get(start..end)?;
        if !self.blob.is_intact(HEADER + start, bytes.len()) {
            return None;
        }
        self.blob.touch(HEADER + start, bytes.len());
        Some(bytes)
    }

    /// Returns the string of a rank like [`get`](Self::get), with an error that says where the damage is.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    #[inline]
    pub fn string(&self, rank: u64) -> Result<&[u8]> {
        self.get(rank).ok_or_else(|| self.defect(rank))
    }

    /// Returns the error for a rank that has no string.
    #[cold]
    fn defect(&self, rank: u64) -> ColumnsError {
        match self.blob.damage() {
            Some(block) => self.damaged_block(&block),
            None => damaged(
                format!("{}, entry {rank}", self.place),
                "lies outside of the dictionary",
            ),
        }
    }

    /// Returns the location of the dictionary, for error messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    fn damaged_block(&self, block: &BlockDamage) -> ColumnsError {
        let BlockDamage { object, offset, len } = block;
        damaged(
            &*self.place,
            format!("the {len} bytes at {offset} of {object} do not match their checksum"),
        )
    }

    /// Verifies all of it, also what was found intact before.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub(crate) fn verify_again(&self) -> Result<()> {
        let verified = self.blob.verify_again();
        verified.map_err(|block| self.damaged_block(&block))
    }

    /// Iterates over all strings in order; `None` for one that is damaged.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.count as u64).map(|rank| self.get(rank))
    }

    /// Returns the number of strings for which `before` holds; it must hold for a prefix of the strings and
    /// for no other string. O(log n).
    fn partition_point(&self, before: impl Fn(&[u8]) -> bool) -> Result<u64> {
        let (mut low, mut high) = (0, self.count as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.string(middle)?) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        Ok(low)
    }

    /// Returns the number of strings less than `value`: the rank it has or would get. O(log n).
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub fn lower_bound(&self, value: &[u8]) -> Result<u64> {
        self.partition_point(|string| string < value)
    }

    /// Returns the number of strings less than or equal to `value`. O(log n).
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub fn upper_bound(&self, value: &[u8]) -> Result<u64> {
        self.partition_point(|string| string <= value)
    }

    /// Returns the rank of `value`; `None` if it is not in the dictionary. O(log n).
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub fn find(&self, value: &[u8]) -> Result<Option<u64>> {
        let rank = self.lower_bound(value)?;
        let found = rank < self.count as u64 && self.string(rank)? == value;
        Ok(found.then_some(rank))
    }

    /// Returns the ranks of the strings that start with `prefix`. O(log n).
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub fn prefix_range(&self, prefix: &[u8]) -> Result<Range<u64>> {
        let end = self.partition_point(|string| string < prefix || string.starts_with(prefix))?;
        Ok(self.lower_bound(prefix)?..end)
    }

    /// Verifies that all strings are there and strictly ascend. O(total bytes).
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`] with the rank of the first string that is wrong.
    pub fn check(&self) -> Result<()> {
        let mut last: Option<&[u8]> = None;
        for rank in 0..self.count as u64 {
            let string = self.string(rank)?;
            if last.is_some_and(|last| last >= string) {
                return Err(damaged(
                    format!("{}, entry {rank}", self.place),
                    "is not greater than the one before",
                ));
            }
            last = Some(string);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn dictionary(strings: &BTreeSet<Vec<u8>>) -> Dictionary {
        Dictionary::from_vec(Dictionary::encode(strings.iter().map(Vec::as_slice))).expect("valid")
    }

    proptest! {
        #[test]
        fn bounds_are_those_of_a_sorted_list(
            strings in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 0..4), 0..40),
            value in proptest::collection::vec(0u8..4, 0..4),
        ) {
            let dictionary = dictionary(&strings);
            dictionary.check().expect("sorted");
            let sorted: Vec<&Vec<u8>> = strings.iter().collect();
            for (rank, string) in sorted.iter().enumerate() {
                prop_assert_eq!(dictionary.get(rank as u64), Some(string.as_slice()));
            }
            prop_assert_eq!(dictionary.get(sorted.len() as u64), None);
            let lower = sorted.partition_point(|s| **s < value) as u64;
            prop_assert_eq!(dictionary.lower_bound(&value).unwrap(), lower);
            prop_assert_eq!(dictionary.upper_bound(&value).unwrap(), sorted.partition_point(|s| **s <= value) as u64);
            prop_assert_eq!(dictionary.find(&value).unwrap(), strings.contains(&value).then_some(lower));
            let starting = sorted.iter().filter(|s| s.starts_with(&value)).count() as u64;
            prop_assert_eq!(dictionary.prefix_range(&value).unwrap(), lower..lower + starting);
        }

        #[test]
        fn damaged_bytes_never_panic(position in 0usize..200, byte in any::<u8>()) {
            let strings: BTreeSet<Vec<u8>> = (0..9u8).map(|i| vec![i; usize::from(i) + 1]).collect();
            let mut bytes = Dictionary::encode(strings.iter().map(Vec::as_slice));
            let position = position % bytes.len();
            bytes[position] = byte;
            if let Ok(dictionary) = Dictionary::from_vec(bytes) {
                let _ = dictionary.iter().flatten().count();
                let _ = dictionary.check();
                let _ = dictionary.prefix_range(&[3]);
            }
        }
    }
}
