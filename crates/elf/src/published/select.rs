//! Range and partial match in layout `published`, as its authors do: depth first, MonoLists compared value by
//! value.
//!
//! The result of a step fits a register (`None`: damage, whose error is stored in the traversal), and the
//! bounds of a dimension are compared as stored, in 32 bits.

use crate::ElfError;
use crate::Result;
use crate::place::hashed::Hashed;
use crate::plan::{Plan, Set, Test};
use crate::published::hashed::entries;
use crate::published::search::PublishedTree;
use crate::published::{ENTRY, LAST, MONO};
use crate::sink::MatchSink;
use crate::view::count_of;
use halocline_cache::AgedCounts;
use halocline_media::Bytes;
use std::ops::RangeInclusive;

/// The test of one dimension, over stored values.
#[derive(Debug, Clone, Copy)]
struct StoredBound<'p> {
    lo: u32,
    span: u32,
    set: Option<&'p Set>,
}

impl<'p> StoredBound<'p> {
    fn new(test: &'p Test) -> Self {
        let (lo, span, set) = match test {
            Test::Any => (0, u64::MAX, None),
            Test::Range(between) => (between.lo, between.span, None),
            Test::Set(set) => (set.bounds.lo, set.bounds.span, Some(&**set)),
        };
        let value = |code| u32::try_from(code).unwrap_or(u32::MAX);
        Self {
            lo: value(lo),
            span: value(span),
            set,
        }
    }

    #[inline(always)]
    fn holds(&self, value: u32) -> bool {
        value.wrapping_sub(self.lo) <= self.span && self.set.is_none_or(|set| set.holds(u64::from(value)))
    }

    #[inline(always)]
    fn last(&self) -> u32 {
        self.lo.saturating_add(self.span)
    }
}

impl<B: Bytes> PublishedTree<'_, B> {
    /// Passes the rows that match a translated plan to the sink.
    pub(crate) fn select<S: MatchSink>(
        &self,
        plan: &Plan,
        sink: &mut S,
        counts: Option<&AgedCounts>,
    ) -> Result<()> {
        self.select_values(plan, self.first_values(plan), sink, counts)
    }

    /// Returns the range of first-dimension values that a translated plan may match.
    pub(crate) fn first_values(&self, plan: &Plan) -> RangeInclusive<u64> {
        let bound = StoredBound::new(&plan.tests[0]);
        u64::from(bound.lo)..=u64::from(bound.last()).min(self.places() - 1)
    }

    /// Runs [`select`](Self::select) for a range of values of the first dimension.
    pub(crate) fn select_values<S: MatchSink>(
        &self,
        plan: &Plan,
        values: RangeInclusive<u64>,
        sink: &mut S,
        counts: Option<&AgedCounts>,
    ) -> Result<()> {
        let geometry = &self.header.geometry;
        let bounds: Vec<StoredBound<'_>> = plan.tests.iter().map(StoredBound::new).collect();
        let restricted: Vec<usize> = plan.restricted().iter().copied().map(usize::from).collect();
        let mut traversal = ListTraversal {
            lists: *self,
            bounds: &bounds,
            restricted: &restricted,
            sink,
            counts,
            nodes_left: geometry.rows.saturating_mul(geometry.dims() as u64 + 1),
            damage: None,
        };
        for value in values {
            let wanted = bounds[0].set.is_none_or(|set| set.holds(value));
            if wanted
                && traversal
                    .follow(self.root_link(value), 1, traversal.below(0))
                    .is_none()
            {
                break;
            }
        }
        traversal.damage.map_or(Ok(()), Err)
    }
}

struct ListTraversal<'a, 'p, B, S> {
    lists: PublishedTree<'a, B>,
    /// One for each dimension.
    bounds: &'p [StoredBound<'p>],
    /// Dimensions whose test is not `Any`, ascending.
    restricted: &'p [usize],
    sink: &'p mut S,
    /// A sample: the lists it visits are counted.
    counts: Option<&'p AgedCounts>,
    /// A sound index has at most `rows` lists per level; in a damaged one, links may form a cycle.
    nodes_left: u64,
    damage: Option<ElfError>,
}

impl<'p, B: Bytes, S: MatchSink> ListTraversal<'_, 'p, B, S> {
    /// Returns the restricted dimensions beyond `depth`.
    fn below(&self, depth: usize) -> &'p [usize] {
        let first = self.restricted.iter().position(|&dim| dim > depth);
        &self.restricted[first.unwrap_or(self.restricted.len())..]
    }

    /// Follows a link to a list of dimension `depth`; `rest` are the restricted dimensions from there on.
    #[inline(always)]
    fn follow(&mut self, link: u64, depth: usize, rest: &[usize]) -> Option<()> {
        if link == 0 {
            return Some(());
        }
        if self.nodes_left == 0 {
            return self.damaged(link as usize, "lists are linked more than once");
        }
        self.nodes_left -= 1;
        if let Some(counts) = self.counts {
            let at = (link & !MONO) as usize;
            counts.count(count_of(at, counts));
        }
        if link & MONO != 0 {
            self.mono_list((link & !MONO) as usize, depth, rest)
        } else {
            match self.lists.hashed {
                Some(hashed) if self.lists.is_slow(link as usize) => {
                    self.cached_list(hashed, link as usize, depth)
                }
                _ => self.list(link as usize, depth),
            }
        }
    }

    /// Searches a list through the hash table. Its links are collected first and followed afterwards, as
    /// reading it holds a lock.
    #[inline(never)]
    fn cached_list(&mut self, hashed: &Hashed, at: usize, depth: usize) -> Option<()> {
        let Some(&bound) = self.bounds.get(depth) else {
            return self.damaged(at, "a list has no dimension left");
        };
        let wanted = |list: &[u8]| -> Vec<u64> {
            let upto = entries(list).take_while(|entry| entry.0 <= bound.last());
            upto.filter(|entry| bound.holds(entry.0))
                .map(|entry| entry.1)
                .collect()
        };
        let links = match self.lists.cached(hashed, at, depth, wanted) {
            Ok(links) => links,
            Err(error) => {
                self.damage = Some(error);
                return None;
            }
        };
        let rest = self.below(depth);
        for link in links {
            self.follow(link, depth + 1, rest)?;
        }
        Some(())
    }

    fn list(&mut self, mut at: usize, depth: usize) -> Option<()> {
        let Some(&bound) = self.bounds.get(depth) else {
            return self.damaged(at, "a list has no dimension left");
        };
        let (view, last, rest) = (self.lists.view, bound.last(), self.below(depth));
        loop {
            view.touch(at, ENTRY);
            let Some((marked, link)) = view.u32_u64(at) else {
                return self.damaged(at, "a list reaches beyond the nodes");
            };
            let value = marked & !LAST;
            if value > last {
                return Some(());
            }
            if bound.holds(value) {
                self.follow(link, depth + 1, rest)?;
            }
            if marked & LAST != 0 {
                return Some(());
            }
            at += ENTRY;
        }
    }

    #[inline(always)]
    fn mono_list(&mut self, at: usize, depth: usize, rest: &[usize]) -> Option<()> {
        let view = self.lists.view;
        let values = (self.bounds.len() - depth) * 4;
        view.touch(at, values + 4);
        // The values and the first TID.
        let Some(list) = view.slice(at, values + 4) else {
            return self.damaged(at, "a MonoList reaches beyond the nodes");
        };
        let (list, _) = list.as_chunks::<4>();
        for &dim in rest {
            if !self.bounds[dim].holds(u32::from_le_bytes(list[dim - depth])) {
                return Some(());
            }
        }
        let tid = u32::from_le_bytes(list[self.bounds.len() - depth]);
        if tid & LAST == 0 {
            return self.several(at + values);
        }
        if S::COUNTS {
            self.sink.add(1);
            return Some(());
        }
        self.sink.buffer().push(tid & !LAST);
        self.appended()
    }

    /// Emits the TIDs of equal tuples.
    #[inline(never)]
    fn several(&mut self, mut at: usize) -> Option<()> {
        let count = match self.lists.tid_count(at) {
            Ok(count) => count,
            Err(error) => {
                self.damage = Some(error);
                return None;
            }
        };
        if S::COUNTS {
            self.sink.add(count as u64);
            return Some(());
        }
        for _ in 0..count {
            self.sink.buffer().push(self.lists.view.u32(at) & !LAST);
            self.appended()?;
            at += 4;
        }
        Some(())
    }

    #[inline(always)]
    fn appended(&mut self) -> Option<()> {
        match self.sink.appended() {
            Ok(()) => Some(()),
            Err(error) => {
                self.damage = Some(error);
                None
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn damaged(&mut self, at: usize, what: &'static str) -> Option<()> {
        self.damage = Some(ElfError::damaged(at, what));
        None
    }
}
