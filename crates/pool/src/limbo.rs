//! The limbo list of a directory: space that its generation does not name but older ones do, the age of space
//! that it names, and the [reserve](crate::reserve). From it a handle that takes over writing determines what
//! is free.
//!
//! Invariant: space that a generation's directory neither names nor lists is named by no generation that was
//! pinned when it was published, nor by one that a superblock that may still be needed leads to.

use std::mem::size_of;
use std::ops::Range;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::{BLOCK, DATA_START, LimboEntry, LimboHeader};

/// A range of space with the generations that name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgedRange {
    pub(crate) range: Range<u64>,
    /// The first generation that names it, or 0 if it precedes everything that can be pinned.
    pub(crate) born: u64,
    /// The first generation that no longer names it, or `None` if the newest does.
    pub(crate) freed: Option<u64>,
}

/// Information of a directory on space beyond the extents that it names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LimboList {
    /// A generation that was durable with a synced superblock when the list was written, or 0 if none is
    /// known.
    pub(crate) synced: u64,
    /// Disjoint ranges in ascending order.
    pub(crate) ranges: Vec<AgedRange>,
    /// The reserve: free ranges in ascending order, disjoint from the others.
    pub(crate) reserve: Vec<Range<u64>>,
}

impl LimboList {
    /// Sorts the ranges and merges neighbours of the same age.
    pub(crate) fn new(synced: u64, mut ranges: Vec<AgedRange>, reserve: Vec<Range<u64>>) -> LimboList {
        ranges.sort_unstable_by_key(|aged| aged.range.start);
        let mut joined: Vec<AgedRange> = Vec::with_capacity(ranges.len());
        for aged in ranges {
            match joined.last_mut() {
                Some(last)
                    if last.range.end == aged.range.start
                        && (last.born, last.freed) == (aged.born, aged.freed) =>
                {
                    last.range.end = aged.range.end;
                }
                _ => joined.push(aged),
            }
        }
        LimboList {
            synced,
            ranges: joined,
            reserve,
        }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len() + self.reserve.len()
    }

    /// Returns the bytes of the reserve.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the encoded length of a list of `entries` entries.
    pub(crate) fn encoded_len(entries: usize) -> usize {
        size_of::<LimboHeader>() + entries * size_of::<LimboEntry>()
    }

    /// Appends the encoded list.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let header = LimboHeader {
            synced: U64::new(self.synced),
            reserved: U64::new(0),
        };
        bytes.extend_from_slice(header.as_bytes());
        let entry = |range: &Range<u64>, born: u64, freed: Option<u64>| LimboEntry {
            offset: U64::new(range.start),
            len: U64::new(range.end - range.start),
            born: U64::new(born),
            freed: U64::new(freed.unwrap_or(0)),
        };
        let mut reserve = self.reserve.iter().peekable();
        // Neither named nor freed by any generation: free space that is set aside.
        let set_aside = |range: &Range<u64>| entry(range, 0, None);
        for aged in &self.ranges {
            while let Some(range) = reserve.next_if(|range| range.start < aged.range.start) {
                bytes.extend_from_slice(set_aside(range).as_bytes());
            }
            bytes.extend_from_slice(entry(&aged.range, aged.born, aged.freed).as_bytes());
        }
        reserve.for_each(|range| bytes.extend_from_slice(set_aside(range).as_bytes()));
    }

    /// Decodes the list of a generation's directory, which is everything after its heap. Its ranges may lie
    /// past the end of a file that has been shortened since.
    ///
    /// # Errors
    /// A description of the contradiction found.
    pub(crate) fn decode(bytes: &[u8], count: u64, generation: u64) -> Result<LimboList, &'static str> {
        const WRONG_LEN: &str = "its limbo list does not have its length";
        let (header, entries) = LimboHeader::read_from_prefix(bytes).map_err(|_| WRONG_LEN)?;
        let entries = <[LimboEntry]>::ref_from_bytes(entries).map_err(|_| WRONG_LEN)?;
        if entries.len() as u64 != count {
            return Err(WRONG_LEN);
        }
        if header.synced.get() > generation {
            return Err("its limbo list is of a later generation");
        }
        let mut end = DATA_START;
        let (mut ranges, mut reserve) = (Vec::with_capacity(entries.len()), Vec::new());
        for entry in entries {
            let (offset, len) = (entry.offset.get(), entry.len.get());
            let blocks = offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK) && len > 0;
            if !blocks || offset < end {
                return Err("its limbo list is not in order");
            }
            end = offset
                .checked_add(len)
                .ok_or("its limbo list leads out of any file")?;
            let (born, freed) = (entry.born.get(), entry.freed.get());
            if born > generation || freed > generation || freed != 0 && born >= freed {
                return Err("its limbo list is of a later generation");
            }
            if (born, freed) == (0, 0) {
                reserve.push(offset..end);
                continue;
            }
            ranges.push(AgedRange {
                range: offset..end,
                born,
                freed: (freed != 0).then_some(freed),
            });
        }
        Ok(LimboList {
            synced: header.synced.get(),
            ranges,
            reserve,
        })
    }

    /// Returns the first generation that names the space at an offset in use, or 0 if it is not listed.
    pub(crate) fn born(&self, offset: u64) -> u64 {
        let at = self.ranges.partition_point(|aged| aged.range.end <= offset);
        let found = self.ranges.get(at).filter(|aged| aged.range.start <= offset);
        found
            .filter(|aged| aged.freed.is_none())
            .map_or(0, |aged| aged.born)
    }

    /// Returns the ranges that older generations name and the newest does not.
    pub(crate) fn freed(&self) -> impl Iterator<Item = (&AgedRange, u64)> {
        self.ranges
            .iter()
            .filter_map(|aged| aged.freed.map(|freed| (aged, freed)))
    }
}
