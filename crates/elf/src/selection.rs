//! Selections on an open index: range and partial matches, and estimates of their cost.

use crate::kernel::{Clustered, WithKernel, dispatch};
use crate::packed::select::Select;
use crate::place::strategy::QueryKind;
use crate::plan::Plan;
use crate::sink::{CollectSink, CountSink, MatchSink, RangeSink, VisitSink};
use crate::{CodePredicate, Elf, ElfError, Layout, Result, Tid, packed};
use halocline_media::Bytes;
use roaring::RoaringBitmap;
use std::ops::Range;

/// Estimated result and cost of a selection; see [`Elf::estimate`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Rows that match.
    pub rows: f64,
    /// Lists visited.
    pub lists: f64,
    /// Ranges of consecutive matching rows, in a clustered index; otherwise equal to `rows`.
    pub ranges: f64,
}

/// A selection that has not run yet. The order of its rows is not specified.
#[derive(Debug, Clone)]
pub struct Selection<'a, B> {
    elf: &'a Elf<B>,
    /// `None`: no row can match.
    plan: Option<Plan>,
    reads_ahead: bool,
}

impl<B: Bytes> Selection<'_, B> {
    pub(crate) fn elf(&self) -> &Elf<B> {
        self.elf
    }

    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    pub(crate) fn reads_ahead(&self) -> bool {
        self.reads_ahead
    }

    /// Sets whether the pages of the lists of a level are requested before the first of them is read, for an
    /// index in a file of which a part is not in memory: a read on first touch is one at a time, and brings
    /// some MiB around the page. False by default. Layout `packed` only.
    #[must_use]
    pub fn with_read_ahead(self, reads_ahead: bool) -> Self {
        Self { reads_ahead, ..self }
    }

    fn run<S: MatchSink>(&self, sink: &mut S) -> Result<()> {
        let (elf, Some(plan)) = (self.elf, &self.plan) else {
            // Damaged bytes may have been read to find that no row can match.
            return self.elf.sound();
        };
        if elf.rows() == 0 {
            return Ok(());
        }
        let found =
            elf.with_copies_of_now(QueryKind::Select, 1, |header, image, counts| match elf.layout() {
                Layout::Packed => {
                    let tree = elf.tree_in(header, image);
                    elf.dispatch_packed(Select {
                        tree,
                        plan,
                        sink,
                        counts,
                        from: &[header.root as usize],
                        depth: 0,
                        reads_ahead: self.reads_ahead,
                    })
                }
                Layout::Published => elf.lists_in(header, image).select(plan, sink, counts),
            });
        elf.sound()?;
        found
    }

    /// Calls `visit` with each TID.
    ///
    /// # Errors
    /// [`ElfError::Damaged`]; rows found before the damage have been visited.
    pub fn for_each(&self, mut visit: impl FnMut(Tid)) -> Result<()> {
        self.for_each_slice(|tids| tids.iter().copied().for_each(&mut visit))
    }

    /// Calls `visit` with the TIDs, thousands at a time.
    ///
    /// # Errors
    /// As [`for_each`](Self::for_each).
    pub fn for_each_slice(&self, visit: impl FnMut(&[Tid])) -> Result<()> {
        let mut sink = VisitSink::new(visit, self.elf.rows());
        self.run(&mut sink)?;
        sink.finish(self.elf.is_clustered())
    }

    /// Counts the rows that match. Of a subtree below the last restricted dimension only the top list is
    /// read; in a clustered index, two lists for all subtrees of neighbouring values together.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub fn count(&self) -> Result<u64> {
        let mut sink = CountSink::default();
        self.run(&mut sink)?;
        Ok(sink.rows)
    }

    /// Returns the TIDs, in no particular order.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub fn tids(&self) -> Result<Vec<Tid>> {
        let mut tids = vec![];
        self.tids_into(&mut tids)?;
        Ok(tids)
    }

    /// Appends the TIDs to a vector, which may be reused.
    ///
    /// # Errors
    /// [`ElfError::Damaged`]; the TIDs appended until then must be discarded.
    pub fn tids_into(&self, tids: &mut Vec<Tid>) -> Result<()> {
        let mut sink = CollectSink::new(tids, self.elf.rows());
        self.run(&mut sink)?;
        sink.finish()
    }

    /// Returns the TIDs as a bitmap.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub fn bitmap(&self) -> Result<RoaringBitmap> {
        if self.elf.is_clustered() {
            let mut bitmap = RoaringBitmap::new();
            for range in self.row_ranges()? {
                bitmap.insert_range(range);
            }
            return Ok(bitmap);
        }
        let mut tids = self.tids()?;
        tids.sort_unstable();
        Ok(tids.into_iter().collect())
    }

    /// Calls `visit` with the matching rows as maximal ranges in ascending order. In a
    /// [clustered](Elf::is_clustered) index the rows of a subtree that matches as a whole are not read.
    ///
    /// # Errors
    /// [`ElfError::Damaged`]; nothing has been visited then.
    pub fn ranges(&self, visit: impl FnMut(Range<Tid>)) -> Result<()> {
        self.row_ranges()?.into_iter().for_each(visit);
        Ok(())
    }

    fn row_ranges(&self) -> Result<Vec<Range<Tid>>> {
        let mut sink = RangeSink::new(self.elf.rows());
        if self.elf.is_clustered() {
            self.run(&mut sink)?;
        } else {
            for row in self.bitmap()? {
                sink.rows(u64::from(row), 1)?;
            }
        }
        Ok(sink.finish())
    }
}

impl<B: Bytes> Elf<B> {
    /// Selects the rows that match one predicate for each dimension. The methods of [`Selection`] count,
    /// collect or visit them.
    ///
    /// # Errors
    /// [`ElfError::WrongDimensions`].
    pub fn select(&self, predicates: &[CodePredicate]) -> Result<Selection<'_, B>> {
        let mut plan = self.plan(predicates)?;
        if self.layout() == Layout::Published {
            plan = plan.and_then(|plan| self.lists().translate(&plan));
        }
        Ok(Selection {
            elf: self,
            plan,
            reads_ahead: false,
        })
    }

    /// Returns the tests of all depths; `None` if no row can match.
    pub(crate) fn plan(&self, predicates: &[CodePredicate]) -> Result<Option<Plan>> {
        if predicates.len() != self.dims() {
            return Err(ElfError::WrongDimensions {
                expected: self.dims(),
                found: predicates.len(),
            });
        }
        let geometry = &self.header.geometry;
        match geometry.buckets {
            None => Plan::new(predicates, geometry),
            Some(buckets) => Plan::new(&buckets.predicates(predicates), geometry),
        }
    }

    /// Runs a search that is compiled for both kinds of records.
    pub(crate) fn dispatch_packed<S: WithKernel>(&self, search: S) -> S::Output {
        if self.is_clustered() {
            dispatch(Clustered(search))
        } else {
            dispatch(search)
        }
    }

    /// Estimates the number of rows that match, and of lists visited to find them. The estimate is exact
    /// where the upper levels decide it, and otherwise based on some dozens of lists and the histograms.
    /// Takes microseconds.
    ///
    /// # Errors
    /// [`ElfError::WrongDimensions`], [`ElfError::Damaged`].
    pub fn estimate(&self, predicates: &[CodePredicate]) -> Result<Estimate> {
        let Some(plan) = self.plan(predicates)? else {
            return Ok(Estimate::default());
        };
        self.estimate_of(&plan)
    }

    pub(crate) fn estimate_of(&self, plan: &Plan) -> Result<Estimate> {
        if self.rows() == 0 {
            return Ok(Estimate::default());
        }
        let estimate = match self.header.layout {
            Layout::Packed => self
                .beside_copies(|header, image| packed::estimate::estimate(self.tree_in(header, image), plan)),
            Layout::Published => {
                let share = |&dim: &u8| {
                    self.header.histograms[usize::from(dim)].selectivity(&plan.tests[usize::from(dim)])
                };
                let all = self.rows() as f64;
                let rows = all * plan.restricted().iter().map(share).product::<f64>();
                let upper = plan.restricted().split_last().map_or(&[][..], |(_, upper)| upper);
                Ok(Estimate {
                    rows,
                    ranges: rows,
                    lists: (all * upper.iter().map(share).product::<f64>()).max(1.0),
                })
            }
        };
        self.sound()?;
        estimate
    }
}
