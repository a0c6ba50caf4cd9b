//! Exact matches of an open index: one point, or many at once.
//!
//! This file selects the algorithm of a search; the algorithms are in the modules of the layouts.
//!
//! One at a time, exact matches overlap in the CPU's reorder buffer as far as that reaches. A batch is a
//! software pipeline (packed/batch) over groups of four points, which keeps about as many misses as possible
//! in flight all the time; larger groups cause bursts and pauses.

use crate::geometry::MAX_DIMS;
use crate::header::ElfHeader;
use crate::kernel::{Clustered, dispatch};
use crate::packed::batch::{
    Batch, BatchPipeline, GeneralStages, MiddleStages, QuickStages, SubrangeStages, has_middle_lists,
};
use crate::packed::exact::Exact;
use crate::packed::quick::{self, Quick};
use crate::packed::shortcuts::ShortcutForm;
use crate::place::dynamic::{Dynamic, remember};
use crate::place::strategy::{CacheStrategy, QueryKind};
use crate::plan::Plan;
use crate::sink::CountSink;
use crate::view::{Image, View};
use crate::{CodePredicate, Elf, ElfError, Layout, Matches, Result, Tids};
use halocline_cache::AgedCounts;
use halocline_media::Bytes;
use std::cell::Cell;

/// Hit rate of the tuples from which on lists are no longer prefetched before the lookup.
const NO_PREFETCH_HIT_RATE: f64 = 0.5;
/// Number of depths below which a point is copied to a small array.
const SHORT_POINT_DEPTHS: usize = 16;

thread_local! {
    /// Buffer that is reused by the thread's next batch.
    static POINTS: Cell<Vec<u64>> = Cell::default();
}

impl<B: Bytes> Elf<B> {
    /// Returns the rows that equal `point`, one code for each dimension (section 2 of the paper: exact
    /// match). O(dimensions * log n).
    ///
    /// # Errors
    /// [`ElfError::WrongDimensions`]; [`ElfError::Damaged`] if the search meets damage.
    #[inline(always)]
    pub fn exact(&self, point: &[u64]) -> Result<Tids<'_>> {
        if point.len() != self.dims() {
            return Err(ElfError::WrongDimensions {
                expected: self.dims(),
                found: point.len(),
            });
        }
        match self.header.geometry.buckets {
            None => self.exact_at(point),
            Some(buckets) if point.len() < SHORT_POINT_DEPTHS => {
                let mut room = [0; SHORT_POINT_DEPTHS];
                self.exact_at(buckets.point(point, &mut room).unwrap_or_default())
            }
            Some(buckets) => {
                let mut room = [0; MAX_DIMS];
                self.exact_at(buckets.point(point, &mut room).unwrap_or_default())
            }
        }
    }

    /// Runs [`exact`](Self::exact) for a point with one code for each depth.
    #[inline(always)]
    fn exact_at(&self, point: &[u64]) -> Result<Tids<'_>> {
        match &self.dynamic {
            None => self.exact_in(&self.header, self.image(), point),
            Some(dynamic) => {
                let sampled = dynamic.is_sample();
                if !sampled && dynamic.strategies.bypasses_caches(QueryKind::Exact) {
                    return self.exact_in(&self.durable, None, point);
                }
                self.exact_dynamic(dynamic, point, sampled)
            }
        }
    }

    /// Runs [`exact`](Self::exact) with copies that follow the queries.
    #[inline(never)]
    fn exact_dynamic(&self, dynamic: &Dynamic, point: &[u64], sampled: bool) -> Result<Tids<'_>> {
        dynamic.want_tuples();
        let strategy = dynamic.strategies.exact(&self.bytes);
        if strategy == CacheStrategy::NONE && !sampled {
            return self.exact_in(&self.durable, None, point);
        }
        let counts = sampled.then(|| dynamic.sampled(QueryKind::Exact));
        let cached = dynamic.cached();
        // Samples use the tuple cache under every strategy, so that it follows the queries.
        let tuples = cached
            .tuples()
            .filter(|_| strategy.uses_tuples() || counts.is_some());
        let key = match tuples.map(|(packing, _)| packing.key(point)) {
            Some(None) => return Ok(Tids::none()),
            Some(key) => key,
            None => None,
        };
        let (header, image) = match (&cached.copies, counts) {
            (Some(copies), None) if strategy.uses_lists() => (&*copies.header, Some(&*copies.image)),
            _ => (&*self.durable, None),
        };
        if let (Some((_, cache)), Some(key)) = (tuples, &key) {
            cache.prefetch(key.hash);
            // If most lookups miss, the list is prefetched during the lookup.
            if cache.hit_rate().is_none_or(|rate| rate < NO_PREFETCH_HIT_RATE) {
                quick::ask_for(self.tree_in(header, image), point);
            }
            if let Some(tid) = cache.get(key.hash, key.words()) {
                return Ok(Tids::consecutive(tid, 1));
            }
        }
        let tids = self.exact_in(header, image, point)?;
        if let (Some((_, cache)), Some(key)) = (tuples, &key) {
            remember(cache, key, &tids);
        }
        // The copies may be freed after this query, so no TIDs borrowed from them are returned.
        let found = (tids.len(), tids.first().unwrap_or(0));
        drop(cached);
        if let Some(counts) = counts {
            self.count_exact(point, counts)?;
            self.renew_if_due(dynamic);
        }
        match found {
            (0, _) => Ok(Tids::none()),
            (1, tid) => Ok(Tids::consecutive(tid, 1)),
            _ => self.exact_in(&self.durable, None, point),
        }
    }

    /// Counts the lists that an exact match visits.
    pub(crate) fn count_exact(&self, point: &[u64], counts: &AgedCounts) -> Result<()> {
        match self.layout() {
            // Its shortcuts lead directly to the last list, which few other points share.
            Layout::Packed => Ok(()),
            Layout::Published => {
                let equal: Vec<CodePredicate> =
                    point.iter().map(|&code| CodePredicate::equal(code)).collect();
                let plan = Plan::new(&equal, &self.durable.geometry)?;
                let lists = self.lists_in(&self.durable, None);
                match plan.and_then(|plan| lists.translate(&plan)) {
                    Some(plan) => lists.select(&plan, &mut CountSink::default(), Some(counts)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Runs [`exact`](Self::exact) with the given copies. Returns an error if the search has read damaged
    /// data.
    #[inline(always)]
    fn exact_in<'a>(
        &'a self,
        header: &'a ElfHeader,
        image: Option<&'a Image>,
        point: &[u64],
    ) -> Result<Tids<'a>> {
        let found = self.search_exact(header, image, point);
        self.sound()?;
        found
    }

    #[inline(always)]
    fn search_exact<'a>(
        &'a self,
        header: &'a ElfHeader,
        image: Option<&'a Image>,
        point: &[u64],
    ) -> Result<Tids<'a>> {
        if self.is_clustered() {
            return self.exact_clustered(header, image, point);
        }
        if header.shortcuts.dims() > 0 {
            let bytes = &self.bytes;
            let quick = Quick {
                bytes,
                image,
                header,
                point,
            };
            if let Some(tids) = dispatch(&quick).tids(View::new(bytes, image), header) {
                return Ok(tids);
            }
        }
        self.exact_any(header, image, point)
    }

    /// Runs [`exact`](Self::exact) on a clustered index.
    #[inline(never)]
    fn exact_clustered<'a>(
        &'a self,
        header: &'a ElfHeader,
        image: Option<&'a Image>,
        point: &[u64],
    ) -> Result<Tids<'a>> {
        if header.shortcuts.dims() > 0 {
            let bytes = &self.bytes;
            let quick = Quick {
                bytes,
                image,
                header,
                point,
            };
            if let Some(tids) = dispatch(Clustered(&quick)).tids(View::new(bytes, image), header) {
                return Ok(tids);
            }
        }
        let tree = self.tree_in(header, image);
        Ok(tree.tids(dispatch(Clustered(Exact { tree, point }))?))
    }

    /// Runs [`exact`](Self::exact) on lists of any kind in either layout.
    #[inline(never)]
    fn exact_any<'a>(
        &'a self,
        header: &'a ElfHeader,
        image: Option<&'a Image>,
        point: &[u64],
    ) -> Result<Tids<'a>> {
        if self.rows() == 0 {
            return Ok(Tids::none());
        }
        match self.layout() {
            Layout::Packed => {
                let tree = self.tree_in(header, image);
                Ok(tree.tids(dispatch(Exact { tree, point })?))
            }
            Layout::Published => self.lists_in(header, image).exact(point),
        }
    }

    /// Finds the rows that equal each of many points, row-major in `points`. `out` is cleared and then holds
    /// the TIDs of each point. In layout `packed` the searches are interleaved, so that their cache
    /// misses overlap.
    ///
    /// # Errors
    /// [`ElfError::WrongDimensions`] if `points` is no whole number of points; [`ElfError::Damaged`].
    pub fn exact_batch(&self, points: &[u64], out: &mut Matches) -> Result<()> {
        out.clear();
        if !points.len().is_multiple_of(self.dims()) {
            return Err(ElfError::WrongDimensions {
                expected: self.dims(),
                found: points.len() % self.dims(),
            });
        }
        if self.layout() == Layout::Packed && self.rows() > 0 {
            let mut room = vec![];
            let points = match self.header.geometry.buckets {
                None => points,
                Some(buckets) => {
                    room = POINTS.take();
                    buckets.points(points, self.dims(), &mut room);
                    &room
                }
            };
            let count = (points.len() / self.header.geometry.dims()) as u64;
            let found = self.with_copies_of_now(QueryKind::Batch, count, |header, image, _| {
                self.batch_in(header, image, points, out)
            });
            POINTS.set(room);
            self.sound()?;
            return found;
        }
        for point in points.chunks_exact(self.dims()) {
            out.push(self.exact(point)?);
        }
        Ok(())
    }

    fn batch_in(
        &self,
        header: &ElfHeader,
        image: Option<&Image>,
        points: &[u64],
        out: &mut Matches,
    ) -> Result<()> {
        let tree = self.tree_in(header, image);
        let coefficients = header.coefficients.as_deref();
        let batch = Batch {
            tree,
            dims: header.geometry.dims(),
            coefficients: coefficients.unwrap_or_default(),
            points,
            out,
        };
        let found = match self.is_clustered() {
            _ if coefficients.is_some() && header.shortcuts.form == ShortcutForm::Quartered => {
                dispatch(BatchPipeline(batch, SubrangeStages))
            }
            true if coefficients.is_none() => dispatch(Clustered(BatchPipeline(batch, GeneralStages))),
            false if coefficients.is_none() => dispatch(BatchPipeline(batch, GeneralStages)),
            true if has_middle_lists(header) => dispatch(Clustered(BatchPipeline(batch, MiddleStages))),
            false if has_middle_lists(header) => dispatch(BatchPipeline(batch, MiddleStages)),
            true => dispatch(Clustered(BatchPipeline(batch, QuickStages))),
            false => dispatch(BatchPipeline(batch, QuickStages)),
        };
        found.map_err(ElfError::from)
    }
}
