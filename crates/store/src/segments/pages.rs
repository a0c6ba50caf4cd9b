//! Segments with pages: allocating pages, freeing them, and choosing segments to vacate.
//!
//! Invariant: `with_room` has every segment in which a page can be allocated. None of them is about to be
//! vacated.

use std::collections::BTreeSet;

use halocline_pool::{PoolError, Slab};

use super::{RecordsOf, SegmentKind, SegmentUse, Segments};
use crate::layout::SEGMENT;

/// Segments with few pages that are worth emptying, at least.
const MIN_SPARSE_SEGMENTS: usize = 4;

impl Segments {
    /// Notes a segment with pages if it has a free one that can be allocated.
    pub(super) fn note_room(&mut self, offset: u64, segment: SegmentUse) {
        if segment.used != segment.kind.all() && !self.leaving.contains(&offset) {
            self.with_room[segment.kind as usize - 1].insert(offset);
        }
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
