//! Selections on several threads: by subtree, with work stealing.
//!
//! The upper levels are searched by one thread until there are some dozens of subtrees for each; then threads take the
//! subtrees in portions and steal them from each other (the paper, section 5, has one task for each value of the first
//! dimension). Whether that pays is estimated first: waking threads takes longer than many a selection.
//!
//! `Threads::Chosen` judges by the bounds of the query, and where those are not enough by its estimate,
//! whether several threads pay.

use crate::header::ElfHeader;
use crate::packed::node::PackedTree;
use crate::packed::select::SplitSelect;
use crate::place::strategy::QueryKind;
use crate::plan::{Plan, Test};
use crate::sink::CollectSink;
use crate::view::Image;
use crate::{Elf, Selection};
use crate::{Estimate, Layout, Result, Tid};
use halocline_cache::AgedCounts;
use halocline_media::Bytes;
use rayon::prelude::*;

/// Threads that a selection may use: those of the rayon pool it is called in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Threads {
    /// The caller's alone.
    #[default]
    One,
    /// All.
    All,
    /// One or all, whichever is estimated to be faster.
    Chosen,
}

/// SubtreeRoots for each thread that one thread looks for.
const SUBTREES: usize = 64;
/// Portions for each thread.
const PORTIONS: usize = 16;
/// Lists and rows that several threads must share for it to pay.
const WORTH: f64 = 6000.0;

/// What is searched: the bytes, the header and the copies in DRAM of the moment.
struct ParallelSelect<'a, B> {
    elf: &'a Elf<B>,
    header: &'a ElfHeader,
    image: Option<&'a Image>,
    counts: Option<&'a AgedCounts>,
    plan: &'a Plan,
}

impl<B: Bytes> Selection<'_, B> {
    /// Whether it is expected to be large enough for several threads.
    pub(crate) fn is_worth_threads(&self) -> bool {
        self.expected()
            .is_some_and(|found| found.lists + found.rows >= WORTH)
    }

    /// The same where rows are only counted: several threads look for the rows themselves, of which there must be few.
    pub(crate) fn is_worth_threads_to_count(&self) -> bool {
        self.expected()
            .is_some_and(|found| found.lists >= WORTH.max(found.rows))
    }

    fn expected(&self) -> Option<Estimate> {
        self.plan().and_then(|plan| self.elf().expected(plan))
    }

    /// [`tids_into`](Self::tids_into) with these threads.
    ///
    /// # Errors
    /// [`ElfError::Damaged`](crate::ElfError::Damaged); what was appended then is worthless.
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
    /// What a selection is expected to look at, from the histograms alone: no list is read, because a look at some of them
    /// takes as long as many a selection. `None` if it is little even without a look at the histograms.
    fn expected(&self, plan: &Plan) -> Option<Estimate> {
        let header = &self.durable;
        let little = WORTH / 16.0;
        self.looked_at(plan, little, |depth, test| {
            codes(test, header.geometry.max_codes[depth]) / (header.geometry.max_codes[depth] as f64 + 1.0)
        })?;
        self.looked_at(plan, 0.0, |depth, test| {
            header.histograms[depth].selectivity(test)
        })
    }

    /// Lists and rows, if each test passes such a share of what the tests above it pass; `None` as soon as it is certain that they
    /// are fewer than `little`, which for most selections is long before the last test.
    fn looked_at(&self, plan: &Plan, little: f64, share: impl Fn(usize, &Test) -> f64) -> Option<Estimate> {
        let max_codes = &self.durable.geometry.max_codes;
        let (mut prefixes, mut rows, mut lists) = (1.0_f64, self.rows() as f64, 0.0);
        let mut above_rows = true;
        for (depth, (test, &max)) in plan.tests.iter().zip(max_codes).enumerate() {
            // Once there are fewer rows than prefixes, what is left of them is looked at one by one.
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

/// Codes that pass a test.
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
            subtrees: SUBTREES * threads,
        };
        let Some(subtrees) = self.elf.dispatch_packed(split)? else {
            // More lists on one level than are worth remembering: they are searched in order.
            tids.truncate(before);
            let mut sink = CollectSink::new(tids, rows);
            let from = [self.header.root as usize];
            self.elf
                .select_packed(tree, self.plan, &mut sink, self.counts, &from, 0)?;
            return sink.finish();
        };
        sink.finish()?;
        let portion = subtrees.lists.len().div_ceil(PORTIONS * threads).max(1);
        let search = |lists: &[usize]| -> Result<Vec<Tid>> {
            let mut part = vec![];
            let mut sink = CollectSink::new(&mut part, rows);
            self.elf
                .select_packed(tree, self.plan, &mut sink, self.counts, lists, subtrees.depth)?;
            sink.finish()?;
            Ok(part)
        };
        let parts = subtrees.lists.par_chunks(portion).map(search);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        parts.iter().for_each(|part| tids.extend_from_slice(part));
        Ok(())
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
