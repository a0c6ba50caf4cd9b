//! An open index.

use crate::header::{Header, MAX_DIMS};
use crate::kernel::{Clustered, Search, dispatch};
use crate::packed::batch::ExactBatch;
use crate::packed::batch_middle::{self, MiddleBatch};
use crate::packed::batch_quick::QuickBatch;
use crate::packed::exact::Exact;
use crate::packed::node::Tree;
use crate::packed::quick::Quick;
use crate::packed::select::Select;
use crate::packed::shortcuts::Start;
use crate::place::Copies;
use crate::place::dynamic::{Dynamic, Hashed, remember};
use crate::plan::Plan;
use crate::published::search::Lists;
use crate::sink::{Collect, Count, Ranges, Sink, Visit};
use crate::view::{Image, View};
use crate::{CodePredicate, ElfError, Layout, Matches, Placed, Result, Tid, Tids, packed, published};
use halocline_cache::{AgedCounts, Reservation};
use halocline_media::Bytes;
use roaring::RoaringBitmap;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Depths of a short point.
const SHORT: usize = 16;

thread_local! {
    /// Memory that one batch leaves to the thread's next.
    static POINTS: Cell<Vec<u64>> = Cell::default();
}

/// An Elf over bytes that may be anywhere.
#[derive(Debug, Clone)]
pub struct Elf<B> {
    bytes: B,
    /// As it is durable.
    durable: Arc<Header>,
    /// The one that leads into the copies in DRAM, if there are any.
    header: Arc<Header>,
    image: Option<Arc<Image>>,
    /// Copies that follow the queries.
    dynamic: Option<Arc<Dynamic>>,
    hashed: Option<Arc<Hashed>>,
    placed: Arc<Placed>,
    /// What the copies count against a budget, given back with the last of them.
    held: Option<Arc<Reservation>>,
}

impl<B: Bytes> Elf<B> {
    /// Opens an index: validates its header, reads nothing else. O(dimensions).
    ///
    /// # Errors
    /// [`ElfError::NotAnElf`], [`ElfError::NewerVersion`], [`ElfError::Damaged`].
    pub fn open(bytes: B) -> Result<Self> {
        let header = Arc::new(Header::read(bytes.as_slice())?);
        Ok(Self {
            bytes,
            durable: Arc::clone(&header),
            header,
            image: None,
            dynamic: None,
            hashed: None,
            placed: Arc::default(),
            held: None,
        })
    }

    /// How its lists are laid out.
    pub fn layout(&self) -> Layout {
        self.header.layout
    }

    /// Whether rows stand in the order of their tuples, so that [`Selection::ranges`] are few.
    pub fn is_clustered(&self) -> bool {
        self.header.geometry.is_clustered()
    }

    /// Indexed rows.
    pub fn rows(&self) -> u64 {
        self.header.geometry.rows
    }

    /// Dimensions.
    pub fn dims(&self) -> usize {
        self.header.geometry.columns()
    }

    /// Largest code that dimension `dim` can hold.
    ///
    /// # Panics
    /// If `dim` is not below [`dims`](Self::dims).
    pub fn max_code(&self, dim: usize) -> u64 {
        let geometry = &self.header.geometry;
        geometry.max_codes[geometry.depth_of(dim)]
    }

    /// Bytes of the index.
    pub fn size(&self) -> u64 {
        self.header.len
    }

    /// The bytes it was opened on.
    pub fn bytes(&self) -> &B {
        &self.bytes
    }

    /// What of it is in DRAM now.
    pub fn placed(&self) -> Placed {
        let mut placed = (*self.placed).clone();
        placed.dram_bytes += self.dynamic.as_ref().map_or(0, |dynamic| dynamic.bytes());
        placed
    }

    pub(crate) fn durable_header(&self) -> Arc<Header> {
        Arc::clone(&self.durable)
    }

    /// Without any copies.
    pub(crate) fn slow_only(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            durable: Arc::clone(&self.durable),
            header: Arc::clone(&self.durable),
            image: None,
            dynamic: None,
            hashed: None,
            placed: Arc::default(),
            held: None,
        }
    }

    /// What of it is in DRAM, without the rest.
    pub(crate) fn copies(&self) -> Copies {
        Copies {
            header: Arc::clone(&self.header),
            image: self.image.clone(),
            dynamic: self.dynamic.clone(),
            hashed: self.hashed.clone(),
            placed: Arc::clone(&self.placed),
            held: self.held.clone(),
        }
    }

    /// With the copies of an index of the same bytes.
    pub(crate) fn with_copies_of(&self, copies: &Copies) -> Self {
        Self {
            bytes: self.bytes.clone(),
            durable: Arc::clone(&self.durable),
            header: Arc::clone(&copies.header),
            image: copies.image.clone(),
            dynamic: copies.dynamic.clone(),
            hashed: copies.hashed.clone(),
            placed: Arc::clone(&copies.placed),
            held: copies.held.clone(),
        }
    }

    pub(crate) fn with_copies(self, image: Arc<Image>, header: Arc<Header>, placed: Placed) -> Self {
        Self {
            header,
            image: Some(image),
            placed: Arc::new(placed),
            ..self
        }
    }

    pub(crate) fn fallen_back(self, reason: String) -> Self {
        let placed = Placed {
            fallback: Some(reason),
            ..Placed::default()
        };
        Self {
            placed: Arc::new(placed),
            ..self
        }
    }

    pub(crate) fn with_dynamic(self, dynamic: Dynamic, placed: Placed) -> Self {
        Self {
            dynamic: Some(Arc::new(dynamic)),
            placed: Arc::new(placed),
            ..self
        }
    }

    pub(crate) fn with_hashed(self, hashed: Hashed, placed: Placed) -> Self {
        Self {
            hashed: Some(Arc::new(hashed)),
            placed: Arc::new(placed),
            ..self
        }
    }

    #[inline(always)]
    fn image(&self) -> Option<&Image> {
        self.image.as_deref()
    }

    /// The lists of layout `packed` without those copies that follow the queries.
    pub(crate) fn tree(&self) -> Tree<'_, B> {
        self.tree_in(&self.header, self.image())
    }

    pub(crate) fn tree_in<'a>(&'a self, header: &'a Header, image: Option<&'a Image>) -> Tree<'a, B> {
        Tree {
            view: View::new(&self.bytes, image),
            header,
        }
    }

    /// The lists of layout `published` without those copies that follow the queries.
    pub(crate) fn lists(&self) -> Lists<'_, B> {
        self.lists_in(&self.header, self.image())
    }

    pub(crate) fn lists_in<'a>(&'a self, header: &'a Header, image: Option<&'a Image>) -> Lists<'a, B> {
        Lists {
            view: View::new(&self.bytes, image),
            header,
            hashed: self.hashed.as_deref(),
        }
    }

    /// Calls `search` with the header and the copies that a query is to use now; for a sample, with none and the counts.
    pub(crate) fn with_copies_of_now<R>(
        &self,
        search: impl FnOnce(&Header, Option<&Image>, Option<&AgedCounts>) -> R,
    ) -> R {
        let Some(dynamic) = &self.dynamic else {
            return search(&self.header, self.image(), None);
        };
        if let Some(counts) = dynamic.sample() {
            let found = search(&self.durable, None, Some(counts));
            self.renew_if_due(dynamic);
            return found;
        }
        match &*dynamic.copies() {
            Some(copies) => search(&copies.header, Some(&copies.image), None),
            None => search(&self.durable, None, None),
        }
    }

    fn renew_if_due(&self, dynamic: &Dynamic) {
        if dynamic.is_due()
            && let Err(error) = dynamic.renew(|counts, most| self.slow_only().counted(counts, most))
        {
            // Without copies every answer is the same.
            tracing::warn!(%error, "lists could not be copied to DRAM");
        }
    }

    /// Rows that equal `point`, one code for each dimension (section 2 of the paper: exact match). O(dimensions * log n).
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
            Some(buckets) if point.len() < SHORT => {
                let mut room = [0; SHORT];
                self.exact_at(buckets.point(point, &mut room).unwrap_or_default())
            }
            Some(buckets) => {
                let mut room = [0; MAX_DIMS];
                self.exact_at(buckets.point(point, &mut room).unwrap_or_default())
            }
        }
    }

    /// [`exact`](Self::exact) for a point with a code for each depth.
    #[inline(always)]
    fn exact_at(&self, point: &[u64]) -> Result<Tids<'_>> {
        match &self.dynamic {
            None => self.exact_in(&self.header, self.image(), point),
            Some(dynamic) => self.exact_dynamic(dynamic, point),
        }
    }

    /// [`exact`](Self::exact) with copies that follow the queries.
    fn exact_dynamic(&self, dynamic: &Dynamic, point: &[u64]) -> Result<Tids<'_>> {
        let tuples = dynamic.tuples();
        let key = match tuples.map(|(packing, _)| packing.key(point)) {
            Some(None) => return Ok(Tids::none()),
            Some(key) => key,
            None => None,
        };
        if let (Some((_, cache)), Some(key)) = (tuples, &key) {
            // The list is on its way while the tuple is looked for.
            self.fetch_exact(dynamic, point);
            if let Some(tid) = cache.get(key.hash, key.words()) {
                return Ok(Tids::consecutive(tid, 1));
            }
        }
        let found: Result<_> = self.with_copies_of_now(|header, image, counts| {
            if let Some(counts) = counts {
                self.count_exact(point, counts)?;
            }
            let tids = self.exact_in(header, image, point)?;
            if let (Some((_, cache)), Some(key)) = (tuples, &key) {
                remember(cache, key, &tids);
            }
            // Of the copies nothing may be lent beyond this query.
            Ok((tids.len(), tids.first().unwrap_or(0)))
        });
        match found? {
            (0, _) => Ok(Tids::none()),
            (1, tid) => Ok(Tids::consecutive(tid, 1)),
            _ => self.exact_in(&self.durable, None, point),
        }
    }

    /// Counts the lists that an exact match visits.
    pub(crate) fn count_exact(&self, point: &[u64], counts: &AgedCounts) -> Result<()> {
        match self.layout() {
            // Its shortcuts lead to the last list, which is of use to few other points.
            Layout::Packed => Ok(()),
            Layout::Published => {
                let equal: Vec<CodePredicate> =
                    point.iter().map(|&code| CodePredicate::Equal(code)).collect();
                let plan = Plan::new(&equal, &self.durable.geometry)?;
                let lists = self.lists_in(&self.durable, None);
                match plan.and_then(|plan| lists.translate(&plan)) {
                    Some(plan) => lists.select(&plan, &mut Count::default(), Some(counts)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Asks for the list in which an exact match will look, where that is known without waiting.
    #[inline(always)]
    fn fetch_exact(&self, dynamic: &Dynamic, point: &[u64]) {
        let copies = dynamic.copies();
        let tree = match &*copies {
            Some(copies) => self.tree_in(&copies.header, Some(&copies.image)),
            None => self.tree_in(&self.durable, None),
        };
        if tree.header.shortcuts.dims() > 0
            && let Start::List(at) = tree.start(point)
        {
            tree.view.prefetch(at);
        }
    }

    #[inline(always)]
    fn exact_in<'a>(
        &'a self,
        header: &'a Header,
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

    /// [`exact`](Self::exact) in a clustered index.
    #[inline(never)]
    fn exact_clustered<'a>(
        &'a self,
        header: &'a Header,
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

    /// [`exact`](Self::exact) in any list of any layout.
    #[inline(never)]
    fn exact_any<'a>(
        &'a self,
        header: &'a Header,
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

    /// Exact matches of many points, row-major in `points`. `out` is cleared and then holds the TIDs of each point. In
    /// layout `packed` the searches are interleaved, so that their cache misses overlap.
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
            let found = self.with_copies_of_now(|header, image, _| self.batch_in(header, image, points, out));
            POINTS.set(room);
            return found;
        }
        for point in points.chunks_exact(self.dims()) {
            out.push(self.exact(point)?);
        }
        Ok(())
    }

    fn batch_in(
        &self,
        header: &Header,
        image: Option<&Image>,
        points: &[u64],
        out: &mut Matches,
    ) -> Result<()> {
        let tree = self.tree_in(header, image);
        let found = match (header.weights.as_deref(), self.is_clustered()) {
            (Some(weights), clustered) => {
                let batch = QuickBatch {
                    tree,
                    weights,
                    points,
                    out,
                };
                match (batch_middle::is_worth(header), clustered) {
                    (true, true) => dispatch(Clustered(MiddleBatch(batch))),
                    (true, false) => dispatch(MiddleBatch(batch)),
                    (false, true) => dispatch(Clustered(batch)),
                    (false, false) => dispatch(batch),
                }
            }
            (None, true) => dispatch(Clustered(ExactBatch { tree, points, out })),
            (None, false) => dispatch(ExactBatch { tree, points, out }),
        };
        found.map_err(ElfError::from)
    }

    /// The rows that match one predicate for each dimension; what is wanted of them is said on the [`Selection`].
    ///
    /// # Errors
    /// [`ElfError::WrongDimensions`].
    pub fn select(&self, predicates: &[CodePredicate]) -> Result<Selection<'_, B>> {
        let mut plan = self.plan(predicates)?;
        if self.layout() == Layout::Published {
            plan = plan.and_then(|plan| self.lists().translate(&plan));
        }
        Ok(Selection { elf: self, plan })
    }

    /// What the predicates ask of each depth; `None` if no row can match.
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

    /// Searches the lists of layout `packed` from some of one dimension on.
    pub(crate) fn select_packed<S: Sink>(
        &self,
        tree: Tree<'_, B>,
        plan: &Plan,
        sink: &mut S,
        counts: Option<&AgedCounts>,
        from: &[usize],
        depth: usize,
    ) -> Result<()> {
        self.dispatch_packed(Select {
            tree,
            plan,
            sink,
            counts,
            from,
            depth,
        })
    }

    /// Runs a search that is compiled for both kinds of records.
    pub(crate) fn dispatch_packed<S: Search>(&self, search: S) -> S::Output {
        if self.is_clustered() {
            dispatch(Clustered(search))
        } else {
            dispatch(search)
        }
    }

    /// Estimated number of rows that match, and of lists visited on the way to them: exact where the upper levels decide
    /// it, else from some dozens of lists and the histograms. Microseconds.
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
        match self.header.layout {
            Layout::Packed => self.with_copies_of_now(|header, image, _| {
                packed::estimate::estimate(self.tree_in(header, image), plan)
            }),
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
        }
    }

    /// Verifies every invariant of the bytes: lists sorted and linked once, every row exactly once. Reads everything.
    ///
    /// # Errors
    /// [`ElfError::Damaged`] with the place of the first damage.
    pub fn check(&self) -> Result<()> {
        if !Arc::ptr_eq(&self.header, &self.durable) {
            return self.slow_only().check();
        }
        let after = self.header.ranks.iter().map(|ranks| ranks.at + ranks.len * 8);
        let after = after.fold(self.header.nodes_end.max(self.header.shortcuts.end()), u64::max);
        let padding = &self.bytes.as_slice()[after as usize..self.header.len as usize];
        if !self.header.unread && padding.iter().any(|&byte| byte != 0) {
            return Err(ElfError::damaged(after as usize, "the padding is not zero"));
        }
        match self.header.layout {
            Layout::Packed => packed::check::check(self.tree()),
            Layout::Published => published::check::check(self.lists()),
        }
    }
}

/// What a selection is expected to find and to cost; see [`Elf::estimate`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Rows that match.
    pub rows: f64,
    /// Lists visited.
    pub lists: f64,
    /// Runs of neighbouring rows that they are, in a clustered index; otherwise as many as rows.
    pub ranges: f64,
}

/// Rows that match, not yet looked for. Their order is not specified.
#[derive(Debug, Clone)]
pub struct Selection<'a, B> {
    elf: &'a Elf<B>,
    /// `None`: no row can match.
    plan: Option<Plan>,
}

impl<B: Bytes> Selection<'_, B> {
    pub(crate) fn elf(&self) -> &Elf<B> {
        self.elf
    }

    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    fn run<S: Sink>(&self, sink: &mut S) -> Result<()> {
        let (elf, Some(plan)) = (self.elf, &self.plan) else {
            return Ok(());
        };
        if elf.rows() == 0 {
            return Ok(());
        }
        elf.with_copies_of_now(|header, image, counts| match elf.layout() {
            Layout::Packed => {
                let tree = elf.tree_in(header, image);
                elf.select_packed(tree, plan, sink, counts, &[header.root as usize], 0)
            }
            Layout::Published => elf.lists_in(header, image).select(plan, sink, counts),
        })
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
        let mut sink = Visit::new(visit, self.elf.rows());
        self.run(&mut sink)?;
        sink.finish(self.elf.is_clustered())
    }

    /// How many rows match. A subtree below the last restricted dimension costs one look at its list, in a clustered index
    /// all those of neighbouring values together two.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub fn count(&self) -> Result<u64> {
        let mut sink = Count::default();
        self.run(&mut sink)?;
        Ok(sink.rows)
    }

    /// The TIDs, in no particular order.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub fn tids(&self) -> Result<Vec<Tid>> {
        let mut tids = vec![];
        self.tids_into(&mut tids)?;
        Ok(tids)
    }

    /// Appends the TIDs to a vector that may be used again and again.
    ///
    /// # Errors
    /// [`ElfError::Damaged`]; what was appended then is worthless.
    pub fn tids_into(&self, tids: &mut Vec<Tid>) -> Result<()> {
        let mut sink = Collect::new(tids, self.elf.rows());
        self.run(&mut sink)?;
        sink.finish()
    }

    /// The TIDs as a bitmap.
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

    /// Calls `visit` with the matching rows as ranges, ascending, as long as they can be. In a
    /// [clustered](Elf::is_clustered) index no row of a subtree that matches as a whole is looked at.
    ///
    /// # Errors
    /// [`ElfError::Damaged`]; nothing has been visited then.
    pub fn ranges(&self, visit: impl FnMut(Range<Tid>)) -> Result<()> {
        self.row_ranges()?.into_iter().for_each(visit);
        Ok(())
    }

    fn row_ranges(&self) -> Result<Vec<Range<Tid>>> {
        let mut sink = Ranges::new(self.elf.rows());
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
