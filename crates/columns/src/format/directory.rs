//! The directory extent of a segment: its header, the headers of its columns, the chunk entries of all of
//! them, and their sketches.

use crate::Result;
use crate::error::damaged;
use crate::format::{BLOCK, ChunkEntry, ColumnHeader, SEGMENT_MAGIC, SegmentHeader, checksum};
use std::borrow::Cow;
use zerocopy::{FromBytes, IntoBytes};

/// A column of a directory that is to be written; where its entries are is filled in by [`encode`].
pub(crate) type ColumnEntries<'a> = (ColumnHeader, Cow<'a, [ChunkEntry]>);

/// Encodes a directory. `sketches` has the encoded sketches of all columns; empty if they are unknown.
pub(crate) fn encode(
    rows: u64,
    chunk_rows: u32,
    parts: u32,
    columns: &[ColumnEntries<'_>],
    sketches: &[u8],
) -> Vec<u8> {
    let mut entries_at = size_of::<SegmentHeader>() + columns.len() * size_of::<ColumnHeader>();
    let headers: Vec<ColumnHeader> = columns
        .iter()
        .map(|(header, entries)| {
            let at = entries_at;
            entries_at += entries.as_bytes().len();
            ColumnHeader {
                entries: at as u64,
                entries_checksum: checksum(entries.as_bytes()),
                ..*header
            }
        })
        .collect();
    let mut header = SegmentHeader {
        magic: SEGMENT_MAGIC,
        checksum: 0,
        rows,
        chunk_rows,
        columns: columns.len() as u32,
        parts,
        sketches_len: sketches.len() as u32,
        sketches: if sketches.is_empty() { 0 } else { entries_at as u64 },
        sketches_checksum: if sketches.is_empty() {
            0
        } else {
            checksum(sketches)
        },
        reserved: [0; 2],
    };
    let mut directory = [header.as_bytes(), headers.as_bytes()].concat();
    header.checksum = checksum(&directory);
    directory[..size_of::<SegmentHeader>()].copy_from_slice(header.as_bytes());
    columns
        .iter()
        .for_each(|(_, entries)| directory.extend_from_slice(entries.as_bytes()));
    directory.extend_from_slice(sketches);
    directory
}

/// Returns the headers of a directory after verifying their checksum and counts.
///
/// # Errors
/// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged) at `place`.
pub(crate) fn headers<'a>(place: &str, directory: &'a [u8]) -> Result<(SegmentHeader, &'a [ColumnHeader])> {
    let wrong = |what: &str| Err(damaged(place, what));
    let Ok((header, rest)) = SegmentHeader::read_from_prefix(directory) else {
        return wrong("directory is shorter than its header");
    };
    if header.magic != SEGMENT_MAGIC {
        return wrong("directory has a foreign header");
    }
    let Ok((headers, _)) = <[ColumnHeader]>::ref_from_prefix_with_elems(rest, header.columns as usize) else {
        return wrong("directory is shorter than its column headers");
    };
    let blank = SegmentHeader {
        checksum: 0,
        ..header
    };
    if checksum(&[blank.as_bytes(), headers.as_bytes()].concat()) != header.checksum {
        return wrong("directory does not match its checksum");
    }
    let chunk_rows = header.chunk_rows as usize;
    if header.rows == 0 || header.rows > 1 << 31 || chunk_rows == 0 || !chunk_rows.is_multiple_of(BLOCK) {
        return wrong("directory has impossible row counts");
    }
    Ok((header, headers))
}
