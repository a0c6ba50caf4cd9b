//! Range and partial match in layout `packed`.
//!
//! The tree is searched level by level: all matching children of a level's lists become the frontier of the
//! next, and their lines are prefetched before the first of them is read. A frontier that grows past
//! [`MAX_FRONTIER`] lists is searched depth first in ranges of that size, so that memory stays small and
//! prefetched lines are still in the cache.
//!
//! In a clustered index rows are emitted as ranges: below the last restricted dimension no list is visited,
//! as the rows of neighbouring children are consecutive.
//!
//! Everything is inlined into `run`, and nothing recurses, so that all of it is compiled for the kernel's
//! instructions.

mod ahead;
mod leaves;
mod levels;
mod query;
mod slices;
mod start_lists;

use crate::Result;
use crate::kernel::{Kernel, WithKernel};
use crate::packed::node::PackedTree;
use crate::plan::Plan;
use crate::sink::MatchSink;
use halocline_cache::AgedCounts;
use halocline_media::Bytes;
use slices::SubrangeSlice;
use start_lists::starts;
use std::cell::Cell;

/// Maximum number of children of one level before they are searched.
const MAX_FRONTIER: usize = 4096;
/// Maximum number of children of one level that are shared among threads.
const MAX_SUBTREES: usize = 1 << 20;

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

/// A search in progress.
struct LevelTraversal<'a, 'p, B, S> {
    tree: PackedTree<'a, B>,
    plan: &'p Plan,
    sink: &'p mut S,
    counts: Option<&'p AgedCounts>,
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
