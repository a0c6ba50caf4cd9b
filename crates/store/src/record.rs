//! Records: a version of a key, or a chunk of a value.
//!
//! Invariant: a record is immutable from the moment when its frame is durable, except for `prev`. So it can
//! be verified by its checksum whenever it is read, and nothing that is damaged is taken for a value.

use std::mem::offset_of;

use halocline_media::Medium;
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::{
    ALIGN, CHUNK, FIRST_HEAD, MAX_KEY, MAX_VALUE, RECORD_CHUNK, RECORD_CHUNKED, RECORD_DELETED,
    RECORD_EXPIRES, RECORD_FIRST, RECORD_HEAD, RECORD_RANGE, RecordHead,
};

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub(crate) store: u32,
    pub(crate) commit: u64,
    /// One of the `RECORD_` flags, except for the one for an expiry.
    pub(crate) flags: u16,
    /// Time of expiry in ms since 1970.
    pub(crate) expires: Option<u64>,
    /// Offset of the version before, or 0.
    pub(crate) prev: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl NewRecord<'_> {
    /// Returns the bytes that the record occupies.
    pub(crate) fn len(&self) -> u64 {
        let expires = 8 * usize::from(self.expires.is_some());
        padded(head_len(self.flags) + expires + self.key.len() + self.value.len())
    }

    /// Appends the record to `bytes`. Returns its checksum.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) -> u32 {
        let start = bytes.len();
        let mut head = RecordHead {
            key_len: U16::new(self.key.len() as u16),
            flags: U16::new(self.flags | (RECORD_EXPIRES * u16::from(self.expires.is_some()))),
            value_len: U32::new(self.value.len() as u32),
            checksum: U32::ZERO,
            store: U32::new(self.store),
            commit: U64::new(self.commit),
            prev: U64::ZERO,
        };
        let head_len = head_len(self.flags);
        bytes.extend_from_slice(&head.as_bytes()[..head_len]);
        if let Some(expires) = self.expires {
            bytes.extend_from_slice(&expires.to_le_bytes());
        }
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(self.value);
        let sum = xxh3_64(&bytes[start..]) as u32;
        head.checksum = U32::new(sum);
        head.prev = U64::new(self.prev);
        bytes[start..start + head_len].copy_from_slice(&head.as_bytes()[..head_len]);
        bytes.resize(start + self.len() as usize, 0);
        sum
    }
}

/// Returns the bytes that a record occupies at most.
pub(crate) fn record_len(expires: bool, key: usize, value: usize) -> u64 {
    padded(RECORD_HEAD as usize + 8 * usize::from(expires) + key + value)
}

fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(ALIGN)
}

/// Returns the bytes of the head of a record with these flags.
#[inline]
fn head_len(flags: u16) -> usize {
    match flags & RECORD_FIRST {
        0 => RECORD_HEAD as usize,
        _ => FIRST_HEAD as usize,
    }
}

/// The head of a record in the pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRef {
    pub(crate) offset: u64,
    pub(crate) head: RecordHead,
}

impl RecordRef {
    /// Loads the head of the record at an offset. `None` if there cannot be a record.
    #[inline]
    pub(crate) fn load(medium: &Medium, offset: u64) -> Option<Self> {
        let end = medium.len().checked_sub(RECORD_HEAD)?;
        if offset > end || !offset.is_multiple_of(ALIGN) {
            return None;
        }
        let mut head = RecordHead::default();
        medium.load(offset, head.as_mut_bytes());
        if head.flags.get() & RECORD_FIRST != 0 {
            // The bytes of the key are here.
            head.prev = U64::ZERO;
        }
        let record = Self { offset, head };
        (record.key_len() <= MAX_KEY
            && record.value_len() <= CHUNK.max(8 + 8 * MAX_VALUE.div_ceil(CHUNK))
            && offset + record.len() <= medium.len())
        .then_some(record)
    }

    pub(crate) fn key_len(&self) -> usize {
        self.head.key_len.get().into()
    }

    pub(crate) fn value_len(&self) -> usize {
        self.head.value_len.get() as usize
    }

    pub(crate) fn commit(&self) -> u64 {
        self.head.commit.get()
    }

    /// Replaces the offset of the version before. Nothing after a crash depends on it. There is none before
    /// the first version.
    pub(crate) fn set_prev(&self, medium: &Medium, prev: u64) {
        if self.has(RECORD_FIRST) {
            return;
        }
        medium.store_u64(self.offset + offset_of!(RecordHead, prev) as u64, prev);
    }

    fn has(&self, flag: u16) -> bool {
        self.head.flags.get() & flag != 0
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.has(RECORD_DELETED)
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.has(RECORD_CHUNKED)
    }

    pub(crate) fn is_chunk(&self) -> bool {
        self.has(RECORD_CHUNK)
    }

    /// Returns [`RECORD_FIRST`] if the record has this flag, else 0.
    pub(crate) fn first_flag(&self) -> u16 {
        self.head.flags.get() & RECORD_FIRST
    }

    /// Returns true if the record deletes a range, and is no version of a key.
    pub(crate) fn is_range(&self) -> bool {
        self.has(RECORD_RANGE)
    }

    /// Returns the bytes that the record occupies.
    pub(crate) fn len(&self) -> u64 {
        padded(self.contents_len())
    }

    fn key_offset(&self) -> u64 {
        self.offset + self.key_at() as u64
    }

    /// Returns true if the record is of this key. Reads no more than the key.
    #[inline]
    pub(crate) fn is_of(&self, medium: &Medium, key: &[u8]) -> bool {
        if self.key_len() != key.len() {
            return false;
        }
        let mut at = self.key_offset();
        let mut piece = [0; 64];
        for wanted in key.chunks(piece.len()) {
            let piece = &mut piece[..wanted.len()];
            medium.load(at, piece);
            if piece != wanted {
                return false;
            }
            at += wanted.len() as u64;
        }
        true
    }

    /// Loads the key.
    pub(crate) fn key(&self, medium: &Medium) -> Vec<u8> {
        let mut key = vec![0; self.key_len()];
        medium.load(self.key_offset(), &mut key);
        key
    }

    /// Returns the time of expiry in ms since 1970, if the record has one.
    pub(crate) fn expires(&self, medium: &Medium) -> Option<u64> {
        self.has(RECORD_EXPIRES).then(|| {
            let mut expires = [0; 8];
            medium.load(self.offset + self.head_len() as u64, &mut expires);
            u64::from_le_bytes(expires)
        })
    }

    /// Returns the number of bytes of the [contents](Self::contents): all of the record but its padding.
    #[inline]
    pub(crate) fn contents_len(&self) -> usize {
        self.key_at() + self.key_len() + self.value_len()
    }

    #[inline]
    fn head_len(&self) -> usize {
        head_len(self.head.flags.get())
    }

    #[inline]
    fn key_at(&self) -> usize {
        self.head_len() + 8 * usize::from(self.has(RECORD_EXPIRES))
    }

    /// Loads the whole record into a buffer of [`contents_len`](Self::contents_len) bytes and verifies it.
    /// `None` if it is damaged.
    #[inline]
    pub(crate) fn load_contents(&self, medium: &Medium, into: &mut [u8]) -> Option<RecordLayout> {
        let head = RecordHead {
            checksum: U32::ZERO,
            prev: U64::ZERO,
            ..self.head
        };
        let head_len = self.head_len();
        let (head_bytes, rest) = into.split_at_mut(head_len);
        head_bytes.copy_from_slice(&head.as_bytes()[..head_len]);
        medium.load(self.offset + head_len as u64, rest);
        if xxh3_64(into) as u32 != self.head.checksum.get() {
            return None;
        }
        let key_at = self.key_at();
        let expires = u64::read_from_prefix(&into[head_len..key_at]).ok();
        Some(RecordLayout {
            key_at,
            value_at: key_at + self.key_len(),
            expires: expires.map(|(expires, _)| u64::from_le(expires)),
        })
    }

    /// Loads the whole record and verifies it. `None` if it is damaged.
    pub(crate) fn contents(&self, medium: &Medium) -> Option<RecordContents> {
        let mut bytes = vec![0; self.contents_len()];
        let layout = self.load_contents(medium, &mut bytes)?;
        Some(RecordContents { bytes, layout })
    }
}

/// The places of the parts of a verified record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordLayout {
    pub(crate) key_at: usize,
    pub(crate) value_at: usize,
    /// Time of expiry in ms since 1970, if the record has one.
    pub(crate) expires: Option<u64>,
}

/// The verified contents of a record.
#[derive(Debug)]
pub(crate) struct RecordContents {
    /// The record, whose head is as it is for the checksum.
    bytes: Vec<u8>,
    layout: RecordLayout,
}

impl RecordContents {
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[self.layout.key_at..self.layout.value_at]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[self.layout.value_at..]
    }

    /// Returns the time of expiry in ms since 1970, if the record has one.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.layout.expires
    }

    /// Returns the value.
    pub(crate) fn into_value(mut self) -> Vec<u8> {
        self.bytes.drain(..self.layout.value_at);
        self.bytes
    }

    /// Returns the length and the offsets of the chunks of a [chunked](RecordRef::is_chunked) value. `None`
    /// if they contradict each other.
    pub(crate) fn chunks(&self) -> Option<(usize, Vec<u64>)> {
        parse_chunk_list(self.value())
    }
}

/// Returns the length and the offsets of the chunks that the value of a chunked record lists. `None` if they
/// contradict each other.
pub(crate) fn parse_chunk_list(list: &[u8]) -> Option<(usize, Vec<u64>)> {
    let mut words = list.chunks_exact(8).map(|word| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        u64::from_le_bytes(bytes)
    });
    let len = usize::try_from(words.next()?)
        .ok()
        .filter(|len| *len <= MAX_VALUE)?;
    let offsets: Vec<u64> = words.collect();
    (offsets.len() == len.div_ceil(CHUNK)).then_some((len, offsets))
}

/// Returns the value of a chunked record.
pub(crate) fn chunk_list(len: usize, offsets: &[u64]) -> Vec<u8> {
    let words = std::iter::once(len as u64).chain(offsets.iter().copied());
    words.flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use halocline_media::{Dram, MediumAccess};

    use super::*;

    fn come_back(flags: u16) {
        let dram = Arc::new(Dram::new(1 << 16).unwrap());
        let record = NewRecord {
            store: 7,
            commit: 9,
            flags,
            expires: Some(77),
            prev: 4096,
            key: b"key",
            value: b"the value",
        };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        assert_eq!(bytes.len() as u64, record.len());
        dram.store(800, &bytes);
        let medium = Medium::from(Arc::clone(&dram));
        let found = RecordRef::load(&medium, 800).unwrap();
        assert_eq!(found.len(), record.len());
        let contents = found.contents(&medium).unwrap();
        assert_eq!(
            (contents.key(), contents.value(), contents.expires()),
            (&b"key"[..], &b"the value"[..], Some(77))
        );
        assert!(found.is_of(&medium, b"key") && !found.is_of(&medium, b"kez"));
        assert_eq!(found.expires(&medium), Some(77));
        assert_eq!(found.key(&medium), b"key");
        let has_prev = flags & RECORD_FIRST == 0;
        assert_eq!(found.head.prev.get(), if has_prev { 4096 } else { 0 });
        found.set_prev(&medium, 8192);
        assert!(found.contents(&medium).is_some());
        for bit in 0..(head_len(flags) as u64 + 8 + 12) * 8 {
            let at = 800 + bit / 8;
            // `prev` may change; the last bytes are padding.
            if has_prev && (824..832).contains(&at) {
                continue;
            }
            let mut byte = [0];
            dram.load(at, &mut byte);
            dram.store(at, &[byte[0] ^ 1 << (bit % 8)]);
            let damaged = RecordRef::load(&medium, 800);
            assert!(
                damaged.is_none_or(|record| record.contents(&medium).is_none()),
                "bit {bit}"
            );
            dram.store(at, &byte);
        }
    }

    #[test]
    fn records_come_back_and_flips_are_noticed() {
        come_back(0);
        come_back(RECORD_FIRST);
    }
}
