//! One column of one segment: its chunks, zone maps and codes. Reading values is in `scan.rs`.

use crate::codec::chunk::{KeyChunk, bytes_of};
use crate::codec::strings::chunk::StringsChunk;
use crate::error::damaged;
use crate::format::wide;
use crate::format::{ChunkEntry, ColumnHeader, KIND_DICTIONARY, KIND_KEYS, KIND_STRINGS, checksum};
use crate::kernel::{Lane, with_lane};
use crate::read::dictionary::Dictionary;
use crate::read::segment::check_rows;
use crate::read::space::{CodeSpace, is_rankable};
use crate::read::verified::{Unverified, Verified};
use crate::write::physical::Physical;
use crate::{ColumnsError, Result};
use arrow_array::ArrayRef;
use arrow_schema::{DataType, FieldRef};
use halocline_media::Bytes;
use halocline_pool::ExtentBytes;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use zerocopy::{FromBytes, IntoBytes};

/// One column of one segment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Column {
    inner: Arc<ColumnInner>,
    verified: Verified,
}

/// The storage of a column.
#[derive(Debug)]
pub(crate) struct ColumnParts {
    /// Table, segment and column, for error messages.
    pub(crate) place: String,
    pub(crate) field: FieldRef,
    /// Its number in the segment.
    pub(crate) number: usize,
    pub(crate) header: ColumnHeader,
    pub(crate) directory: ExtentBytes,
    pub(crate) parts: Arc<[ExtentBytes]>,
    pub(crate) rows: usize,
    pub(crate) chunk_rows: usize,
}

#[derive(Debug)]
struct ColumnInner {
    parts: ColumnParts,
    /// How its values are stored: decimals of which some have no key like strings.
    physical: Physical,
    entries: Range<usize>,
    space: Option<CodeSpace>,
    /// The strings of a small dictionary, once they were read.
    kept_strings: OnceLock<ArrayRef>,
}

impl Column {
    /// Checks the header. O(1).
    pub(crate) fn open(parts: ColumnParts) -> Result<Self> {
        let (header, data_type) = (&parts.header, parts.field.data_type());
        let wrong = |what: &str| Err(damaged(&parts.place, what));
        let physical = match Physical::from_data_type(data_type) {
            Some(Physical::I128) if header.kind != KIND_KEYS => Physical::Bytes,
            Some(physical) => physical,
            None => return wrong("has a type that is never stored"),
        };
        let chunks = header.chunks as usize;
        let entries = usize::try_from(header.entries).ok().and_then(|at| {
            let range = at..at.checked_add(chunks.checked_mul(size_of::<ChunkEntry>())?)?;
            (at % size_of::<ChunkEntry>() == 0 && range.end <= parts.directory.len()).then_some(range)
        });
        let Some(entries) = entries.filter(|_| chunks == parts.rows.div_ceil(parts.chunk_rows)) else {
            return wrong("has its chunk entries outside of the directory");
        };
        if header.min > header.max || header.nulls > parts.rows as u64 {
            return wrong("has impossible statistics");
        }
        let has_null = header.nulls > 0;
        let keys = (header.nulls < parts.rows as u64).then_some((header.min, header.max));
        let space = match (header.kind, physical) {
            (KIND_STRINGS, Physical::Bytes) => None,
            (KIND_DICTIONARY, Physical::Bytes) => {
                let part = parts.parts.get(header.dictionary_part as usize).cloned();
                let range = usize::try_from(header.dictionary_offset)
                    .ok()
                    .zip(usize::try_from(header.dictionary_len).ok());
                let range = range.and_then(|(at, len)| Some(at..at.checked_add(len)?));
                let Some((part, range)) = part.zip(range) else {
                    return wrong("has no dictionary");
                };
                let place = format!("{}, dictionary", parts.place);
                let dictionary = Dictionary::open_at(part, range, place)?;
                if keys != (dictionary.len() as u64).checked_sub(1).map(|last| (0, last)) {
                    return wrong("does not match its dictionary");
                }
                Some(CodeSpace::from_dictionary(data_type, dictionary, has_null)?)
            }
            (KIND_KEYS, physical) if physical != Physical::Bytes => {
                CodeSpace::of_keys(data_type, physical, has_null, keys, header.distinct)
            }
            _ => return wrong("has an unknown kind"),
        };
        Ok(Self {
            verified: Verified::shared(parts.number, entries.start),
            inner: Arc::new(ColumnInner {
                physical,
                entries,
                space,
                parts,
                kept_strings: OnceLock::new(),
            }),
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.inner.parts.field.name()
    }

    /// Returns the type of its values.
    pub fn data_type(&self) -> &DataType {
        self.inner.parts.field.data_type()
    }

    /// Returns the map between values and codes. `None` for strings without a dictionary, decimals of more
    /// than 64 bits stored in the same way, and a column that has NULLs as well as values at both ends of the
    /// 64-bit range.
    pub fn code_space(&self) -> Option<&CodeSpace> {
        self.inner.space.as_ref()
    }

    /// Returns true if [`rank_strings`](crate::rank_strings) can give it codes: a column of strings or of
    /// decimals.
    pub fn is_rankable(&self) -> bool {
        is_rankable(self.data_type())
    }

    /// Returns true if its values are decimals that are stored like strings, as some of them have, or once
    /// had, more than 64 bits.
    pub fn is_wide(&self) -> bool {
        self.inner.physical == Physical::Bytes && wide::may_be_wide(self.data_type())
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.inner.parts.rows
    }

    /// Returns the number of rows that are NULL.
    pub fn null_count(&self) -> usize {
        self.inner.parts.header.nulls as usize
    }

    /// Returns the number of rows per chunk.
    pub fn chunk_rows(&self) -> usize {
        self.inner.parts.chunk_rows
    }

    /// Returns the number of chunks.
    pub fn chunks(&self) -> usize {
        self.inner.parts.header.chunks as usize
    }

    /// Returns the size in bytes of its chunks and dictionary in the pool.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.parts.header.bytes
    }

    /// Returns the smallest and the largest code in a chunk; NULL counts as its code, 0. O(1).
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`], [`ColumnsError::Damaged`].
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn zone(&self, chunk: usize) -> Result<(u64, u64)> {
        let space = self.codes()?;
        let entry = self.keys_entry(chunk)?;
        if entry.nulls == entry.rows {
            return Ok((0, 0));
        }
        let low = if entry.nulls > 0 { 0 } else { space.code(entry.min) };
        Ok((low, space.code(entry.max)))
    }

    /// Appends the codes of `rows`. They never exceed `max_code`.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`], [`ColumnsError::RowsOutOfRange`], [`ColumnsError::Damaged`].
    pub fn read_codes(&self, rows: Range<usize>, codes: &mut Vec<u64>) -> Result<()> {
        let space = self.codes()?;
        check_rows(&rows, self.rows())?;
        codes.reserve(rows.len());
        for (number, within) in self.chunk_ranges(rows) {
            let chunk = self.packed(number)?;
            let shift = chunk.key_base().wrapping_add(space.key_to_code());
            let start = codes.len();
            with_lane!(chunk.width(), L => chunk.for_each_block::<L>(within, |values| match chunk.null() {
                None => codes.extend(values.iter().map(|&value| shift.wrapping_add(value.widen()))),
                Some(null) => codes.extend(values.iter().map(|&value| {
                    let value = value.widen();
                    if value == null { 0 } else { shift.wrapping_add(value) }
                })),
            }));
            let largest = codes[start..].iter().fold(0, |largest, &code| largest.max(code));
            if largest > space.max_code() {
                return Err(damaged(
                    self.place(number),
                    "holds a code beyond the column's largest",
                ));
            }
        }
        Ok(())
    }

    /// Returns this column for a caller that stores what it reads: chunks, their entries and the dictionary
    /// are verified when they are first read through the result or its clones, even if they were verified
    /// before or verification is off.
    #[must_use]
    pub fn for_copying(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            verified: Verified::own(self.chunks()),
        }
    }

    /// Returns the cache for the strings of a small dictionary; `None` for a column made by
    /// [`for_copying`](Self::for_copying), which must read them again.
    pub(crate) fn kept_strings(&self) -> Option<&OnceLock<ArrayRef>> {
        (!self.verified.is_own()).then_some(&self.inner.kept_strings)
    }

    pub(crate) fn physical(&self) -> Physical {
        self.inner.physical
    }

    pub(crate) fn header(&self) -> &ColumnHeader {
        &self.inner.parts.header
    }

    pub(crate) fn nullable(&self) -> bool {
        self.inner.parts.field.is_nullable()
    }

    /// Returns its code space.
    ///
    /// # Errors
    /// [`ColumnsError::NoCodes`].
    pub(crate) fn codes(&self) -> Result<&CodeSpace> {
        self.code_space().ok_or_else(|| ColumnsError::NoCodes {
            column: self.name().into(),
        })
    }

    /// Returns table, segment and column, for error messages.
    pub(crate) fn column_place(&self) -> &str {
        &self.inner.parts.place
    }

    /// Returns table, segment, column and chunk, for error messages.
    pub(crate) fn place(&self, chunk: usize) -> String {
        format!("{}, chunk {chunk}", self.inner.parts.place)
    }

    /// Returns all chunk entries, unchecked.
    pub(crate) fn entries(&self) -> &[ChunkEntry] {
        let bytes = &self.inner.parts.directory[self.inner.entries.clone()];
        <[ChunkEntry]>::ref_from_bytes(bytes).expect("place, size and alignment were checked at open")
    }

    /// Verifies the chunk entries, unless that was done.
    #[inline]
    fn verify_entries(&self) -> Result<()> {
        match self.verified.entries(&self.inner.parts.directory) {
            None => Ok(()),
            Some(unverified) => self.verify_entries_now(unverified),
        }
    }

    #[cold]
    fn verify_entries_now(&self, unverified: Unverified<'_>) -> Result<()> {
        let ColumnInner { parts, entries, .. } = &*self.inner;
        parts.directory.scan(entries.start, entries.len());
        if checksum(self.entries().as_bytes()) != parts.header.entries_checksum {
            return Err(damaged(
                &parts.place,
                "its chunk entries do not match their checksum",
            ));
        }
        let dictionary = self.code_space().and_then(|space| space.dictionary());
        if let Some(dictionary) = dictionary.filter(|_| self.verified.is_own()) {
            dictionary.verify_again()?;
        }
        unverified.note_sound();
        Ok(())
    }

    /// Verifies a chunk, whose bytes were found where the entry says, unless that was done.
    #[inline]
    fn verify_chunk(&self, chunk: usize, entry: &ChunkEntry, part: &ExtentBytes, bytes: &[u8]) -> Result<()> {
        match self.verified.chunk(&self.inner.parts.directory, chunk) {
            None => Ok(()),
            Some(unverified) => {
                part.scan(entry.offset as usize, bytes.len());
                if checksum(bytes) != entry.checksum {
                    return Err(damaged(self.place(chunk), "it does not match its checksum"));
                }
                unverified.note_sound();
                Ok(())
            }
        }
    }

    /// Returns the entry of a chunk, after verifying all entries of the column and checking the chunk's row
    /// count.
    pub(crate) fn entry(&self, chunk: usize) -> Result<&ChunkEntry> {
        self.verify_entries()?;
        let entry = &self.entries()[chunk];
        let rows = (self.rows() - chunk * self.chunk_rows()).min(self.chunk_rows());
        if entry.rows as usize != rows || entry.nulls > entry.rows {
            return Err(damaged(
                self.place(chunk),
                "chunk entry has a wrong number of rows",
            ));
        }
        Ok(entry)
    }

    /// Returns the entry of a chunk of keys, after checking its bounds against the column's.
    pub(crate) fn keys_entry(&self, chunk: usize) -> Result<&ChunkEntry> {
        let (entry, header) = (self.entry(chunk)?, self.header());
        let valued = entry.nulls < entry.rows;
        if valued && (entry.min < header.min || entry.max > header.max || entry.min > entry.max) {
            return Err(damaged(
                self.place(chunk),
                "chunk bounds lie outside of the column's",
            ));
        }
        if entry.nulls > 0 && header.nulls == 0 {
            return Err(damaged(self.place(chunk), "chunk has NULLs, its column has none"));
        }
        Ok(entry)
    }

    /// Returns the bytes of a chunk, and reports to the medium that all of them are read.
    pub(crate) fn chunk_bytes(&self, chunk: usize, entry: &ChunkEntry) -> Result<&[u8]> {
        let Some((part, bytes)) = self.part_of(chunk, entry)? else {
            return Ok(&[]);
        };
        part.touch(entry.offset as usize, bytes.len());
        Ok(bytes)
    }

    /// Returns the bytes of a chunk and the extent that holds them; `None` if the chunk has no bytes.
    fn part_of(&self, chunk: usize, entry: &ChunkEntry) -> Result<Option<(&ExtentBytes, &[u8])>> {
        if entry.len == 0 {
            return Ok(None);
        }
        let place = || self.place(chunk);
        let part = self.inner.parts.parts.get(entry.part as usize);
        let part = part.ok_or_else(|| damaged(place(), "chunk lies in no extent of the table"))?;
        Ok(Some((part, bytes_of(entry, part.as_slice(), place)?)))
    }

    /// Returns a chunk of keys or ranks, verified and checked. Its reads are reported to the medium block by
    /// block.
    pub(crate) fn packed(&self, chunk: usize) -> Result<KeyChunk<'_>> {
        let entry = self.keys_entry(chunk)?;
        let place = self.part_of(chunk, entry)?;
        if let Some((part, bytes)) = place {
            self.verify_chunk(chunk, entry, part, bytes)?;
        }
        self.keys_chunk(chunk, entry, place)
    }

    /// Returns the bytes of a chunk without verifying them. Empty if its entry is damaged, which is reported
    /// when the chunk is read.
    pub(crate) fn stored_chunk(&self, chunk: usize) -> &[u8] {
        let place = self.entry(chunk).and_then(|entry| self.part_of(chunk, entry));
        place.ok().flatten().map_or(&[], |(_, bytes)| bytes)
    }

    /// Returns true if the next read of a row of a chunk reads all of it, to verify it.
    pub(crate) fn is_unverified(&self, chunk: usize) -> bool {
        self.verified.chunk(&self.inner.parts.directory, chunk).is_some()
    }

    fn keys_chunk<'a>(
        &self,
        chunk: usize,
        entry: &'a ChunkEntry,
        place: Option<(&'a ExtentBytes, &'a [u8])>,
    ) -> Result<KeyChunk<'a>> {
        let keys = KeyChunk::new(entry, place.map_or(&[], |(_, bytes)| bytes))
            .map_err(|what| damaged(self.place(chunk), what))?;
        Ok(match place {
            Some((part, _)) => keys.on(part),
            None => keys,
        })
    }

    /// Returns a chunk of strings, verified and checked.
    pub(crate) fn strings(&self, chunk: usize) -> Result<StringsChunk<'_>> {
        let entry = self.entry(chunk)?;
        let bytes = self.chunk_bytes(chunk, entry)?;
        if let Some((part, _)) = self.part_of(chunk, entry)? {
            self.verify_chunk(chunk, entry, part, bytes)?;
        }
        StringsChunk::new(entry, bytes).map_err(|what| damaged(self.place(chunk), what))
    }

    /// Iterates over the chunks that hold `rows`, with the rows within each.
    pub(crate) fn chunk_ranges(
        &self,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let size = self.chunk_rows();
        let chunks = if rows.is_empty() {
            0..0
        } else {
            rows.start / size..rows.end.div_ceil(size)
        };
        chunks.map(move |chunk| {
            let first = chunk * size;
            (
                chunk,
                rows.start.max(first) - first..rows.end.min(first + size) - first,
            )
        })
    }
}
