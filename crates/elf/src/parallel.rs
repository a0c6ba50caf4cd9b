//! Selections on several threads: by subtree, with work stealing.
//!
//! The upper levels are searched by one thread until there are some dozens of subtrees for each; then threads
//! take the subtrees in portions and steal them from each other (the paper, section 5, has one task for each
//! value of the first dimension). An estimate decides if that pays, since waking threads takes longer than
//! many selections.
//!
//! `Threads::Chosen` decides by the bounds of the query and, if these are not conclusive, by the histograms.

use crate::header::ElfHeader;
use crate::packed::node::PackedTree;
use crate::packed::select::{Select, SplitSelect};
use crate::place::strategy::QueryKind;
use crate::plan::{Plan, Test};
use crate::sink::CollectSink;
use crate::view::Image;
use crate::{Elf, Selection};
use crate::{Estimate, Layout, Result, Tid};
use halocline_cache::AgedCounts;
use halocline_media::Bytes;
use rayon::prelude::*;

/// The threads that a selection may use, of the rayon pool in which it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Threads {
    /// Only the caller's thread.
    #[default]
    One,
    /// All threads of the pool.
    All,
    /// One or all, whichever is estimated to be faster.
    Chosen,
}

/// Subtrees per thread into which one thread splits the tree.
const SUBTREES_PER_THREAD: usize = 64;
/// Portions per thread.
const PORTIONS_PER_THREAD: usize = 16;
/// Minimum number of lists and rows for which several threads pay.
const MIN_PARALLEL_WORK: f64 = 6000.0;

/// A selection on several threads, with the header and the copies that it uses.
struct ParallelSelect<'a, B> {
    elf: &'a Elf<B>,
    header: &'a ElfHeader,
    image: Option<&'a Image>,
    counts: Option<&'a AgedCounts>,
    plan: &'a Plan,
    reads_ahead: bool,
}

impl<B: Bytes> Selection<'_, B> {
    /// Returns true if the selection is estimated to be large enough for several threads.
    pub(crate) fn is_worth_threads(&self) -> bool {
        self.expected()
            .is_some_and(|found| found.lists + found.rows >= MIN_PARALLEL_WORK)
    }

    /// Returns true if several threads are estimated to be worthwhile for a count. They materialize the rows,
    /// so these must not outnumber the lists to visit.
    pub(crate) fn is_worth_threads_to_count(&self) -> bool {
        self.expected()
            .is_some_and(|found| found.lists >= MIN_PARALLEL_WORK.max(found.rows))
    }

    fn expected(&self) -> Option<Estimate> {
        self.plan().and_then(|plan| self.elf().expected(plan))
    }

    /// Runs [`tids_into`](Self::tids_into) on these threads.
    ///
    /// # Errors
    /// [`ElfError::Damaged`](crate::ElfError::Damaged); the TIDs appended until then must be discarded.
    pub fn tids_into_on(&self, threads: Threads, tids: &mut Vec<Tid>) -> Result<()> {
        let (elf, Some(plan)) = (self.elf(), self.plan()) else {
            return self.elf().sound();
        };
        let all = match threads {
            Threads::One => false,
            Threads::All => true,
            Threads::Chosen => rayon::current_num_threads() > 1 && self.is_worth_threads(),
        };
        if !all || elf.rows() == 0 {
            return self.tids_into(tids);
        }
        let found = elf.with_copies_of_now(QueryKind::Select, 1, |header, image, counts| {
            let searched = ParallelSelect {
                elf,
                header,
                image,
                counts,
                plan,
                reads_ahead: self.reads_ahead(),
            };
            match elf.layout() {
                Layout::Packed => searched.packed(tids),
                Layout::Published => searched.published(tids),
            }
        });
        elf.sound()?;
        found
    }
}

impl<B: Bytes> Elf<B> {
    /// Estimates the lists and rows that a selection reads from the histograms alone, as reading a few lists
    /// would take as long as many selections. Returns `None` if the bounds alone show that it reads
    /// little.
    fn expected(&self, plan: &Plan) -> Option<Estimate> {
        let header = &self.durable;
        let little = MIN_PARALLEL_WORK / 16.0;
        self.looked_at(plan, little, |depth, test| {
            codes(test, header.geometry.max_codes[depth]) / (header.geometry.max_codes[depth] as f64 + 1.0)
        })?;
        self.looked_at(plan, 0.0, |depth, test| {
            header.histograms[depth].selectivity(test)
        })
    }

    /// Estimates lists and rows, if each test passes the given share of the rows that pass the tests above
    /// it. Returns `None` as soon as they are certain to be fewer than `little`, which for most
    /// selections is long before the last test.
    fn looked_at(&self, plan: &Plan, little: f64, share: impl Fn(usize, &Test) -> f64) -> Option<Estimate> {
        let max_codes = &self.durable.geometry.max_codes;
        let (mut prefixes, mut rows, mut lists) = (1.0_f64, self.rows() as f64, 0.0);
        let mut above_rows = true;
        for (depth, (test, &max)) in plan.tests.iter().zip(max_codes).enumerate() {
            // Once there are fewer rows than prefixes, each list has about one row and no lists are below it.
            if above_rows {
                lists += prefixes.min(rows);
                above_rows = prefixes < rows;
            }
            rows *= share(depth, test);
            prefixes *= codes(test, max);
            // Every level below has at most as many lists as there are rows left.
            let below = if above_rows { max_codes.len() - depth } else { 1 };
            if lists + rows * (below as f64) < little {
                return None;
            }
        }
        Some(Estimate {
            rows,
            lists,
            ranges: rows,
        })
    }
}

/// Returns the number of codes that pass a test.
fn codes(test: &Test, max: u64) -> f64 {
    match test {
        Test::Any => max as f64 + 1.0,
        Test::Range(between) => between.span as f64 + 1.0,
        Test::Set(set) => set.codes.len() as f64,
    }
}

impl<B: Bytes> ParallelSelect<'_, B> {
    fn packed(&self, tids: &mut Vec<Tid>) -> Result<()> {
        let tree: PackedTree<'_, B> = self.elf.tree_in(self.header, self.image);
        let threads = rayon::current_num_threads();
        let (rows, before) = (self.elf.rows(), tids.len());
        let mut sink = CollectSink::new(tids, rows);
        let split = SplitSelect {
            tree,
            plan: self.plan,
            sink: &mut sink,
            counts: self.counts,
            subtrees: SUBTREES_PER_THREAD * threads,
            reads_ahead: self.reads_ahead,
        };
        let Some(subtrees) = self.elf.dispatch_packed(split)? else {
            // One level has too many lists for a shared frontier: they are searched by one thread.
            tids.truncate(before);
            let mut sink = CollectSink::new(tids, rows);
            let from = [self.header.root as usize];
            self.search(tree, &mut sink, &from, 0)?;
            return sink.finish();
        };
        sink.finish()?;
        let portion = subtrees
            .lists
            .len()
            .div_ceil(PORTIONS_PER_THREAD * threads)
            .max(1);
        let search = |lists: &[usize]| -> Result<Vec<Tid>> {
            let mut part = vec![];
            let mut sink = CollectSink::new(&mut part, rows);
            self.search(tree, &mut sink, lists, subtrees.depth)?;
            sink.finish()?;
            Ok(part)
        };
        let parts = subtrees.lists.par_chunks(portion).map(search);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        parts.iter().for_each(|part| tids.extend_from_slice(part));
        Ok(())
    }

    /// Searches the lists of layout `packed` from some of one dimension on.
    fn search(
        &self,
        tree: PackedTree<'_, B>,
        sink: &mut CollectSink<'_>,
        from: &[usize],
        depth: usize,
    ) -> Result<()> {
        self.elf.dispatch_packed(Select {
            tree,
            plan: self.plan,
            sink,
            counts: self.counts,
            from,
            depth,
            reads_ahead: self.reads_ahead,
        })
    }

    fn published(&self, tids: &mut Vec<Tid>) -> Result<()> {
        let lists = self.elf.lists_in(self.header, self.image);
        let rows = self.elf.rows();
        let search = |value: u64| -> Result<Vec<Tid>> {
            let mut part = vec![];
            let mut sink = CollectSink::new(&mut part, rows);
            lists.select_values(self.plan, value..=value, &mut sink, self.counts)?;
            sink.finish()?;
            Ok(part)
        };
        let parts = lists.first_values(self.plan).into_par_iter().map(search);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        parts.iter().for_each(|part| tids.extend_from_slice(part));
        Ok(())
    }
}
