//! The segments of the stores: which are in use, and how much of each.
//!
//! Invariant: a segment that the newest checkpoint needs is not used again before the next one is durable.
//! Pages and segments that become free wait in `freed` until then.

use std::collections::{BTreeMap, HashMap, HashSet};

use halocline_pool::{PoolError, Slab};

use crate::fault::{StoreFault, injected};
use crate::layout::{BRANCH, KIND_BRANCHES, KIND_LEAVES, KIND_LOG, LEAF, SEGMENT};
use crate::log_segments::LogSegments;

/// The use of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Log,
    Leaves,
    Branches,
}

impl SegmentKind {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Log => KIND_LOG,
            Self::Leaves => KIND_LEAVES,
            Self::Branches => KIND_BRANCHES,
        }
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [Self::Log, Self::Leaves, Self::Branches]
            .into_iter()
            .find(|kind| kind.number() == number)
    }

    /// Returns the bytes of a page.
    fn page(self) -> u64 {
        match self {
            Self::Log => SEGMENT,
            Self::Leaves => LEAF,
            Self::Branches => BRANCH,
        }
    }

    /// Returns the bit of the page at an offset in its segment.
    pub(crate) fn bit(self, offset: u64) -> u64 {
        1 << (offset / self.page())
    }

    /// Returns a bit for each page.
    fn all(self) -> u64 {
        u64::MAX >> (64 - SEGMENT / self.page())
    }
}

/// A segment in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentUse {
    pub(crate) kind: SegmentKind,
    /// For log segments the bytes of records that are still needed, else a bit for each page in use.
    pub(crate) used: u64,
    /// The latest time at which one of its records expires; 0 if none does.
    pub(crate) expires: u64,
}

impl SegmentUse {
    /// A log segment without records.
    pub(crate) const NEW_LOG: SegmentUse = SegmentUse {
        kind: SegmentKind::Log,
        used: 0,
        expires: 0,
    };
}

/// All segments, and the pages of those with pages.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    map: BTreeMap<u64, SegmentUse>,
    /// Segments with leaves, and with branches, that may have free pages.
    with_room: [Vec<u64>; 2],
    /// Log segments that can be emptied.
    by_use: LogSegments,
    /// Log segments that were emptied and wait to be used again.
    emptied: HashSet<u64>,
    /// Bytes at the end of log segments that no record could fill, of those where they are known.
    tails: HashMap<u64, u64>,
    /// The sum of `tails`.
    tail_bytes: u64,
    /// Bytes of needed records in all log segments.
    live: u64,
    /// Number of log segments.
    logs: u64,
}

impl Segments {
    /// Returns the segments of a catalog, with their offsets. Does the same as to [insert](Self::insert)
    /// them, in less time.
    pub(crate) fn of_catalog(entries: Vec<(u64, SegmentUse)>) -> Self {
        let map: BTreeMap<u64, SegmentUse> = entries.into_iter().collect();
        let is_log = |(_, segment): &(&u64, &SegmentUse)| segment.kind == SegmentKind::Log;
        let logs = map.iter().filter(is_log);
        let by_use = logs
            .clone()
            .map(|(offset, segment)| (*offset, segment.used, segment.expires));
        let mut segments = Self {
            by_use: LogSegments::of_all(by_use),
            live: logs.clone().map(|(_, segment)| segment.used).sum(),
            logs: logs.count() as u64,
            ..Self::default()
        };
        for (offset, segment) in map.iter().filter(|entry| !is_log(entry)) {
            segments.note_room(*offset, *segment);
        }
        segments.map = map;
        segments
    }

    /// Adds a segment that is in use.
    pub(crate) fn insert(&mut self, offset: u64, segment: SegmentUse) {
        match segment.kind {
            SegmentKind::Log => {
                self.live += segment.used;
                self.logs += 1;
                let occupied = self.occupied(offset, segment.used);
                self.by_use.insert(offset, occupied, segment.expires);
            }
            SegmentKind::Leaves | SegmentKind::Branches => self.note_room(offset, segment),
        }
        self.map.insert(offset, segment);
    }

    /// Notes a segment with pages if it has a free one.
    fn note_room(&mut self, offset: u64, segment: SegmentUse) {
        if segment.used != segment.kind.all() {
            self.with_room[segment.kind as usize - 1].push(offset);
        }
    }

    /// Removes a segment, which is not in use any more.
    pub(crate) fn remove(&mut self, offset: u64) {
        if let Some(segment) = self.map.remove(&offset)
            && segment.kind == SegmentKind::Log
        {
            self.live -= segment.used;
            self.logs -= 1;
            let occupied = self.occupied(offset, segment.used);
            self.by_use.remove(offset, occupied, segment.expires);
            self.emptied.remove(&offset);
            self.tail_bytes -= self.tails.remove(&offset).unwrap_or(0);
        }
    }

    /// Returns the bytes of a log segment that emptying it would not gain: 0 if nothing of it is needed.
    /// Bytes that no record could fill are among them, as the copies may leave as many unused.
    fn occupied(&self, offset: u64, used: u64) -> u64 {
        match used {
            0 => 0,
            _ if injected(StoreFault::IgnoreTails) => used,
            _ => used + self.tails.get(&offset).unwrap_or(&0),
        }
    }

    /// Returns the bytes of a log segment that emptying it would not gain, as far as they are known.
    pub(crate) fn occupied_bytes(&self, offset: u64) -> u64 {
        let used = self.map.get(&offset).map_or(0, |segment| segment.used);
        self.occupied(offset, used)
    }

    /// Returns true if the end of a log segment was [measured](Self::set_tail), or does not matter.
    pub(crate) fn is_measured(&self, offset: u64) -> bool {
        self.occupied_bytes(offset) == 0 || self.tails.contains_key(&offset)
    }

    /// Records how many bytes at the end of a log segment no record could fill.
    pub(crate) fn set_tail(&mut self, offset: u64, bytes: u64) {
        let Some(segment) = self.map.get(&offset).copied() else {
            return;
        };
        let before = self.occupied(offset, segment.used);
        self.tail_bytes += bytes;
        self.tail_bytes -= self.tails.insert(offset, bytes).unwrap_or(0);
        if !self.emptied.contains(&offset) {
            let after = self.occupied(offset, segment.used);
            let expires = segment.expires;
            self.by_use.change(offset, (before, expires), (after, expires));
        }
    }

    /// Records that nothing of a log segment is needed any more.
    pub(crate) fn set_emptied(&mut self, offset: u64) {
        if let Some(segment) = self.map.get(&offset) {
            let occupied = self.occupied(offset, segment.used);
            self.by_use.remove(offset, occupied, segment.expires);
            self.emptied.insert(offset);
            self.tail_bytes -= self.tails.remove(&offset).unwrap_or(0);
        }
    }

    /// Returns the log segments that can be emptied.
    pub(crate) fn by_use(&self) -> &LogSegments {
        &self.by_use
    }

    /// Returns the bytes of log segments that were emptied and wait to be used again.
    pub(crate) fn emptied_bytes(&self) -> u64 {
        self.emptied.len() as u64 * SEGMENT
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SegmentUse)> {
        self.map.iter().map(|(offset, segment)| (*offset, segment))
    }

    pub(crate) fn get(&self, offset: u64) -> Option<&SegmentUse> {
        self.map.get(&offset)
    }

    /// Returns the bytes of all log segments, and those of needed records in them.
    pub(crate) fn log_bytes(&self) -> (u64, u64) {
        (self.logs * SEGMENT, self.live)
    }

    /// Returns the bytes at the ends of log segments that no record could fill, as far as they are known.
    /// Those of emptied segments do not count.
    pub(crate) fn tail_bytes(&self) -> u64 {
        self.tail_bytes
    }

    /// Counts a record as needed. `expires` is the time of its expiry, or 0.
    pub(crate) fn add_live(&mut self, record: u64, len: u64, expires: u64) {
        self.change(record, |segment| {
            segment.used += len;
            segment.expires = segment.expires.max(expires);
        });
    }

    /// Counts a record as not needed any more.
    pub(crate) fn remove_live(&mut self, record: u64, len: u64) {
        // After a crash the count may be too low by what the lost process had counted.
        self.change(record, |segment| segment.used -= len.min(segment.used));
    }

    /// Changes the use of the log segment that contains an offset.
    fn change(&mut self, offset: u64, change: impl FnOnce(&mut SegmentUse)) {
        let Some((&start, segment)) = self.map.range_mut(..=offset).next_back() else {
            return;
        };
        if offset - start >= SEGMENT || segment.kind != SegmentKind::Log {
            return;
        }
        let old = (segment.used, segment.expires);
        change(segment);
        self.live = self.live - old.0 + segment.used;
        let new = (segment.used, segment.expires);
        if !self.emptied.contains(&start) {
            let occupied = |(used, expires)| (self.occupied(start, used), expires);
            let (old, new) = (occupied(old), occupied(new));
            self.by_use.change(start, old, new);
        }
    }

    /// Allocates a page for a leaf or a branch.
    ///
    /// # Errors
    /// As [`Slab::alloc`].
    pub(crate) fn alloc_page(&mut self, slab: &Slab, kind: SegmentKind) -> Result<u64, PoolError> {
        let room = &mut self.with_room[kind as usize - 1];
        while let Some(&offset) = room.last() {
            let segment = self
                .map
                .get_mut(&offset)
                .filter(|segment| segment.used != kind.all());
            let Some(segment) = segment else {
                room.pop();
                continue;
            };
            let page = segment.used.trailing_ones();
            segment.used |= 1 << page;
            return Ok(offset + u64::from(page) * kind.page());
        }
        let offset = slab.alloc()?;
        self.insert(
            offset,
            SegmentUse {
                kind,
                used: 1,
                expires: 0,
            },
        );
        Ok(offset)
    }

    /// Frees pages and segments that no checkpoint needs any more.
    pub(crate) fn release(&mut self, slab: &Slab, freed: &Freed) {
        for &(page, kind) in &freed.pages {
            let Some((&offset, segment)) = self.map.range_mut(..=page).next_back() else {
                continue;
            };
            let had_all = segment.used == kind.all();
            segment.used &= !kind.bit(page - offset);
            if segment.used == 0 {
                self.map.remove(&offset);
                self.with_room[kind as usize - 1].retain(|with_room| *with_room != offset);
                slab.free(offset);
            } else if had_all {
                self.with_room[kind as usize - 1].push(offset);
            }
        }
        for &offset in &freed.segments {
            self.remove(offset);
            slab.free(offset);
        }
    }
}

/// Pages and segments that become free with the next checkpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Freed {
    pub(crate) pages: Vec<(u64, SegmentKind)>,
    pub(crate) segments: Vec<u64>,
}

impl Freed {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.segments.is_empty()
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.pages.extend(other.pages);
        self.segments.extend(other.segments);
    }
}
