//! The records of a store that is being loaded: [`LoadLog`].
//!
//! They are in log segments of their own, each with one frame and a link after it, as the emptying of
//! segments expects. The frames are numbered 0, which no frame of the log is, so they never continue it.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::error::Result;
use crate::layout::{
    CHUNK, FRAME_HEAD, FRAME_LINK, FrameHead, RECORD_CHUNK, RECORD_CHUNKED, RECORD_FIRST, SEGMENT,
};
use crate::load_segments::LoadedSegments;
use crate::log::frame_checksum;
use crate::record::{NewRecord, chunk_list};
use crate::segments::{RecordsOf, SegmentKind, SegmentUse};
use crate::state::chunks_of;

/// Writes records to segments.
pub(crate) struct LoadLog {
    /// The secret of the log.
    secret: u64,
    store: u32,
    /// The commit that the records belong to.
    commit: u64,
    /// The segment that is being filled, if there is one.
    segment: Option<u64>,
    /// Its bytes so far, with room for the head of the frame.
    bytes: Vec<u8>,
    /// The checksums of its records.
    sums: Vec<u8>,
}

impl LoadLog {
    pub(crate) fn new(secret: u64, store: u32, commit: u64) -> Self {
        Self {
            secret,
            store,
            commit,
            segment: None,
            bytes: Vec::with_capacity(SEGMENT as usize),
            sums: Vec::new(),
        }
    }

    /// Writes the records of a pair, and returns the offset of the one that leads to the value.
    ///
    /// # Errors
    /// A full disk, and errors of the medium.
    pub(crate) fn push(&mut self, segments: &mut LoadedSegments, key: &[u8], value: &[u8]) -> Result<u64> {
        if value.len() <= CHUNK {
            return self.record(segments, 0, key, value);
        }
        let mut offsets = Vec::with_capacity(value.len().div_ceil(CHUNK));
        for chunk in chunks_of(value) {
            offsets.push(self.record(segments, RECORD_CHUNK, key, chunk)?);
        }
        let list = chunk_list(value.len(), &offsets);
        self.record(segments, RECORD_CHUNKED, key, &list)
    }

    fn record(&mut self, segments: &mut LoadedSegments, flags: u16, key: &[u8], value: &[u8]) -> Result<u64> {
        let record = NewRecord {
            store: self.store,
            commit: self.commit,
            flags: flags | RECORD_FIRST,
            expires: None,
            prev: 0,
            key,
            value,
        };
        if self.bytes.len() as u64 + record.len() + FRAME_HEAD > SEGMENT {
            self.close(segments)?;
        }
        let segment = match self.segment {
            Some(segment) => segment,
            None => {
                let segment = segments.alloc()?;
                self.bytes.resize(FRAME_HEAD as usize, 0);
                *self.segment.insert(segment)
            }
        };
        let offset = segment + self.bytes.len() as u64;
        let sum = record.write(&mut self.bytes);
        self.sums.extend_from_slice(&sum.to_le_bytes());
        Ok(offset)
    }

    /// Writes the segment that is being filled.
    ///
    /// # Errors
    /// Those of the medium.
    pub(crate) fn close(&mut self, segments: &mut LoadedSegments) -> Result<()> {
        let Some(segment) = self.segment.take() else {
            return Ok(());
        };
        let len = self.bytes.len() as u64;
        let frame = self.head(segment, len, 0, U64::ZERO, &self.sums);
        let link = self.head(segment + len, FRAME_HEAD, FRAME_LINK, frame.checksum, &[]);
        self.bytes[..FRAME_HEAD as usize].copy_from_slice(frame.as_bytes());
        self.bytes.extend_from_slice(link.as_bytes());
        let usage = SegmentUse {
            kind: SegmentKind::Log,
            used: len - FRAME_HEAD,
            expires: 0,
            store: RecordsOf::Store(self.store),
        };
        let written = segments.write(segment, &self.bytes, usage);
        self.bytes.clear();
        self.sums.clear();
        written
    }

    /// Returns the head of a frame, or of the link after it, which leads nowhere.
    fn head(&self, offset: u64, len: u64, flags: u16, chain: U64, sums: &[u8]) -> FrameHead {
        let is_link = flags & FRAME_LINK != 0;
        let mut head = FrameHead {
            len: U32::new(len as u32),
            flags: U16::new(flags),
            records: U16::new((sums.len() / 4) as u16),
            number: U64::ZERO,
            chain,
            commit: U64::new(if is_link { 0 } else { self.commit }),
            checksum: U64::ZERO,
        };
        head.checksum = U64::new(frame_checksum(self.secret, offset, &head, sums));
        head
    }
}
