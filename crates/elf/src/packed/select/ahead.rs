//! Prefetching of lists and requests for their pages, ahead of the search.

use super::{FrontierRange, LevelTraversal};
use crate::plan::Test;
use crate::sink::MatchSink;
use halocline_media::Bytes;

/// Distance, in lists, at which the first line of a list is prefetched.
pub(super) const AHEAD: usize = 32;
/// Distance, in lists, at which all lines of a list are prefetched.
const NEAR: usize = 16;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of an access unit on media whose units are longer than a line (Optane).
const UNIT: usize = 256;
/// Bytes of a short leaf list's values, its first byte included.
pub(super) const SHORT_LEAF_BYTES: usize = 16;
/// Largest distance from the parent at which a list is usually a leaf list.
pub(super) const MAX_LEAF_DISTANCE: usize = 1 << 16;
/// Lists of a level whose pages are requested together if the index may not be in memory.
pub(super) const REQUESTED_LISTS: usize = 1024;
/// Bytes of a list that are requested: as a rule all of it.
const REQUESTED_LIST_BYTES: usize = 256;

impl<B: Bytes, S: MatchSink> LevelTraversal<'_, '_, B, S> {
    /// Prefetches the first lines of the lists to which the shortcuts lead.
    pub(super) fn ask_for_first(&self, depth: usize) {
        let any = matches!(self.plan.tests.get(depth), None | Some(Test::Any));
        for &list in self.frontier.iter().take(AHEAD) {
            self.tree.view.prefetch(list);
            self.tree
                .view
                .prefetch(list + if any { 64 } else { SHORT_LEAF_BYTES });
        }
    }

    /// Prefetches lists after `next` that are read as a whole. The first line of each access unit is
    /// prefetched early; the others follow when the medium has fetched the unit, as each of them then
    /// occupies one of the core's miss buffers for a shorter time.
    #[inline(always)]
    pub(super) fn ask_for_whole(&self, lists: &[usize], next: usize) {
        let view = self.tree.view;
        if let Some(&[before, ahead]) = lists.get(next + AHEAD - 1..=next + AHEAD)
            && before / UNIT != ahead / UNIT
        {
            view.prefetch(ahead);
        }
        let Some(&near) = lists.get(next + NEAR) else {
            return;
        };
        let end = match lists.get(next + NEAR + 1) {
            Some(&after) if after > near && after - near <= UNIT => after,
            _ => near + LINE + 1,
        };
        for line in (near..end).step_by(LINE) {
            view.prefetch(line);
        }
    }

    /// Requests the pages of the lists that follow the next [`REQUESTED_LISTS`] ones, and at the start of a
    /// range also those of these, so that the device has work while lists are searched.
    #[inline(never)]
    pub(super) fn request(&self, range: &FrontierRange) {
        let ahead = |lists: usize| (range.next + lists).min(range.end);
        let from = if range.next == range.start {
            0
        } else {
            REQUESTED_LISTS
        };
        let lists = self.frontier[ahead(from)..ahead(2 * REQUESTED_LISTS)].iter();
        let stored: Vec<&[u8]> = lists
            .map(|list| self.tree.view.stored(*list, REQUESTED_LIST_BYTES))
            .collect();
        halocline_media::read_ranges_ahead(&stored);
    }
}
