//! The segments of the stores: which are in use, and how much of each.
//!
//! Invariant: a segment that the newest checkpoint needs is not used again before the next one is durable.
//! Pages and segments that become free wait in `freed` until then.

mod logs;
mod pages;
mod segment_use;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use foldhash::fast::RandomState;

use crate::expiring::ExpiringSegments;
use crate::layout::SEGMENT;
use crate::log_segments::LogSegments;

pub(crate) use pages::Freed;
pub(crate) use segment_use::{RecordsOf, SegmentKind, SegmentUse};

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

    /// Takes the segments that have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<u64> {
        self.changed.drain().collect()
    }

    /// Adds segments that have changed to those of the next [`take_changed`](Self::take_changed).
    pub(crate) fn set_changed(&mut self, changed: BTreeSet<u64>) {
        self.changed.extend(changed);
    }

    /// Returns the offset of the segment in use that contains an offset.
    pub(crate) fn start_of(&self, offset: u64) -> Option<u64> {
        let (&start, _) = self.map.range(..=offset).next_back()?;
        (offset - start < SEGMENT).then_some(start)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SegmentUse)> {
        self.map.iter().map(|(offset, segment)| (*offset, segment))
    }

    /// Returns the segments in a range of offsets.
    pub(crate) fn range(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &SegmentUse)> {
        let found = self.map.range(range.clone());
        found.map(|(offset, segment)| (*offset, segment))
    }

    pub(crate) fn get(&self, offset: u64) -> Option<&SegmentUse> {
        self.map.get(&offset)
    }
}
