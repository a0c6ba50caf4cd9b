//! The crash model: what may be on the medium when the power goes.
//!
//! - Aligned 8-byte words arrive whole.
//! - The stores to one line arrive in order: some first part of them is there, the rest is not.
//! - Lines arrive in any order, flushed or not, so each line is at a point of its own.
//! - A fence makes durable what was stored to a line before that line's last flush.
//! - Another length is durable on return; a crash within the call leaves the old length or the new one. New bytes are
//!   zero.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::LINE;
use crate::trace::{Event, lines_of};

/// The bytes of one line.
pub(crate) type Line = [u8; LINE as usize];

/// A part of one word, stored at once.
#[derive(Debug, Clone, Copy, Hash)]
struct Piece {
    at: u8,
    len: u8,
    bytes: [u8; 8],
}

impl Piece {
    fn apply(&self, line: &mut Line) {
        let (at, len) = (self.at as usize, self.len as usize);
        line[at..at + len].copy_from_slice(&self.bytes[..len]);
    }
}

/// Stores to one line that may or may not have arrived, oldest first; the first `flushed` of them are
/// flushed.
#[derive(Debug, Clone, Default, Hash)]
struct Pending {
    pieces: Vec<Piece>,
    flushed: usize,
}

/// The contents a line may have after a crash, each once, in the order of arrival; the first is the durable
/// one.
#[derive(Debug, Clone)]
pub(crate) struct LineStates {
    /// Which line: its offset divided by [`LINE`].
    pub(crate) line: u64,
    /// At least two.
    pub(crate) contents: Vec<Line>,
}

/// What is durable and what is pending, at some point of a trace.
#[derive(Debug, Clone)]
pub(crate) struct CrashModel {
    durable: Vec<u8>,
    pending: BTreeMap<u64, Pending>,
}

impl CrashModel {
    /// Everything in `start` is durable.
    pub(crate) fn new(start: Vec<u8>) -> CrashModel {
        CrashModel {
            durable: start,
            pending: BTreeMap::new(),
        }
    }

    /// The durable bytes.
    pub(crate) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// The durable contents of a line; zero behind the end.
    pub(crate) fn line(&self, line: u64) -> Line {
        let from = (line * LINE) as usize;
        let mut contents = [0; LINE as usize];
        if let Some(durable) = self.durable.get(from..from + LINE as usize) {
            contents.copy_from_slice(durable);
        }
        contents
    }

    /// The lines in which the durable bytes may differ from the other's, with all that only one of them has.
    pub(crate) fn durable_differs(&self, other: &CrashModel) -> impl Iterator<Item = u64> {
        let (own, _) = self.durable.as_chunks::<{ LINE as usize }>();
        let (others, _) = other.durable.as_chunks::<{ LINE as usize }>();
        let (both, all) = (own.len().min(others.len()), own.len().max(others.len()));
        let pairs = (0..).zip(own.iter().zip(others));
        let differ = pairs.filter(|(_, (own, other))| own != other);
        differ.map(|(line, _)| line).chain(both as u64..all as u64)
    }

    /// Takes an event in; returns the lines whose durable contents it may have changed, with what they were.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<(u64, Line)> {
        match event {
            Event::Store { offset, bytes } => self.store(*offset, bytes),
            Event::Flush { offset, len } => self.flush(*offset, *len),
            Event::Fence => return self.arrive(|pending| pending.flushed),
            Event::Sync => return self.arrive(|pending| pending.pieces.len()),
            Event::Resize { len } => return self.resize(*len),
            Event::Begin { .. } | Event::Acknowledge { .. } => {}
        }
        Vec::new()
    }

    /// Returns the lines that are cut off, if the length is less now; nothing of them is pending any more.
    fn resize(&mut self, len: u64) -> Vec<(u64, Line)> {
        let lines = len / LINE..self.durable.len() as u64 / LINE;
        let lost = lines.map(|line| (line, self.line(line))).collect();
        self.pending.split_off(&(len / LINE));
        self.durable.resize(len as usize, 0);
        lost
    }

    /// All lines whose contents a crash leaves open.
    pub(crate) fn open_lines(&self) -> Vec<LineStates> {
        let states = self.pending.iter().map(|(line, pending)| {
            let mut now = self.line(*line);
            let mut contents = vec![now];
            for piece in &pending.pieces {
                piece.apply(&mut now);
                if !contents.contains(&now) {
                    contents.push(now);
                }
            }
            LineStates {
                line: *line,
                contents,
            }
        });
        states.filter(|states| states.contents.len() > 1).collect()
    }

    /// A hash of what is pending: of two models with the same durable bytes and the same hash, all that may follow is the same.
    pub(crate) fn pending_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.pending.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether a fence now would change what is durable.
    pub(crate) fn fence_matters(&self) -> bool {
        self.pending.values().any(|pending| pending.flushed > 0)
    }

    /// Whether a flush of the range now would send anything on its way.
    pub(crate) fn flush_matters(&self, offset: u64, len: u64) -> bool {
        lines_of(offset, len).any(|line| {
            self.pending
                .get(&line)
                .is_some_and(|pending| pending.flushed < pending.pieces.len())
        })
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let position = offset + at as u64;
            let len = (8 - position % 8).min((bytes.len() - at) as u64) as usize;
            let mut piece = Piece {
                at: (position % LINE) as u8,
                len: len as u8,
                bytes: [0; 8],
            };
            piece.bytes[..len].copy_from_slice(&bytes[at..at + len]);
            self.pending
                .entry(position / LINE)
                .or_default()
                .pieces
                .push(piece);
            at += len;
        }
    }

    fn flush(&mut self, offset: u64, len: u64) {
        for line in lines_of(offset, len) {
            if let Some(pending) = self.pending.get_mut(&line) {
                pending.flushed = pending.pieces.len();
            }
        }
    }

    /// Makes the first `count` stores of each line durable.
    fn arrive(&mut self, count: impl Fn(&Pending) -> usize) -> Vec<(u64, Line)> {
        let mut changed = Vec::new();
        let durable = &mut self.durable;
        self.pending.retain(|line, pending| {
            let arrived = count(pending);
            let from = (*line * LINE) as usize;
            if arrived > 0
                && let Some(bytes) = durable.get_mut(from..from + LINE as usize)
                && let Ok(bytes) = <&mut Line>::try_from(bytes)
            {
                changed.push((*line, *bytes));
                pending
                    .pieces
                    .drain(..arrived)
                    .for_each(|piece| piece.apply(bytes));
            }
            pending.flushed = 0;
            !pending.pieces.is_empty()
        });
        changed
    }
}

/// A hash of a whole image that can be updated line by line: the sum of the hashes of its lines, of which
/// zeroed ones count nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ImageHash(u128);

impl ImageHash {
    /// Of all lines.
    pub(crate) fn of(image: &[u8]) -> ImageHash {
        let mut hash = ImageHash::default();
        let (lines, _) = image.as_chunks::<{ LINE as usize }>();
        for (line, contents) in lines.iter().enumerate() {
            hash.add(line as u64, contents);
        }
        hash
    }

    /// Replaces one line.
    pub(crate) fn replace(&mut self, line: u64, old: &Line, new: &Line) {
        *self = self.with(ImageHash::difference(line, old, new));
    }

    /// The hash of an image that differs from this one in a line, by the line's [`difference`](ImageHash::difference).
    pub(crate) fn with(self, difference: ImageHash) -> ImageHash {
        ImageHash(self.0.wrapping_add(difference.0))
    }

    /// What another content of one line adds to the hash of an image.
    pub(crate) fn difference(line: u64, old: &Line, new: &Line) -> ImageHash {
        ImageHash(hash_line(line, new).wrapping_sub(hash_line(line, old)))
    }

    fn add(&mut self, line: u64, contents: &Line) {
        self.0 = self.0.wrapping_add(hash_line(line, contents));
    }
}

fn hash_line(line: u64, contents: &Line) -> u128 {
    if *contents == [0; LINE as usize] {
        return 0;
    }
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, line, contents).hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(1)) << 64 | u128::from(half(2))
}
