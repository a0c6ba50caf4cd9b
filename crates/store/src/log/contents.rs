//! The contents of single log segments, for the choice of those to empty, and for their emptying.
//!
//! Invariants: a segment is read from its start on, whatever the numbers and checksums of its frames: what
//! its records are needed for is known otherwise. Nothing is loaded from outside of the segment, except to
//! find that a record is damaged.

use halocline_media::Medium;
use zerocopy::IntoBytes;

use crate::layout::{FRAME_HEAD, FRAME_LINK, FrameHead, SEGMENT};
use crate::record::RecordRef;

/// Returns the bytes of a segment that no frame could fill: those after its link. 0 if it has none. Reads
/// the heads of its frames.
pub(crate) fn tail_of(medium: &Medium, segment: u64) -> u64 {
    let mut offset = segment;
    while offset + FRAME_HEAD <= segment + SEGMENT {
        let mut head = FrameHead::default();
        medium.load(offset, head.as_mut_bytes());
        if head.flags.get() & FRAME_LINK != 0 {
            return segment + SEGMENT - offset - FRAME_HEAD;
        }
        // A damaged segment is found when it is emptied.
        if u64::from(head.len.get()) < FRAME_HEAD {
            return 0;
        }
        offset += u64::from(head.len.get());
    }
    0
}

/// Returns time of expiry, if there is one, and length of the records of a segment, needed or not, as far as
/// they are not damaged. Chunks do not have the time of their value: they may expire at any. Reads heads of
/// frames and records.
pub(crate) fn expiries_of(medium: &Medium, segment: u64) -> Vec<(Option<u64>, u64)> {
    let (mut found, mut offset) = (Vec::new(), segment);
    while offset + FRAME_HEAD <= segment + SEGMENT {
        let mut head = FrameHead::default();
        medium.load(offset, head.as_mut_bytes());
        let end = offset + u64::from(head.len.get());
        let is_frame = end >= offset + FRAME_HEAD && end <= segment + SEGMENT;
        if head.flags.get() & FRAME_LINK != 0 || !is_frame {
            break;
        }
        let mut at = offset + FRAME_HEAD;
        for _ in 0..head.records.get() {
            let record = RecordRef::load(medium, at).filter(|record| at + record.len() <= end);
            let Some(record) = record else {
                return found;
            };
            let expires = record.is_chunk().then_some(u64::MAX);
            found.push((expires.or_else(|| record.expires(medium)), record.len()));
            at += record.len();
        }
        offset = end;
    }
    found
}

/// Returns the verified records of all frames of a segment, from its start on, and whether the link to the
/// next segment follows them.
///
/// # Errors
/// The offset of a damaged record.
pub(crate) fn records_of(medium: &Medium, segment: u64) -> Result<(Vec<RecordRef>, bool), u64> {
    let mut found = Vec::new();
    let mut offset = segment;
    while offset + FRAME_HEAD <= segment + SEGMENT {
        let mut head = FrameHead::default();
        medium.load(offset, head.as_mut_bytes());
        if head.flags.get() & FRAME_LINK != 0 {
            return Ok((found, true));
        }
        let len = u64::from(head.len.get());
        if len < FRAME_HEAD || offset + len > segment + SEGMENT {
            break;
        }
        let mut at = offset + FRAME_HEAD;
        for _ in 0..head.records.get() {
            let record = RecordRef::load(medium, at).filter(|record| at + record.len() <= offset + len);
            let record = record
                .filter(|record| record.contents(medium).is_some())
                .ok_or(at)?;
            found.push(record);
            at += record.len();
        }
        offset += len;
    }
    Ok((found, false))
}
