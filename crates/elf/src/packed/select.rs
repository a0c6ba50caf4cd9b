//! Range and partial match in layout `packed`.
//!
//! The tree is searched level by level: all matching children of a level's lists become the frontier of the
//! next, and their lines are prefetched before the first of them is read. A frontier that grows past
//! [`MAX_FRONTIER`] lists is searched depth first in ranges of that size, so that memory stays small and
//! prefetched lines are still in the cache.
//!
//! In a clustered index rows are emitted as ranges: below the last restricted dimension no list is visited,
//! as the rows of neighbouring children are consecutive.

use crate::geometry::LevelFormat;
use crate::kernel::{CodeRange, Kernel, Records, WithKernel, low_bits};
use crate::packed::node::{INNER_HEADER, InnerList, LeafList, ListNode, PackedTree};
use crate::packed::select_subranges::SubrangeSlice;
use crate::packed::start_lists::starts;
use crate::plan::{Plan, Set, Test};
use crate::sink::MatchSink;
use crate::view::{PAD, count_of};
use crate::{ElfError, Result};
use halocline_cache::AgedCounts;
use halocline_media::Bytes;
use std::cell::Cell;

/// Distance, in lists, at which the first line of a list is prefetched.
const AHEAD: usize = 32;
/// Distance, in lists, at which all lines of a list are prefetched.
const NEAR: usize = 16;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of an access unit on media whose units are longer than a line (Optane).
const UNIT: usize = 256;
/// Maximum number of children of one level before they are searched.
const MAX_FRONTIER: usize = 4096;
/// Maximum number of children of one level that are shared among threads.
const MAX_SUBTREES: usize = 1 << 20;
/// Maximum number of values that are compared within a list's first 64 bytes.
const MAX_HEAD_VALUES: usize = 32;

/// Bytes of a short leaf list's values, its first byte included.
const SHORT_LEAF_BYTES: usize = 16;
/// Largest distance from the parent at which a list is usually a leaf list.
const MAX_LEAF_DISTANCE: usize = 1 << 16;
/// Maximum number of hits of a leaf list for which testing the records is postponed until they are
/// prefetched.
const MAX_POSTPONED_HITS: u32 = 8;
/// Leaf lists whose records are in flight.
const CANDIDATES: usize = 16;
/// Lists of a level whose pages are requested together if the index may not be in memory.
const REQUESTED_LISTS: usize = 1024;
/// Bytes of a list that are requested: as a rule all of it.
const REQUESTED_LIST_BYTES: usize = 256;

/// A selection about to run.
pub(crate) struct Select<'a, 'p, B, S> {
    pub(crate) tree: PackedTree<'a, B>,
    pub(crate) plan: &'p Plan,
    pub(crate) sink: &'p mut S,
    /// The counters of visited lists, if the query is a sample.
    pub(crate) counts: Option<&'p AgedCounts>,
    /// The lists to start from, all of dimension `depth`.
    pub(crate) from: &'p [usize],
    pub(crate) depth: usize,
    /// True to request the pages of the lists of a level ahead.
    pub(crate) reads_ahead: bool,
}

/// The upper part of a selection: level by level, until there are `subtrees` lists.
pub(crate) struct SplitSelect<'a, 'p, B, S> {
    pub(crate) tree: PackedTree<'a, B>,
    pub(crate) plan: &'p Plan,
    pub(crate) sink: &'p mut S,
    pub(crate) counts: Option<&'p AgedCounts>,
    pub(crate) subtrees: usize,
    /// True to request the pages of the lists of a level ahead.
    pub(crate) reads_ahead: bool,
}

/// The lists of one dimension from which a selection continues.
#[derive(Debug)]
pub(crate) struct SubtreeRoots {
    pub(crate) lists: Vec<usize>,
    pub(crate) depth: usize,
}

/// Buffers that are reused by the thread's next selection.
#[derive(Debug, Default)]
struct SelectScratch {
    frontier: Vec<usize>,
    slices: Vec<SubrangeSlice>,
    ranges: Vec<FrontierRange>,
    candidates: Vec<Candidates>,
}

/// Records of a leaf list, the mask of those that may match, and the row of the first one (clustered).
type Candidates = (usize, u64, u64);

thread_local! {
    static SCRATCH: Cell<SelectScratch> = Cell::default();
}

impl<B: Bytes, S: MatchSink> WithKernel for Select<'_, '_, B, S> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Self::Output {
        let geometry = self.tree.geometry();
        let SelectScratch {
            mut frontier,
            mut slices,
            mut ranges,
            mut candidates,
        } = SCRATCH.take();
        frontier.clear();
        slices.clear();
        ranges.clear();
        candidates.clear();
        let mut depth = self.depth;
        if depth == 0 && starts(self.tree, self.plan, &mut frontier, &mut slices) {
            depth = self.tree.header.shortcuts.dims();
        } else {
            frontier.extend_from_slice(self.from);
        }
        ranges.push(FrontierRange {
            start: 0,
            next: 0,
            end: frontier.len(),
            entry: 0,
        });
        let nodes_left = geometry.rows.saturating_mul(geometry.dims() as u64 + 1);
        let mut traversal = LevelTraversal {
            frontier,
            candidates,
            nodes_left,
            tree: self.tree,
            plan: self.plan,
            sink: self.sink,
            counts: self.counts,
            room: MAX_FRONTIER,
            reads_ahead: self.reads_ahead,
        };
        if depth > self.depth {
            traversal.ask_for_first(depth);
        }
        let query = traversal.query(depth);
        let result = traversal.slices::<K>(&slices, &query);
        let result = result.and_then(|()| traversal.levels::<K>(&mut ranges, depth));
        SCRATCH.set(SelectScratch {
            frontier: traversal.frontier,
            slices,
            ranges,
            candidates: traversal.candidates,
        });
        result
    }
}

impl<B: Bytes, S: MatchSink> WithKernel for SplitSelect<'_, '_, B, S> {
    /// `None` if there are too many lists on one level.
    type Output = Result<Option<SubtreeRoots>>;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Self::Output {
        let geometry = self.tree.geometry();
        let mut traversal = LevelTraversal {
            frontier: vec![self.tree.header.root as usize],
            candidates: vec![],
            nodes_left: geometry.rows.saturating_mul(geometry.dims() as u64 + 1),
            tree: self.tree,
            plan: self.plan,
            sink: self.sink,
            counts: self.counts,
            room: MAX_SUBTREES,
            reads_ahead: self.reads_ahead,
        };
        let mut depth = 0;
        while !traversal.frontier.is_empty()
            && traversal.frontier.len() < self.subtrees
            && depth < geometry.dims()
        {
            let end = traversal.frontier.len();
            let mut range = FrontierRange {
                start: 0,
                next: 0,
                end,
                entry: 0,
            };
            traversal.search_range::<K>(&mut range, depth)?;
            if range.next < end {
                return Ok(None);
            }
            traversal.frontier.drain(..end);
            depth += 1;
        }
        Ok(Some(SubtreeRoots {
            lists: traversal.frontier,
            depth,
        }))
    }
}

/// Lists of one level that are being searched: `frontier[next..end]` are still to do; their children are
/// collected in `frontier[end..]`.
#[derive(Debug, Clone, Copy)]
struct FrontierRange {
    start: usize,
    next: usize,
    end: usize,
    /// Entry at which the list `next` continues, if its first ones filled the frontier.
    entry: usize,
}

pub(super) struct LevelTraversal<'a, 'p, B, S> {
    pub(super) tree: PackedTree<'a, B>,
    plan: &'p Plan,
    sink: &'p mut S,
    pub(super) counts: Option<&'p AgedCounts>,
    /// A stack of frontiers.
    frontier: Vec<usize>,
    /// Maximum number of children of one level before they are searched.
    room: usize,
    reads_ahead: bool,
    /// Candidate records of the current level, which are in flight.
    candidates: Vec<Candidates>,
    /// A sound index has at most `rows` lists per level; in a damaged one, links may form a cycle.
    nodes_left: u64,
}

/// The test of one level's lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct LevelQuery<'p> {
    pub(super) level: LevelFormat,
    /// Bounds of the level's own values.
    between: CodeRange,
    set: Option<&'p Set>,
    /// True if all values match.
    any: bool,
    /// Restricted dimensions beyond this one.
    rest: &'p [u8],
    /// Distance from the start of the next level's lists to the bytes that are read first: in a leaf list
    /// and in an inner one.
    leaf_ahead: usize,
    inner_ahead: usize,
}

// Everything is inlined into `run`, and nothing recurses, so that all of it is compiled for the kernel's
// instructions.
impl<'p, B: Bytes, S: MatchSink> LevelTraversal<'_, 'p, B, S> {
    #[inline(always)]
    fn levels<K: Kernel>(&mut self, ranges: &mut Vec<FrontierRange>, depth: usize) -> Result<()> {
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

    /// Prefetches the first lines of the lists to which the shortcuts lead.
    fn ask_for_first(&self, depth: usize) {
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
    fn ask_for_whole(&self, lists: &[usize], next: usize) {
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
    fn request(&self, range: &FrontierRange) {
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

    fn query(&self, depth: usize) -> LevelQuery<'p> {
        let (between, set) = match self.plan.tests.get(depth) {
            None | Some(Test::Any) => (
                CodeRange {
                    lo: 0,
                    span: u64::MAX,
                },
                None,
            ),
            Some(Test::Range(between)) => (*between, None),
            Some(Test::Set(set)) => (set.bounds, Some(&**set)),
        };
        let any = matches!(self.plan.tests.get(depth), None | Some(Test::Any));
        // Of a leaf list only the values if they are tested, otherwise all; of an inner list the first link
        // that may match.
        let (leaf_ahead, inner_ahead) = match self.plan.tests.get(depth + 1) {
            Some(Test::Range(next)) => (
                SHORT_LEAF_BYTES,
                INNER_HEADER + 2 * (next.lo as usize).min(MAX_LEAF_DISTANCE),
            ),
            Some(Test::Set(_)) => (SHORT_LEAF_BYTES, 64),
            None | Some(Test::Any) => (64, 64),
        };
        LevelQuery {
            level: self.tree.geometry().levels[depth],
            between,
            set,
            any,
            rest: self.plan.rest(depth),
            leaf_ahead,
            inner_ahead,
        }
    }

    /// Searches the lists of a range until they are done or the frontier is full.
    #[inline(always)]
    fn search_range<K: Kernel>(&mut self, range: &mut FrontierRange, depth: usize) -> Result<()> {
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

    /// Searches a leaf list of up to 32 one-byte values. If few of them match, their records are prefetched
    /// and tested later.
    #[inline(always)]
    fn short_leaf<K: Kernel>(&mut self, at: usize, head: &[u8; PAD], query: &LevelQuery<'p>) -> Result<()> {
        let view = self.tree.view;
        let rows = usize::from(head[0]);
        let records = Records {
            at: at + 1 + rows,
            len: query.level.record_len,
        };
        let row = if K::TIDS { 0 } else { self.tree.base(at) };
        if query.any {
            return self.window::<K>(records, low_bits(rows), row, query);
        }
        let mut mask = K::between_head(head, rows, query.between);
        if let Some(set) = query.set {
            mask = keep(mask, |k| set.holds(u64::from(head[1 + k % MAX_HEAD_VALUES])));
        }
        if mask == 0 {
            return Ok(());
        }
        if mask.count_ones() > MAX_POSTPONED_HITS {
            return self.window::<K>(records, mask, row, query);
        }
        let first = records.at + mask.trailing_zeros() as usize * records.len;
        view.prefetch(first);
        view.prefetch(first + records.len);
        self.candidates.push((records.at, mask, row));
        if self.candidates.len() >= CANDIDATES {
            self.test_candidates::<K>(query)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn test_candidates<K: Kernel>(&mut self, query: &LevelQuery<'p>) -> Result<()> {
        for i in 0..self.candidates.len() {
            let (at, mask, row) = self.candidates[i];
            let len = query.level.record_len;
            self.window::<K>(Records { at, len }, mask, row, query)?;
        }
        self.candidates.clear();
        Ok(())
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

    /// Emits the matching rows of a leaf list of any size.
    #[inline(always)]
    fn leaf<K: Kernel>(&mut self, leaf: &LeafList, at: usize, query: &LevelQuery<'p>) -> Result<()> {
        let view = self.tree.view;
        let (first, end) = if query.any {
            (0, leaf.rows)
        } else {
            leaf.interval::<B, K>(view, query.between)
        };
        let base = if K::TIDS { 0 } else { self.tree.base(at) };
        if (S::COUNTS || !K::TIDS) && query.rest.is_empty() && query.set.is_none() {
            return self.sink.rows(base + first as u64, (end - first) as u64);
        }
        for from in (first..end).step_by(64) {
            let mut mask = low_bits((end - from).min(64));
            if let Some(set) = query.set {
                let value = |k| view.uint(leaf.values + (from + k) * leaf.value_len, leaf.value_len);
                mask = keep(mask, |k| set.holds(value(k)));
            }
            self.window::<K>(leaf.records_from(from), mask, base + from as u64, query)?;
        }
        Ok(())
    }

    /// Emits those of up to 64 neighbouring records that pass the remaining tests; those of `mask` have
    /// passed the level's own test. In a clustered index `row` is the row of the first record.
    #[inline(always)]
    fn window<K: Kernel>(
        &mut self,
        records: Records,
        mask: u64,
        row: u64,
        query: &LevelQuery<'p>,
    ) -> Result<()> {
        let last = 63 - mask.leading_zeros().min(63) as usize;
        let first = mask.trailing_zeros() as usize;
        self.tree.view.touch(
            records.at + first * records.len,
            (last + 1).saturating_sub(first) * records.len,
        );
        self.tested::<K>(records, mask, row, query)
    }

    /// Implements [`window`](Self::window) for records that have been touched.
    #[inline(always)]
    pub(super) fn tested<K: Kernel>(
        &mut self,
        records: Records,
        mut mask: u64,
        row: u64,
        query: &LevelQuery<'p>,
    ) -> Result<()> {
        let view = self.tree.view;
        for dim in query.rest.iter().map(|&dim| usize::from(dim)) {
            let field = self.tree.geometry().fields[dim];
            mask = match &self.plan.tests[dim] {
                Test::Any => mask,
                Test::Range(between) => K::filter(view, records, mask, field, *between),
                Test::Set(set) => {
                    let bounded = K::filter(view, records, mask, field, set.bounds);
                    let code =
                        |k| (view.u64(records.at + k * records.len + field.byte) >> field.shift) & field.mask;
                    keep(bounded, |k| set.holds(code(k)))
                }
            };
            if mask == 0 {
                return Ok(());
            }
        }
        if S::COUNTS {
            self.sink.add(u64::from(mask.count_ones()));
            return Ok(());
        }
        if !K::TIDS {
            while mask != 0 {
                let first = mask.trailing_zeros();
                let count = (!(mask >> first)).trailing_zeros();
                self.sink.rows(row + u64::from(first), u64::from(count))?;
                mask &= !(low_bits(count as usize) << first);
            }
            return Ok(());
        }
        let tid_mask = self.tree.geometry().tid_mask;
        let buffer = self.sink.buffer();
        let (first, count) = (mask.trailing_zeros() as usize, mask.count_ones() as usize);
        if count > 4 && mask >> first == low_bits(count) {
            let records = Records {
                at: records.at + first * records.len,
                ..records
            };
            K::tids(view, records, count, tid_mask, buffer);
        } else {
            while mask != 0 {
                let k = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                buffer.push(view.u32(records.at + k * records.len) & tid_mask);
            }
        }
        self.sink.appended()
    }
}

/// Returns the bits of `mask` for which `wanted` holds.
#[inline(always)]
fn keep(mask: u64, wanted: impl Fn(usize) -> bool) -> u64 {
    let (mut left, mut kept) = (mask, 0);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        kept |= u64::from(wanted(k)) << k;
    }
    kept
}

#[cold]
fn tangled() -> ElfError {
    ElfError::damaged(0, "lists are linked more than once")
}
