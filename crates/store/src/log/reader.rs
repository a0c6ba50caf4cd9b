//! Reading of the log from a position on, and the search for a frame that is missing.
//!
//! Invariants: a frame is read only if it follows the one before by number and checksum, and all its records
//! are whole. The log ends where no such frame is, unless a later one says that all before it were durable:
//! then the missing one is damaged. Nothing is loaded from outside of the medium, provided that the caller
//! goes on after a link only if there can be a segment where it leads.

use std::collections::HashSet;
use std::ops::Range;

use halocline_media::Medium;
use zerocopy::IntoBytes;

use super::{LogPosition, frame_checksum};
use crate::fault::{StoreFault, injected};
use crate::layout::{
    FRAME_FENCED, FRAME_HEAD, FRAME_LINK, FRAME_MORE, FRAME_MOVED, FrameHead, MAX_NUMBER, SEGMENT,
};
use crate::record::RecordRef;
use crate::record_arena::RecordArena;

/// A frame of the log.
#[derive(Debug)]
pub(crate) struct LogFrame {
    pub(crate) commit: u64,
    flags: u16,
    pub(crate) records: Vec<RecordRef>,
}

impl LogFrame {
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
    OpenFrame(LogFrame),
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

    /// Returns true if there can be a segment at the position: a link may lead anywhere.
    pub(crate) fn is_within_medium(&self) -> bool {
        self.may_be_segment(self.position.segment)
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
        LogStep::OpenFrame(LogFrame {
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
