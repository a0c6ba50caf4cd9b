//! The log of all stores: segments with frames of records, each one commit or a part of one.
//!
//! The log is where records live, not a copy of them: trees hold the offsets of records in it. A commit is
//! durable once its frames are, with one fence, which may be deferred. What the trees of the last checkpoint
//! lack is read from the log at opening.
//!
//! Invariants: frames are numbered; frame `n + 1` follows frame `n`, in the same segment or in the one that a
//! link names. A frame counts only if all before it do. Checksums depend on a secret of the pool's stores and
//! on the offset, so that no value can look like a frame.

use std::collections::HashSet;
use std::ops::Range;

use halocline_media::{MediaError, Medium};
use halocline_pool::{PoolError, Slab};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::fault::{StoreFault, injected};
use crate::layout::{
    FRAME_FENCED, FRAME_HEAD, FRAME_LINK, FRAME_MORE, FRAME_MOVED, FrameHead, MAX_NUMBER, SEGMENT,
};
use crate::record::{NewRecord, RecordRef};
use crate::record_arena::RecordArena;
use crate::segments::{SegmentUse, Segments};

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// Offset of the next frame.
    pub(crate) offset: u64,
    /// Offset of its segment.
    pub(crate) segment: u64,
    /// Its number.
    pub(crate) number: u64,
    /// Checksum of the frame before.
    pub(crate) chain: u64,
}

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

/// Returns the checksum of a frame at an offset whose records have these checksums.
pub(crate) fn frame_checksum(secret: u64, offset: u64, head: &FrameHead, sums: &[u8]) -> u64 {
    let head = FrameHead {
        checksum: U64::ZERO,
        ..*head
    };
    let seed = secret ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    xxh3_64_with_seed(sums, xxh3_64_with_seed(head.as_bytes(), seed))
}

/// A frame of the log.
#[derive(Debug)]
pub(crate) struct FoundFrame {
    pub(crate) commit: u64,
    flags: u16,
    pub(crate) records: Vec<RecordRef>,
}

impl FoundFrame {
    /// Returns true if the next frame belongs to the same batch.
    pub(crate) fn goes_on(&self) -> bool {
        self.flags & FRAME_MORE != 0
    }

    /// Returns true if the records are copies of older ones.
    pub(crate) fn is_moved(&self) -> bool {
        self.flags & FRAME_MOVED != 0
    }
}

/// Reads the log from a position on.
#[derive(Debug)]
pub(crate) struct LogReader<'a> {
    medium: &'a Medium,
    secret: u64,
    position: LogPosition,
    /// The frames that may not be durable: no later one says that they are.
    unfenced: Vec<Range<u64>>,
}

/// A step of the reader.
#[derive(Debug)]
pub(crate) enum LogStep {
    OpenFrame(FoundFrame),
    /// The log goes on in this segment.
    Link(u64),
    End,
    /// A frame that was durable is not there any more.
    Damaged(u64),
}

/// Frames that a segment has after a missing one.
enum Later {
    /// There is one that was written when all before it were durable.
    Fenced,
    /// There is none in this segment, which has links with these offsets and numbers.
    Links(Vec<(u64, u64)>),
}

impl<'a> LogReader<'a> {
    pub(crate) fn new(medium: &'a Medium, secret: u64, position: LogPosition) -> Self {
        Self {
            medium,
            secret,
            position,
            unfenced: Vec::new(),
        }
    }

    pub(crate) fn position(&self) -> LogPosition {
        self.position
    }

    /// Returns the ranges of the frames read that may not be durable.
    pub(crate) fn into_unfenced(self) -> Vec<Range<u64>> {
        self.unfenced
    }

    /// Returns false if the frames of the segment show that the position is not the one after the frame
    /// whose number and checksum it has. Frames that are damaged, or in another segment, show nothing.
    pub(crate) fn is_position(&self) -> bool {
        let LogPosition {
            offset: position,
            segment,
            number,
            chain,
        } = self.position;
        let mut at = segment;
        while at + FRAME_HEAD <= segment + SEGMENT {
            let mut head = FrameHead::default();
            self.medium.load(at, head.as_mut_bytes());
            let end = at + u64::from(head.len.get());
            if end < at + FRAME_HEAD || end > segment + SEGMENT {
                break;
            }
            let is_before = (head.number.get().wrapping_add(1), head.checksum.get()) == (number, chain);
            let is_next = (head.number.get(), head.chain.get()) == (number, chain);
            // The frame before the position ends there, and the next one begins there.
            let contradicts = is_before != (end == position) || is_next && at != position;
            if contradicts && self.frame_at(at).is_some() {
                return false;
            }
            at = end;
        }
        true
    }

    /// Returns true if there is no frame at the position.
    pub(crate) fn is_at_end(&self) -> bool {
        self.frame_at(self.position.offset).is_none_or(|(head, _)| {
            (head.number.get(), head.chain.get()) != (self.position.number, self.position.chain)
        })
    }

    /// Reads the next frame.
    pub(crate) fn step(&mut self) -> LogStep {
        let Some((head, records)) = self.frame_at(self.position.offset) else {
            return self.at_end();
        };
        let follows = (head.number.get(), head.chain.get()) == (self.position.number, self.position.chain);
        if !follows && !injected(StoreFault::TrustOldFrames) {
            return self.at_end();
        }
        if head.flags.get() & FRAME_FENCED != 0 {
            self.unfenced.clear();
        }
        let end = self.position.offset + u64::from(head.len.get());
        self.unfenced.push(self.position.offset..end);
        self.position.number += 1;
        self.position.chain = head.checksum.get();
        if head.flags.get() & FRAME_LINK != 0 {
            let next = head.commit.get();
            (self.position.segment, self.position.offset) = (next, next);
            return LogStep::Link(next);
        }
        self.position.offset = end;
        LogStep::OpenFrame(FoundFrame {
            commit: head.commit.get(),
            flags: head.flags.get(),
            records,
        })
    }

    /// Reads a frame, whatever its number. `None` if there is none.
    fn frame_at(&self, offset: u64) -> Option<(FrameHead, Vec<RecordRef>)> {
        let end = self.position.segment + SEGMENT;
        if offset + FRAME_HEAD > end {
            return None;
        }
        let mut head = FrameHead::default();
        self.medium.load(offset, head.as_mut_bytes());
        let len = u64::from(head.len.get());
        if len < FRAME_HEAD || len > end - offset {
            return None;
        }
        let (mut at, mut sums) = (offset + FRAME_HEAD, Vec::new());
        let mut records = Vec::with_capacity(head.records.get().into());
        for _ in 0..head.records.get() {
            let record = RecordRef::load(self.medium, at)?;
            at += record.len();
            if at > offset + len {
                return None;
            }
            sums.extend_from_slice(record.head.checksum.as_bytes());
            records.push(record);
        }
        let trusted = injected(StoreFault::TrustFrames);
        if !trusted {
            if frame_checksum(self.secret, offset, &head, &sums) != head.checksum.get() {
                return None;
            }
            let mut arena = RecordArena::default();
            for record in &records {
                arena.clear();
                arena.load(self.medium, record)?;
            }
        }
        Some((head, records))
    }

    /// Decides whether the log ends here, or whether a frame is missing that was durable: one after it says
    /// so, in this segment or, if the missing one is a link, in the next.
    fn at_end(&self) -> LogStep {
        let LogPosition {
            offset,
            segment,
            number,
            ..
        } = self.position;
        let mut unread = vec![(segment, offset + FRAME_HEAD, number)];
        unread.extend(self.segments_after().map(|next| (next, next, number)));
        let mut seen = HashSet::new();
        while let Some((segment, from, number)) = unread.pop() {
            match self.look_for_later(segment, from, number) {
                Later::Fenced => return LogStep::Damaged(offset),
                Later::Links(links) => {
                    let links = links.into_iter().filter(|(next, _)| seen.insert(*next));
                    unread.extend(links.map(|(next, number)| (next, next, number)));
                }
            }
        }
        LogStep::End
    }

    /// Looks in the rest of a segment for frames after the one with a number. The frames of a batch do not
    /// say that those before them were durable, so their links are followed.
    fn look_for_later(&self, segment: u64, from: u64, number: u64) -> Later {
        let position = LogPosition {
            segment,
            ..self.position
        };
        let reader = LogReader::new(self.medium, self.secret, position);
        let mut links = Vec::new();
        for offset in (from..=segment + SEGMENT - FRAME_HEAD).step_by(8) {
            let head = self.head_at(offset);
            // Frames of an earlier use of the segment have smaller numbers, whose distance wraps around.
            let ahead = head.number.get().wrapping_sub(number);
            let flags = head.flags.get() & (FRAME_FENCED | FRAME_LINK);
            if flags == 0 || !(1..MAX_NUMBER).contains(&ahead) || reader.frame_at(offset).is_none() {
                continue;
            }
            if flags & FRAME_FENCED != 0 {
                return Later::Fenced;
            }
            let next = head.commit.get();
            if next != segment && self.may_be_segment(next) {
                links.push((next, head.number.get()));
            }
        }
        Later::Links(links)
    }

    fn may_be_segment(&self, offset: u64) -> bool {
        offset <= self.medium.len().saturating_sub(SEGMENT) && offset.is_multiple_of(8)
    }

    /// Returns the segments in which the log may go on if a link at the position is damaged: that to which it
    /// leads, or would lead with another bit, if the next frame is at its start.
    fn segments_after(&self) -> impl Iterator<Item = u64> {
        let LogPosition {
            segment,
            offset,
            number,
            ..
        } = self.position;
        let is_within = offset + FRAME_HEAD <= segment + SEGMENT;
        let next = is_within.then(|| self.head_at(offset).commit.get());
        next.into_iter()
            .flat_map(|next| std::iter::once(next).chain((0..u64::BITS).map(move |bit| next ^ 1 << bit)))
            .filter(move |next| *next != segment && self.may_be_segment(*next))
            .filter(move |next| self.head_at(*next).number.get() == number.wrapping_add(1))
    }

    fn head_at(&self, offset: u64) -> FrameHead {
        let mut head = FrameHead::default();
        self.medium.load(offset, head.as_mut_bytes());
        head
    }
}

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
