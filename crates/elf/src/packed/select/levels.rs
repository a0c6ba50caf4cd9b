//! The search of one level's lists, and the order in which levels are searched.
//!
//! Invariant: the ranges are a stack. Each is of the level below that of the range beneath it, and holds
//! children of its lists, which lie behind them in the frontier.

use super::ahead::{AHEAD, MAX_LEAF_DISTANCE, REQUESTED_LISTS, SHORT_LEAF_BYTES};
use super::leaves::MAX_HEAD_VALUES;
use super::query::LevelQuery;
use super::{FrontierRange, LevelTraversal};
use crate::kernel::Kernel;
use crate::packed::node::{InnerList, ListNode};
use crate::sink::MatchSink;
use crate::view::count_of;
use crate::{ElfError, Result};
use halocline_media::Bytes;

impl<'p, B: Bytes, S: MatchSink> LevelTraversal<'_, 'p, B, S> {
    /// Searches ranges of lists of dimension `depth` and all levels below them, the last range first.
    #[inline(always)]
    pub(super) fn levels<K: Kernel>(&mut self, ranges: &mut Vec<FrontierRange>, depth: usize) -> Result<()> {
        while let Some(mut range) = ranges.pop() {
            self.search_range::<K>(&mut range, depth + ranges.len())?;
            if self.frontier.len() > range.end {
                let end = self.frontier.len();
                ranges.push(range);
                ranges.push(FrontierRange {
                    start: range.end,
                    next: range.end,
                    end,
                    entry: 0,
                });
            } else if range.next < range.end {
                ranges.push(range);
            } else {
                self.frontier.truncate(range.start);
            }
        }
        Ok(())
    }

    /// Searches the lists of a range until they are done or the frontier is full.
    #[inline(always)]
    pub(super) fn search_range<K: Kernel>(&mut self, range: &mut FrontierRange, depth: usize) -> Result<()> {
        let query = self.query(depth);
        while range.next < range.end && self.frontier.len() - range.end < self.room {
            let at = self.frontier[range.next];
            if self.reads_ahead && (range.next - range.start).is_multiple_of(REQUESTED_LISTS) {
                self.request(range);
            }
            if query.any {
                self.ask_for_whole(&self.frontier[..range.end], range.next);
            } else if let Some(&ahead) = self.frontier[..range.end].get(range.next + AHEAD) {
                self.tree.view.prefetch(ahead);
                self.tree.view.prefetch(ahead + SHORT_LEAF_BYTES);
            }
            self.nodes_left = self.nodes_left.checked_sub(1).ok_or_else(tangled)?;
            if let Some(counts) = self.counts {
                counts.count(count_of(at, counts));
            }
            self.tree.view.touch(at, 1 + MAX_HEAD_VALUES);
            if let Some(head) = self.tree.view.head(at)
                && (1..=MAX_HEAD_VALUES).contains(&usize::from(head[0]))
                && query.level.value_len == 1
            {
                self.short_leaf::<K>(at, head, &query)?;
                range.next += 1;
                continue;
            }
            match self.tree.node(at, depth)? {
                ListNode::Leaf(leaf) => self.leaf::<K>(&leaf, at, &query)?,
                ListNode::Inner(inner) if !K::TIDS && depth >= self.plan.open_from => {
                    self.sink.rows(self.tree.base(at), inner.rows)?;
                }
                ListNode::Inner(inner) if S::COUNTS && depth >= self.plan.open_from => {
                    self.sink.add(inner.rows)
                }
                ListNode::Inner(inner)
                    if !K::TIDS && depth + 1 >= self.plan.open_from && query.set.is_none() =>
                {
                    let (first, end) = inner.interval::<B, K>(self.tree.view, query.between);
                    let rows = self.tree.rows_below(&inner, depth, first, end)?;
                    self.sink.rows(rows.start, rows.end - rows.start)?;
                }
                ListNode::Inner(inner) => {
                    range.entry = self.inner::<K>(&inner, range.entry, range.end, &query);
                    if range.entry > 0 {
                        continue;
                    }
                }
            }
            range.next += 1;
        }
        self.test_candidates::<K>(&query)
    }

    /// Adds the matching children to the frontier. Returns the entry at which to continue if it is full,
    /// otherwise 0.
    #[inline(always)]
    fn inner<K: Kernel>(
        &mut self,
        inner: &InnerList,
        entry: usize,
        end: usize,
        query: &LevelQuery<'p>,
    ) -> usize {
        let view = self.tree.view;
        let (first, upto) = if query.any {
            (0, inner.entries)
        } else {
            inner.interval::<B, K>(view, query.between)
        };
        let first = first.max(entry);
        let room = self.room.saturating_sub(self.frontier.len() - end).max(1);
        let stop = upto.min(first.saturating_add(room));
        view.touch(
            inner.links + first * inner.link_len,
            stop.saturating_sub(first) * inner.link_len,
        );
        for k in first..stop {
            if let Some(set) = query.set
                && !set.holds(inner.value(view, k))
            {
                continue;
            }
            let child = inner.child(view, k);
            if child != 0 {
                if self.frontier.len() - end < AHEAD {
                    let far = inner.at - child > MAX_LEAF_DISTANCE;
                    view.prefetch(child);
                    view.prefetch(child + if far { query.inner_ahead } else { query.leaf_ahead });
                }
                self.frontier.push(child);
            }
        }
        if stop < upto { stop } else { 0 }
    }
}

#[cold]
fn tangled() -> ElfError {
    ElfError::damaged(0, "lists are linked more than once")
}
