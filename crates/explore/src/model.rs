//! The crash model: the possible contents of the medium after a power failure.
//!
//! - Aligned 8-byte words arrive atomically.
//! - The stores to one line arrive in order: a prefix of them is present, the rest is not.
//! - Lines arrive in any order, flushed or not, so each line has a prefix of its own.
//! - A fence makes durable what was stored to a line before that line's last flush.
//! - A change of length is durable on return; a crash within the call leaves the old or the new length. New
//!   bytes are zero.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use halocline_media::LINE;

use crate::trace::{TraceEvent, lines_of};

/// The contents of one line.
pub(crate) type LineBytes = [u8; LINE as usize];

/// A store to one word or a part of it.
#[derive(Debug, Clone, Copy, Hash)]
struct WordStore {
    offset: u8,
    len: u8,
    bytes: [u8; 8],
}

impl WordStore {
    fn apply(&self, line: &mut LineBytes) {
        let (offset, len) = (self.offset as usize, self.len as usize);
        line[offset..offset + len].copy_from_slice(&self.bytes[..len]);
    }
}

/// Stores to one line that may or may not have arrived, oldest first. The first `flushed` of them are
/// flushed.
#[derive(Debug, Clone, Default, Hash)]
struct PendingStores {
    stores: Vec<WordStore>,
    flushed: usize,
}

/// The distinct contents that a line may have after a crash, in the order of arrival, starting with the
/// durable contents.
#[derive(Debug, Clone)]
pub(crate) struct LineStates {
    /// The line number: its offset divided by [`LINE`].
    pub(crate) line: u64,
    /// At least two contents.
    pub(crate) contents: Vec<LineBytes>,
}

/// The durable and the pending contents at some point of a trace.
#[derive(Debug, Clone)]
pub(crate) struct CrashModel {
    durable: Vec<u8>,
    pending: BTreeMap<u64, PendingStores>,
}

impl CrashModel {
    /// Creates a model in which all of `start` is durable.
    pub(crate) fn new(start: Vec<u8>) -> CrashModel {
        CrashModel {
            durable: start,
            pending: BTreeMap::new(),
        }
    }

    /// Returns the durable bytes.
    pub(crate) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Returns the durable contents of a line, or zeros past the end.
    pub(crate) fn line(&self, line: u64) -> LineBytes {
        let from = (line * LINE) as usize;
        let mut contents = [0; LINE as usize];
        if let Some(durable) = self.durable.get(from..from + LINE as usize) {
            contents.copy_from_slice(durable);
        }
        contents
    }

    /// Returns the lines in which the durable bytes may differ from the other model's, including those that
    /// only one has.
    pub(crate) fn durable_differs(&self, other: &CrashModel) -> impl Iterator<Item = u64> {
        let (own, _) = self.durable.as_chunks::<{ LINE as usize }>();
        let (others, _) = other.durable.as_chunks::<{ LINE as usize }>();
        let (both, all) = (own.len().min(others.len()), own.len().max(others.len()));
        let pairs = (0..).zip(own.iter().zip(others));
        let differ = pairs.filter(|(_, (own, other))| own != other);
        differ.map(|(line, _)| line).chain(both as u64..all as u64)
    }

    /// Applies an event; returns the lines whose durable contents it may have changed, with their old
    /// contents.
    pub(crate) fn apply(&mut self, event: &TraceEvent) -> Vec<(u64, LineBytes)> {
        match event {
            TraceEvent::Store { offset, bytes } => self.store(*offset, bytes),
            TraceEvent::Flush { offset, len } => self.flush(*offset, *len),
            TraceEvent::Fence => return self.arrive(|pending| pending.flushed),
            TraceEvent::Sync => return self.arrive(|pending| pending.stores.len()),
            TraceEvent::Resize { len } => return self.resize(*len),
            TraceEvent::Begin { .. } | TraceEvent::Acknowledge { .. } => {}
        }
        Vec::new()
    }

    /// Changes the length. Returns the lines that are cut off, and drops their pending stores.
    fn resize(&mut self, len: u64) -> Vec<(u64, LineBytes)> {
        let lines = len / LINE..self.durable.len() as u64 / LINE;
        let lost = lines.map(|line| (line, self.line(line))).collect();
        self.pending.split_off(&(len / LINE));
        self.durable.resize(len as usize, 0);
        lost
    }

    /// Returns all lines whose contents are undetermined after a crash.
    pub(crate) fn open_lines(&self) -> Vec<LineStates> {
        let states = self.pending.iter().map(|(line, pending)| {
            let mut now = self.line(*line);
            let mut contents = vec![now];
            for store in &pending.stores {
                store.apply(&mut now);
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

    /// Returns a hash of the pending stores. Two models with equal durable bytes and equal hashes behave
    /// alike from then on.
    pub(crate) fn pending_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.pending.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns true if a fence now would make any store durable.
    pub(crate) fn fence_matters(&self) -> bool {
        self.pending.values().any(|pending| pending.flushed > 0)
    }

    /// Returns true if a flush of the range now would cover a store that is not flushed yet.
    pub(crate) fn flush_matters(&self, offset: u64, len: u64) -> bool {
        lines_of(offset, len).any(|line| {
            self.pending
                .get(&line)
                .is_some_and(|pending| pending.flushed < pending.stores.len())
        })
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let position = offset + at as u64;
            let len = (8 - position % 8).min((bytes.len() - at) as u64) as usize;
            let mut store = WordStore {
                offset: (position % LINE) as u8,
                len: len as u8,
                bytes: [0; 8],
            };
            store.bytes[..len].copy_from_slice(&bytes[at..at + len]);
            self.pending
                .entry(position / LINE)
                .or_default()
                .stores
                .push(store);
            at += len;
        }
    }

    fn flush(&mut self, offset: u64, len: u64) {
        for line in lines_of(offset, len) {
            if let Some(pending) = self.pending.get_mut(&line) {
                pending.flushed = pending.stores.len();
            }
        }
    }

    /// Makes the first `count` stores of each line durable.
    fn arrive(&mut self, count: impl Fn(&PendingStores) -> usize) -> Vec<(u64, LineBytes)> {
        let mut changed = Vec::new();
        let durable = &mut self.durable;
        self.pending.retain(|line, pending| {
            let arrived = count(pending);
            let from = (*line * LINE) as usize;
            if arrived > 0
                && let Some(bytes) = durable.get_mut(from..from + LINE as usize)
                && let Ok(bytes) = <&mut LineBytes>::try_from(bytes)
            {
                changed.push((*line, *bytes));
                pending
                    .stores
                    .drain(..arrived)
                    .for_each(|store| store.apply(bytes));
            }
            pending.flushed = 0;
            !pending.stores.is_empty()
        });
        changed
    }
}

/// A hash of a whole image that can be updated line by line: the sum of the hashes of its lines, in which
/// zeroed lines count as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ImageHash(u128);

impl ImageHash {
    /// Computes the hash of an image.
    pub(crate) fn new(image: &[u8]) -> ImageHash {
        let mut hash = ImageHash::default();
        let (lines, _) = image.as_chunks::<{ LINE as usize }>();
        for (line, contents) in lines.iter().enumerate() {
            hash.add(line as u64, contents);
        }
        hash
    }

    /// Updates the hash for the replacement of one line.
    pub(crate) fn replace(&mut self, line: u64, old: &LineBytes, new: &LineBytes) {
        *self = self.with(ImageHash::difference(line, old, new));
    }

    /// Returns the hash of an image that differs from this one in one line, given the line's
    /// [`difference`](ImageHash::difference).
    pub(crate) fn with(self, difference: ImageHash) -> ImageHash {
        ImageHash(self.0.wrapping_add(difference.0))
    }

    /// Returns the change of an image's hash if the contents of one line change from `old` to `new`.
    pub(crate) fn difference(line: u64, old: &LineBytes, new: &LineBytes) -> ImageHash {
        ImageHash(hash_line(line, new).wrapping_sub(hash_line(line, old)))
    }

    fn add(&mut self, line: u64, contents: &LineBytes) {
        self.0 = self.0.wrapping_add(hash_line(line, contents));
    }
}

fn hash_line(line: u64, contents: &LineBytes) -> u128 {
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
