//! The end of the log: appends batches as frames, and records which of them a fence has made durable.
//!
//! Invariants: a frame says that all before it are durable only if a fence has made them so. Each frame of a
//! batch but the last says that more follow, so that the batch counts wholly or not at all. Each segment
//! keeps room for the link to the next one.

use std::ops::Range;

use halocline_media::{MediaError, Medium};
use halocline_pool::{PoolError, Slab};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::{LogPosition, frame_checksum};
use crate::fault::{StoreFault, injected};
use crate::layout::{FRAME_FENCED, FRAME_HEAD, FRAME_LINK, FRAME_MORE, FRAME_MOVED, FrameHead, SEGMENT};
use crate::record::NewRecord;
use crate::segments::{SegmentUse, Segments};

/// The end of the log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    secret: u64,
    position: LogPosition,
    /// True if a fence has made all frames durable.
    fenced: bool,
    /// Number of free segments that batches leave to others.
    kept: u64,
    /// True while frames wait for a later fence.
    deferring: bool,
    /// Ranges with frames that were stored for a later fence. Whoever fences flushes them first: a fence
    /// covers what its own thread has flushed.
    deferred: Vec<Range<u64>>,
    /// Number of ranges at the beginning of `deferred` that a fence outside of the committer's lock makes
    /// durable, and that do not grow.
    sealed: usize,
    /// Number of fences that have made frames durable.
    fences: u64,
    frame: OpenFrame,
    /// Bytes of all frames so far.
    written: u64,
}

/// The frame that is being made.
#[derive(Debug, Default)]
struct OpenFrame {
    commit: u64,
    flags: u16,
    bytes: Vec<u8>,
    sums: Vec<u8>,
}

/// A state of the writer to which it can return, before the next fence.
#[derive(Debug)]
pub(crate) struct LogMark {
    position: LogPosition,
    fenced: bool,
}

impl LogWriter {
    /// Continues the log at a position before which all frames are durable.
    pub(crate) fn new(secret: u64, position: LogPosition) -> Self {
        Self {
            secret,
            position,
            fenced: true,
            kept: 0,
            deferring: false,
            deferred: Vec::new(),
            sealed: 0,
            fences: 0,
            frame: OpenFrame::default(),
            written: 0,
        }
    }

    /// Returns the bytes of all frames so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn position(&self) -> LogPosition {
        self.position
    }

    /// Continues at another position. For readers, which write nothing.
    pub(crate) fn move_to(&mut self, position: LogPosition) {
        self.position = position;
    }

    pub(crate) fn secret(&self) -> u64 {
        self.secret
    }

    /// Returns the state to return to if a commit fails.
    pub(crate) fn mark(&self) -> LogMark {
        LogMark {
            position: self.position,
            fenced: self.fenced,
        }
    }

    /// Takes back all frames since a mark. The first one is erased durably: it may be the link to a segment
    /// that the next checkpoint names. Another thread makes that, whose fences need not cover this flush.
    ///
    /// # Errors
    /// Those of the medium.
    pub(crate) fn take_back(&mut self, medium: &Medium, mark: LogMark) -> Result<(), MediaError> {
        let has_frames = self.position.number != mark.position.number;
        (self.position, self.fenced) = (mark.position, mark.fenced);
        self.frame = OpenFrame::default();
        if has_frames && !injected(StoreFault::KeepTakenBack) {
            medium.store(mark.position.offset, FrameHead::default().as_bytes());
            medium.flush(mark.position.offset, FRAME_HEAD);
            medium.fence()?;
        }
        Ok(())
    }

    /// Begins a batch; `moved` if its records are copies of older ones.
    pub(crate) fn begin(&mut self, commit: u64, moved: bool) {
        self.frame.commit = commit;
        self.frame.flags = FRAME_MOVED * u16::from(moved);
        self.frame.bytes.clear();
        self.frame.sums.clear();
    }

    /// Adds a record to the batch. Returns its offset.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`] if no segment is free, also where the slab could grow.
    pub(crate) fn push(
        &mut self,
        slab: &Slab,
        segments: &mut Segments,
        record: &NewRecord<'_>,
    ) -> Result<u64, PoolError> {
        // Each segment keeps room for the link to the next one.
        let end = self.position.segment + SEGMENT - FRAME_HEAD;
        let mut at = self.position.offset + FRAME_HEAD + self.frame.bytes.len() as u64;
        if at + record.len() > end {
            if !self.frame.sums.is_empty() {
                // More frames of the batch follow. It counts only with the last of them, so a crash in
                // between leaves nothing of it.
                self.close(slab.medium(), !injected(StoreFault::TornBatch));
            }
            if self.position.offset + FRAME_HEAD + record.len() > end {
                self.link(slab, segments)?;
            }
            at = self.position.offset + FRAME_HEAD;
        }
        let sum = record.write(&mut self.frame.bytes);
        self.frame.sums.extend_from_slice(&sum.to_le_bytes());
        Ok(at)
    }

    /// Ends the batch: its frames are stored and, unless they are deferred, flushed with all before them.
    pub(crate) fn end(&mut self, medium: &Medium) {
        self.close(medium, false);
        if !self.deferring {
            self.flush_deferred(medium);
        }
    }

    /// Sets the number of free segments that batches leave to others.
    pub(crate) fn keep_free(&mut self, segments: u64) {
        self.kept = segments;
    }

    /// Lets frames wait for a later fence, or not.
    pub(crate) fn set_deferring(&mut self, deferring: bool) {
        self.deferring = deferring;
    }

    /// Flushes the frames that wait for a later fence.
    pub(crate) fn flush_deferred(&self, medium: &Medium) {
        for range in &self.deferred {
            medium.flush(range.start, range.end - range.start);
        }
    }

    /// Returns the frames that wait for a fence, which is going to be made outside of the committer's lock.
    pub(crate) fn seal(&mut self) -> SealedFrames {
        self.sealed = self.deferred.len();
        SealedFrames {
            ranges: self.deferred.clone(),
            number: self.position.number,
            fences: self.fences,
        }
    }

    /// Records that a fence has made sealed frames durable.
    pub(crate) fn set_sealed_fenced(&mut self, sealed: &SealedFrames) {
        if sealed.number == self.position.number {
            self.set_fenced();
            return;
        }
        self.fences += 1;
        if sealed.fences + 1 == self.fences {
            // Frames were added meanwhile, and no other fence has made them durable.
            self.deferred.drain(..sealed.ranges.len());
            self.sealed = 0;
        }
    }

    /// Returns true if a fence has made all frames durable.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Returns the number of fences that have made frames durable.
    pub(crate) fn fences(&self) -> u64 {
        self.fences
    }

    fn defer(&mut self, range: Range<u64>) {
        match self.deferred[self.sealed..].last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.deferred.push(range),
        }
    }

    fn close(&mut self, medium: &Medium, more: bool) {
        let frame = std::mem::take(&mut self.frame);
        let flags = frame.flags | (FRAME_MORE * u16::from(more));
        self.store(medium, flags, frame.commit, &frame.bytes, &frame.sums);
        self.frame = frame;
        self.frame.bytes.clear();
        self.frame.sums.clear();
    }

    fn store(&mut self, medium: &Medium, flags: u16, commit: u64, records: &[u8], sums: &[u8]) {
        let len = FRAME_HEAD + records.len() as u64;
        let mut head = FrameHead {
            len: U32::new(len as u32),
            // The flag says that all frames before this one are durable. If one of them cannot be read later,
            // the log is damaged and does not end there.
            flags: U16::new(flags | (FRAME_FENCED * u16::from(self.fenced))),
            records: U16::new((sums.len() / 4) as u16),
            number: U64::new(self.position.number),
            chain: U64::new(self.position.chain),
            commit: U64::new(commit),
            checksum: U64::ZERO,
        };
        head.checksum = U64::new(frame_checksum(self.secret, self.position.offset, &head, sums));
        medium.store_unread(self.position.offset, head.as_bytes());
        medium.store_unread(self.position.offset + FRAME_HEAD, records);
        if self.deferring {
            self.defer(self.position.offset..self.position.offset + len)
        } else {
            medium.flush(self.position.offset, len)
        }
        self.position.offset += len;
        self.position.number += 1;
        self.position.chain = head.checksum.get();
        self.written += len;
        self.fenced = false;
    }

    /// Continues the log in a new segment if one is free, so that the current one can be emptied. The link is
    /// durable with the next fence; it does not matter before.
    pub(crate) fn leave_segment(&mut self, slab: &Slab, segments: &mut Segments) -> Result<(), PoolError> {
        // Between two batches, which do not grow the slab here.
        match slab.stats() {
            stats if stats.used < stats.capacity => self.link(slab, segments),
            _ => Ok(()),
        }
    }

    /// Continues the log in a new segment. The slab does not grow, because locks are held that all commits
    /// take.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`] if there is no segment now.
    fn link(&mut self, slab: &Slab, segments: &mut Segments) -> Result<(), PoolError> {
        let stats = slab.stats();
        let next = if stats.capacity - stats.used > self.kept {
            slab.alloc_present()?
        } else {
            None
        };
        let next = next.ok_or_else(|| PoolError::DiskFull {
            path: slab.pool().path().to_path_buf(),
            wanted: SEGMENT,
        })?;
        segments.insert(next, SegmentUse::NEW_LOG);
        let tail = self.position.segment + SEGMENT - self.position.offset - FRAME_HEAD;
        segments.set_tail(self.position.segment, tail);
        self.store(slab.medium(), FRAME_LINK, next, &[], &[]);
        (self.position.segment, self.position.offset) = (next, next);
        Ok(())
    }

    /// Records that a fence has made all frames durable.
    pub(crate) fn set_fenced(&mut self) {
        self.fenced = true;
        self.fences += 1;
        self.deferred.clear();
        self.sealed = 0;
    }
}

/// Frames that a fence makes durable while others are added.
#[derive(Debug)]
pub(crate) struct SealedFrames {
    ranges: Vec<Range<u64>>,
    /// The number of the frame after them.
    number: u64,
    /// The number of fences before.
    fences: u64,
}

impl SealedFrames {
    /// Flushes the frames.
    pub(crate) fn flush(&self, medium: &Medium) {
        for range in &self.ranges {
            medium.flush(range.start, range.end - range.start);
        }
    }
}
