//! The segments of the stores: which are in use, and how much of each.
//!
//! Invariant: a segment that the newest checkpoint needs is not used again before the next one is durable.
//! Pages and segments that become free wait in `freed` until then.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use foldhash::fast::RandomState;
use halocline_pool::{PoolError, Slab};

use crate::expiring::ExpiringSegments;
use crate::fault::{StoreFault, injected};
use crate::layout::{BRANCH, KIND_BRANCHES, KIND_LEAVES, KIND_LOG, LEAF, NO_STORE, SEGMENT};
use crate::log_segments::LogSegments;

/// Segments with few pages that are worth emptying, at least.
const MIN_SPARSE_SEGMENTS: usize = 4;

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
    pub(crate) fn page(self) -> u64 {
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

    /// Returns the pages that the bits of a segment stand for, for [`Freed`].
    pub(crate) fn pages(self, segment: u64, bits: u64) -> impl Iterator<Item = (u64, Self)> {
        let set = (0..64).filter(move |page| bits >> page & 1 == 1);
        set.map(move |page| (segment + page * self.page(), self))
    }

    /// Returns a bit for each page.
    pub(crate) fn all(self) -> u64 {
        u64::MAX >> (64 - SEGMENT / self.page())
    }
}

/// The stores of which records in a log segment have ever counted as needed. It only ever widens, so that a
/// segment of one store certainly has nothing that another one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordsOf {
    None,
    Store(u32),
    /// Or it is not known.
    Several,
}

impl RecordsOf {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::None => NO_STORE,
            Self::Store(id) if id < NO_STORE - 1 => id + 1,
            Self::Store(_) | Self::Several => 0,
        }
    }

    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            NO_STORE => Self::None,
            0 => Self::Several,
            number => Self::Store(number - 1),
        }
    }

    fn widen(&mut self, store: u32) {
        *self = match *self {
            Self::None => Self::Store(store),
            Self::Store(same) if same == store => *self,
            Self::Store(_) | Self::Several => Self::Several,
        };
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
    /// Of log segments.
    pub(crate) store: RecordsOf,
}

impl SegmentUse {
    /// Returns true if a segment of its kind can have this much in use.
    pub(crate) fn is_plausible(&self) -> bool {
        match self.kind {
            SegmentKind::Log => self.used <= SEGMENT,
            SegmentKind::Leaves | SegmentKind::Branches => self.used & !self.kind.all() == 0,
        }
    }

    /// A log segment without records.
    pub(crate) const NEW_LOG: SegmentUse = SegmentUse {
        kind: SegmentKind::Log,
        used: 0,
        expires: 0,
        store: RecordsOf::None,
    };
}

/// All segments, and the pages of those with pages.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    map: BTreeMap<u64, SegmentUse>,
    /// Segments with leaves, and with branches, that have free pages, except for those to leave.
    with_room: [BTreeSet<u64>; 2],
    /// Segments whose pages are going to move: no page is allocated in them.
    leaving: BTreeSet<u64>,
    /// Log segments that can be emptied.
    by_use: LogSegments,
    /// Segments whose entries in the newest catalog are not right any more, except for those of pages and
    /// segments that become free with the next checkpoint.
    changed: HashSet<u64, RandomState>,
    /// Bytes of log segments that only snapshots need.
    kept: HashMap<u64, u64, RandomState>,
    /// Log segments that were emptied and wait to be used again.
    emptied: HashSet<u64, RandomState>,
    /// Bytes at the end of log segments that no record could fill, of those where they are known.
    tails: HashMap<u64, u64, RandomState>,
    /// The sum of `tails`.
    tail_bytes: u64,
    /// When records expire, of log segments with records that do.
    expiring: ExpiringSegments,
    /// Bytes of needed records in all log segments, except for those that have expired.
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
        let by_use = logs.clone().map(|(offset, segment)| (*offset, segment.used));
        let mut segments = Self {
            by_use: LogSegments::of_all(by_use),
            live: logs.clone().map(|(_, segment)| segment.used).sum(),
            logs: logs.clone().count() as u64,
            expiring: ExpiringSegments::of_catalog(
                logs.map(|(offset, segment)| (*offset, segment.used, segment.expires)),
            ),
            ..Self::default()
        };
        for (offset, segment) in map.iter().filter(|entry| !is_log(entry)) {
            segments.note_room(*offset, *segment);
        }
        segments.map = map;
        segments
    }

    /// Adds a segment that is in use. No record of a log segment expires yet.
    pub(crate) fn insert(&mut self, offset: u64, segment: SegmentUse) {
        self.changed.insert(offset);
        match segment.kind {
            SegmentKind::Log => {
                self.logs += 1;
                self.live += segment.used;
                self.by_use.insert(offset, segment.used);
            }
            SegmentKind::Leaves | SegmentKind::Branches => self.note_room(offset, segment),
        }
        self.map.insert(offset, segment);
    }

    /// Notes a segment with pages if it has a free one that can be allocated.
    fn note_room(&mut self, offset: u64, segment: SegmentUse) {
        if segment.used != segment.kind.all() && !self.leaving.contains(&offset) {
            self.with_room[segment.kind as usize - 1].insert(offset);
        }
    }

    /// Removes a segment, which is not in use any more.
    pub(crate) fn remove(&mut self, offset: u64) {
        let (live, occupied) = self.effective(offset);
        self.changed.insert(offset);
        self.kept.remove(&offset);
        if let Some(segment) = self.map.remove(&offset)
            && segment.kind == SegmentKind::Log
        {
            self.live -= live;
            self.logs -= 1;
            self.by_use.remove(offset, occupied);
            self.emptied.remove(&offset);
            self.tail_bytes -= self.tails.remove(&offset).unwrap_or(0);
            self.expiring.remove(offset);
        }
    }

    /// Returns the bytes of needed records of a log segment that have not expired, and those that emptying it
    /// would not gain: 0 if nothing of it is needed. Bytes that no record could fill are among the latter, as
    /// the copies may leave as many unused.
    fn effective(&self, offset: u64) -> (u64, u64) {
        let used = self.map.get(&offset).map_or(0, |segment| segment.used);
        let live = used.saturating_sub(self.expiring.expired(offset));
        let occupied = match live {
            0 => 0,
            _ if injected(StoreFault::IgnoreTails) => live,
            _ => live + self.tails.get(&offset).unwrap_or(&0),
        };
        (live, occupied)
    }

    /// Files a log segment anew whose bytes have changed. `before` is what was [effective](Self::effective).
    fn refile(&mut self, offset: u64, before: (u64, u64)) {
        let after = self.effective(offset);
        self.live = self.live - before.0 + after.0;
        if !self.emptied.contains(&offset) {
            self.by_use.change(offset, before.1, after.1);
        }
    }

    /// Returns the bytes of a log segment that emptying it would not gain, as far as they are known.
    pub(crate) fn occupied_bytes(&self, offset: u64) -> u64 {
        self.effective(offset).1
    }

    /// Lets records count as not needed that have expired at a time in ms since 1970. The clock may go back.
    pub(crate) fn expire(&mut self, now: u64) {
        for offset in self.expiring.due(now) {
            let before = self.effective(offset);
            self.expiring.set_time(offset);
            self.refile(offset, before);
        }
    }

    /// Returns log segments of which only the latest expiry is known, at most `most`.
    pub(crate) fn with_unknown_expiries(&self, most: usize) -> Vec<u64> {
        self.expiring.unknown(most)
    }

    /// Sets the times of expiry of the records in a segment of which only the latest was known, with their
    /// lengths, needed or not.
    pub(crate) fn set_expiries(&mut self, offset: u64, records: &[(Option<u64>, u64)]) {
        if let Some(segment) = self.map.get(&offset).copied() {
            let before = self.effective(offset);
            self.expiring.set(offset, segment.used, segment.expires, records);
            self.refile(offset, before);
        }
    }

    /// Returns true if the end of a log segment was [measured](Self::set_tail), or does not matter.
    pub(crate) fn is_measured(&self, offset: u64) -> bool {
        self.occupied_bytes(offset) == 0 || self.tails.contains_key(&offset)
    }

    /// Records how many bytes at the end of a log segment no record could fill.
    pub(crate) fn set_tail(&mut self, offset: u64, bytes: u64) {
        if self.map.contains_key(&offset) {
            let before = self.effective(offset);
            self.tail_bytes += bytes;
            self.tail_bytes -= self.tails.insert(offset, bytes).unwrap_or(0);
            self.refile(offset, before);
        }
    }

    /// Records that nothing of a log segment is needed any more.
    pub(crate) fn set_emptied(&mut self, offset: u64) {
        if self.map.contains_key(&offset) {
            let (_, occupied) = self.effective(offset);
            self.changed.insert(offset);
            self.by_use.remove(offset, occupied);
            self.emptied.insert(offset);
            self.tail_bytes -= self.tails.remove(&offset).unwrap_or(0);
        }
    }

    /// Returns true if nothing of a log segment is needed any more, which waits to be used again.
    pub(crate) fn is_emptied(&self, offset: u64) -> bool {
        self.emptied.contains(&offset)
    }

    /// Returns the log segments that can be emptied.
    pub(crate) fn by_use(&self) -> &LogSegments {
        &self.by_use
    }

    /// Returns the bytes of log segments that were emptied and wait to be used again.
    pub(crate) fn emptied_bytes(&self) -> u64 {
        self.emptied.len() as u64 * SEGMENT
    }

    /// Takes the segments that have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<u64> {
        self.changed.drain().collect()
    }

    /// Adds segments that have changed to those of the next [`take_changed`](Self::take_changed).
    pub(crate) fn set_changed(&mut self, changed: BTreeSet<u64>) {
        self.changed.extend(changed);
    }

    /// Counts a record as one that only snapshots need, or no longer.
    pub(crate) fn count_kept(&mut self, record: u64, len: u64, is_kept: bool) {
        let Some(segment) = self.log_of(record) else {
            return;
        };
        self.changed.insert(segment);
        let kept = self.kept.entry(segment).or_default();
        *kept = if is_kept {
            *kept + len
        } else {
            kept.saturating_sub(len)
        };
    }

    /// Returns a segment as it is after a crash, when there are no snapshots.
    pub(crate) fn without_kept(&self, offset: u64) -> Option<SegmentUse> {
        let mut segment = *self.map.get(&offset)?;
        if segment.kind == SegmentKind::Log {
            let kept = self.kept.get(&offset).copied().unwrap_or(0);
            segment.used = segment.used.saturating_sub(kept);
        }
        Some(segment)
    }

    /// Returns the offset of the segment in use that contains an offset.
    pub(crate) fn start_of(&self, offset: u64) -> Option<u64> {
        let (&start, _) = self.map.range(..=offset).next_back()?;
        (offset - start < SEGMENT).then_some(start)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SegmentUse)> {
        self.map.iter().map(|(offset, segment)| (*offset, segment))
    }

    /// Returns true if a page of a kind is in use at this offset.
    pub(crate) fn has_page(&self, offset: u64, kind: SegmentKind) -> bool {
        let segment = self.map.range(..=offset).next_back();
        segment.is_some_and(|(start, segment)| {
            let within = offset - start;
            segment.kind == kind
                && within < SEGMENT
                && within.is_multiple_of(kind.page())
                && segment.used & kind.bit(within) != 0
        })
    }

    /// Returns true if an offset is in a segment of the log.
    pub(crate) fn has_record(&self, offset: u64) -> bool {
        let segment = self.map.range(..=offset).next_back();
        segment.is_some_and(|(start, segment)| segment.kind == SegmentKind::Log && offset - start < SEGMENT)
    }

    /// Returns the segments in a range of offsets.
    pub(crate) fn range(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &SegmentUse)> {
        let found = self.map.range(range.clone());
        found.map(|(offset, segment)| (*offset, segment))
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

    /// Counts a record of a store as needed. `expires` is the time of its expiry, or 0.
    pub(crate) fn add_live(&mut self, store: u32, record: u64, len: u64, expires: u64) {
        if let Some(start) = self.log_of(record) {
            let before = self.effective(start);
            if let Some(segment) = self.map.get_mut(&start) {
                segment.used += len;
                segment.expires = segment.expires.max(expires);
                segment.store.widen(store);
            }
            if expires > 0 {
                self.expiring.add(start, expires, len);
            }
            self.changed.insert(start);
            self.refile(start, before);
        }
    }

    /// Counts a record as not needed any more. `expires` is the time of its expiry, or 0.
    pub(crate) fn remove_live(&mut self, record: u64, len: u64, expires: u64) {
        if let Some(start) = self.log_of(record) {
            let before = self.effective(start);
            if let Some(segment) = self.map.get_mut(&start) {
                // After a crash the count may be too low by what the lost process had counted.
                segment.used -= len.min(segment.used);
            }
            if expires > 0 {
                self.expiring.subtract(start, expires, len);
            }
            self.changed.insert(start);
            self.refile(start, before);
        }
    }

    /// Counts no record of a log segment as needed any more.
    pub(crate) fn forget_all(&mut self, offset: u64) {
        let before = self.effective(offset);
        if let Some(segment) = self.map.get_mut(&offset) {
            segment.used = 0;
        }
        self.changed.insert(offset);
        self.refile(offset, before);
    }

    /// Returns the log segment that contains an offset.
    fn log_of(&self, offset: u64) -> Option<u64> {
        let (&start, segment) = self.map.range(..=offset).next_back()?;
        (offset - start < SEGMENT && segment.kind == SegmentKind::Log).then_some(start)
    }

    /// Returns segments with pages whose pages fit the free ones of others, if these are a good part of all.
    pub(crate) fn sparse(&self) -> BTreeSet<u64> {
        let mut sparse = BTreeSet::new();
        for kind in [SegmentKind::Leaves, SegmentKind::Branches] {
            let of_kind = self.iter().filter(|(_, segment)| segment.kind == kind);
            let mut by_use: Vec<(u32, u64)> = of_kind
                .map(|(offset, segment)| (segment.used.count_ones(), offset))
                .collect();
            let pages: u64 = by_use.iter().map(|(used, _)| u64::from(*used)).sum();
            // Some free pages are left for the next checkpoint.
            let enough = (pages * kind.page() * 9 / 8).div_ceil(SEGMENT) as usize;
            let surplus = by_use.len().saturating_sub(enough);
            if surplus >= MIN_SPARSE_SEGMENTS && surplus > by_use.len() / 8 {
                by_use.sort_unstable();
                sparse.extend(by_use[..surplus].iter().map(|(_, offset)| offset));
            }
        }
        sparse
    }

    /// Sets the segments whose pages are going to move.
    pub(crate) fn set_leaving(&mut self, leaving: BTreeSet<u64>) {
        let before = std::mem::replace(&mut self.leaving, leaving);
        for room in &mut self.with_room {
            room.retain(|offset| !self.leaving.contains(offset));
        }
        for offset in before {
            if let Some(segment) = self.map.get(&offset).copied()
                && segment.kind != SegmentKind::Log
            {
                self.note_room(offset, segment);
            }
        }
    }

    /// Returns the segments whose pages are going to move.
    pub(crate) fn leaving(&self) -> &BTreeSet<u64> {
        &self.leaving
    }

    /// Allocates a page for a leaf or a branch. `None` if the slab has to grow for that.
    ///
    /// # Errors
    /// As [`Slab::alloc_present`].
    pub(crate) fn alloc_page(&mut self, slab: &Slab, kind: SegmentKind) -> Result<Option<u64>, PoolError> {
        let room = &mut self.with_room[kind as usize - 1];
        while let Some(&offset) = room.first() {
            let segment = self
                .map
                .get_mut(&offset)
                .filter(|segment| segment.used != kind.all());
            let Some(segment) = segment else {
                room.pop_first();
                continue;
            };
            let page = segment.used.trailing_ones();
            segment.used |= 1 << page;
            self.changed.insert(offset);
            return Ok(Some(offset + u64::from(page) * kind.page()));
        }
        let Some(offset) = slab.alloc_present()? else {
            return Ok(None);
        };
        self.insert(
            offset,
            SegmentUse {
                kind,
                used: 1,
                expires: 0,
                store: RecordsOf::None,
            },
        );
        Ok(Some(offset))
    }

    /// Returns the number of segments with pages.
    pub(crate) fn with_pages(&self) -> u64 {
        self.map.len() as u64 - self.logs
    }

    /// Frees pages and segments that no checkpoint needs any more.
    pub(crate) fn release(&mut self, slab: &Slab, freed: &Freed) {
        for &(page, kind) in &freed.pages {
            let Some((&offset, segment)) = self.map.range_mut(..=page).next_back() else {
                continue;
            };
            self.changed.insert(offset);
            segment.used &= !kind.bit(page - offset);
            let segment = *segment;
            if segment.used == 0 {
                self.map.remove(&offset);
                self.with_room[kind as usize - 1].remove(&offset);
                slab.free(offset);
            } else {
                self.note_room(offset, segment);
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
