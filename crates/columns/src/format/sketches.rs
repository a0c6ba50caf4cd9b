//! The sketches of the distinct values of a segment's columns, after the chunk entries in its directory: the
//! length of each sketch (u32), then the sketches.
//!
//! Segments that were written before there were sketches have none; nor have those to which a program of that
//! time has added a column, as it writes zeros where the header names the sketches.

use crate::Result;
use crate::codec::sketch::DistinctSketch;
use crate::error::damaged;
use crate::format::{SegmentHeader, checksum};
use halocline_media::Bytes;
use halocline_pool::ExtentBytes;
use std::ops::Range;

/// Returns the bytes of sketches, one for each column.
pub(crate) fn encode(sketches: &[DistinctSketch]) -> Vec<u8> {
    let stored: Vec<Vec<u8>> = sketches.iter().map(DistinctSketch::to_bytes).collect();
    let lens = stored.iter().flat_map(|bytes| (bytes.len() as u32).to_le_bytes());
    lens.chain(stored.iter().flatten().copied()).collect()
}

/// Reads and verifies the sketches of a directory; `None` if it has no sketches.
///
/// # Errors
/// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged) at `place`.
pub(crate) fn decode(
    place: &str,
    directory: &[u8],
    header: &SegmentHeader,
) -> Result<Option<Vec<DistinctSketch>>> {
    let Some(range) = range(header) else {
        return Ok(None);
    };
    let bytes = directory.get(range);
    let Some(bytes) = bytes.filter(|bytes| checksum(bytes) == header.sketches_checksum) else {
        return Err(damaged(place, "the sketches do not match their checksum"));
    };
    match sketches(bytes, header.columns as usize) {
        Some(sketches) => Ok(Some(sketches)),
        None => Err(damaged(place, "the sketches are not what a sketch can be")),
    }
}

/// Reads the sketches of an open segment, see [`decode`].
///
/// # Errors
/// Those of [`decode`].
pub(crate) fn read(
    place: &str,
    directory: &ExtentBytes,
    header: &SegmentHeader,
) -> Result<Option<Vec<DistinctSketch>>> {
    if let Some(range) = range(header).filter(|range| range.end <= directory.len()) {
        directory.scan(range.start, range.len());
    }
    decode(place, directory, header)
}

/// Returns the range of the sketches in the directory; `None` if there are no sketches. A range that is
/// beyond all memory is empty, and so beyond every directory, too.
fn range(header: &SegmentHeader) -> Option<Range<usize>> {
    if header.sketches_len == 0 {
        return None;
    }
    let start = usize::try_from(header.sketches).unwrap_or(usize::MAX);
    Some(start..start.saturating_add(header.sketches_len as usize))
}

fn sketches(bytes: &[u8], columns: usize) -> Option<Vec<DistinctSketch>> {
    let (lens, mut rest) = bytes.split_at_checked(columns.checked_mul(4)?)?;
    let sketch = |len: &[u8]| {
        let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
        let (own, others) = rest.split_at_checked(len)?;
        rest = others;
        DistinctSketch::from_bytes(own)
    };
    let sketches: Option<Vec<DistinctSketch>> = lens.chunks_exact(4).map(sketch).collect();
    sketches.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn some() -> Vec<DistinctSketch> {
        [0u64, 3, 100_000]
            .map(|distinct| {
                let mut sketch = DistinctSketch::default();
                (0..distinct).for_each(|key| sketch.add_key(key));
                sketch
            })
            .to_vec()
    }

    #[test]
    fn sketches_are_read_as_they_were_written() {
        let mut directory = vec![7u8; 5];
        let bytes = encode(&some());
        directory.extend_from_slice(&bytes);
        let mut header = SegmentHeader::new_zeroed();
        assert_eq!(decode("here", &directory, &header).unwrap(), None);
        header.columns = 3;
        header.sketches = 5;
        header.sketches_len = bytes.len() as u32;
        header.sketches_checksum = checksum(&bytes);
        assert_eq!(decode("here", &directory, &header).unwrap(), Some(some()));
        for (columns, sketches, changed) in [(2, 5, None), (4, 5, None), (3, u64::MAX, None), (3, 5, Some(9))]
        {
            let (mut header, mut directory) = (header, directory.clone());
            (header.columns, header.sketches) = (columns, sketches);
            if let Some(changed) = changed {
                directory[changed] ^= 1;
            }
            let error = decode("here", &directory, &header).unwrap_err().to_string();
            assert!(error.contains("here") && error.contains("sketches"), "{error}");
        }
    }
}
