//! An open index.

use crate::header::ElfHeader;
use crate::packed::node::PackedTree;
use crate::place::IndexCopies;
use crate::place::dynamic::Dynamic;
use crate::place::hashed::Hashed;
use crate::place::strategy::QueryKind;
use crate::published::search::PublishedTree;
use crate::view::{Image, View};
use crate::{ElfError, Layout, PlacementStatus, Result, packed, published};
use halocline_cache::{AgedCounts, Reservation};
use halocline_media::Bytes;
use std::sync::Arc;

/// An open Elf index over bytes in any memory.
#[derive(Debug, Clone)]
pub struct Elf<B> {
    pub(crate) bytes: B,
    /// The header of the durable bytes.
    pub(crate) durable: Arc<ElfHeader>,
    /// The header that leads into the copies in DRAM, if there are any.
    pub(crate) header: Arc<ElfHeader>,
    image: Option<Arc<Image>>,
    /// Copies that follow the queries.
    pub(crate) dynamic: Option<Arc<Dynamic>>,
    hashed: Option<Arc<Hashed>>,
    placed: Arc<PlacementStatus>,
    /// Reservation of the copies in a budget, released with the last of them.
    held: Option<Arc<Reservation>>,
}

impl<B: Bytes> Elf<B> {
    /// Opens an index: validates its header, reads nothing else. O(dimensions).
    ///
    /// # Errors
    /// [`ElfError::NotAnElf`], [`ElfError::NewerVersion`], [`ElfError::Damaged`].
    pub fn open(bytes: B) -> Result<Self> {
        let header = Arc::new(ElfHeader::read(bytes.as_slice())?);
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

    /// Returns the layout of its lists.
    pub fn layout(&self) -> Layout {
        self.header.layout
    }

    /// Returns true if rows are in the order of their tuples, so that
    /// [`Selection::ranges`](crate::Selection::ranges) are few.
    pub fn is_clustered(&self) -> bool {
        self.header.geometry.is_clustered()
    }

    /// Returns the number of indexed rows.
    pub fn rows(&self) -> u64 {
        self.header.geometry.rows
    }

    /// Returns the number of dimensions.
    pub fn dims(&self) -> usize {
        self.header.geometry.columns()
    }

    /// Returns the largest code that dimension `dim` can hold.
    ///
    /// # Panics
    /// If `dim` is not below [`dims`](Self::dims).
    pub fn max_code(&self, dim: usize) -> u64 {
        let geometry = &self.header.geometry;
        geometry.max_codes[geometry.depth_of(dim)]
    }

    /// Returns the size of the index in bytes.
    pub fn size(&self) -> u64 {
        self.header.len
    }

    /// Returns the bytes it was opened on.
    pub fn bytes(&self) -> &B {
        &self.bytes
    }

    /// Returns the placement in effect and its DRAM.
    pub fn placed(&self) -> PlacementStatus {
        let mut placed = (*self.placed).clone();
        if let Some(dynamic) = &self.dynamic {
            placed.dram_bytes += dynamic.bytes();
            placed.fallback = placed.fallback.or_else(|| dynamic.fallback());
        }
        placed
    }

    /// Checks that no damage was read. Called before a result is returned.
    ///
    /// # Errors
    /// [`ElfError::DamagedBlock`].
    #[inline(always)]
    pub(crate) fn sound(&self) -> Result<()> {
        match self.bytes.damage() {
            None => Ok(()),
            Some(block) => Err(block.into()),
        }
    }

    pub(crate) fn durable_header(&self) -> Arc<ElfHeader> {
        Arc::clone(&self.durable)
    }

    /// Returns the index without any copies.
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

    /// Returns its copies in DRAM.
    pub(crate) fn copies(&self) -> IndexCopies {
        IndexCopies {
            header: Arc::clone(&self.header),
            image: self.image.clone(),
            dynamic: self.dynamic.clone(),
            hashed: self.hashed.clone(),
            placed: Arc::clone(&self.placed),
            held: self.held.clone(),
        }
    }

    /// Attaches the copies of an index of the same bytes.
    pub(crate) fn with_copies_of(&self, copies: &IndexCopies) -> Self {
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

    pub(crate) fn with_copies(
        self,
        image: Arc<Image>,
        header: Arc<ElfHeader>,
        placed: PlacementStatus,
    ) -> Self {
        Self {
            header,
            image: Some(image),
            placed: Arc::new(placed),
            ..self
        }
    }

    /// Sets the status of an index whose bytes are themselves in DRAM.
    pub(crate) fn with_placed(self, placed: PlacementStatus) -> Self {
        Self {
            placed: Arc::new(placed),
            ..self
        }
    }

    pub(crate) fn fallen_back(self, reason: String) -> Self {
        let placed = PlacementStatus {
            fallback: Some(reason),
            ..PlacementStatus::default()
        };
        Self {
            placed: Arc::new(placed),
            ..self
        }
    }

    pub(crate) fn with_dynamic(self, dynamic: Dynamic, placed: PlacementStatus) -> Self {
        Self {
            dynamic: Some(Arc::new(dynamic)),
            placed: Arc::new(placed),
            ..self
        }
    }

    pub(crate) fn with_hashed(self, hashed: Hashed, placed: PlacementStatus) -> Self {
        Self {
            hashed: Some(Arc::new(hashed)),
            placed: Arc::new(placed),
            ..self
        }
    }

    #[inline(always)]
    pub(crate) fn image(&self) -> Option<&Image> {
        self.image.as_deref()
    }

    /// Returns the lists of layout `packed` without those copies that follow the queries.
    pub(crate) fn tree(&self) -> PackedTree<'_, B> {
        self.tree_in(&self.header, self.image())
    }

    pub(crate) fn tree_in<'a>(
        &'a self,
        header: &'a ElfHeader,
        image: Option<&'a Image>,
    ) -> PackedTree<'a, B> {
        PackedTree {
            view: View::new(&self.bytes, image),
            header,
        }
    }

    /// Returns the lists of layout `published` without those copies that follow the queries.
    pub(crate) fn lists(&self) -> PublishedTree<'_, B> {
        self.lists_in(&self.header, self.image())
    }

    pub(crate) fn lists_in<'a>(
        &'a self,
        header: &'a ElfHeader,
        image: Option<&'a Image>,
    ) -> PublishedTree<'a, B> {
        PublishedTree {
            view: View::new(&self.bytes, image),
            header,
            hashed: self.hashed.as_deref(),
        }
    }

    /// Calls `search` with the header and the copies that `queries` queries of a kind use now; for a sample,
    /// with the counters and without copies.
    pub(crate) fn with_copies_of_now<R>(
        &self,
        kind: QueryKind,
        queries: u64,
        search: impl FnOnce(&ElfHeader, Option<&Image>, Option<&AgedCounts>) -> R,
    ) -> R {
        let Some(dynamic) = &self.dynamic else {
            return search(&self.header, self.image(), None);
        };
        if let Some(counts) = dynamic.sample(kind) {
            let found = search(&self.durable, None, Some(counts));
            self.renew_if_due(dynamic);
            return found;
        }
        dynamic.strategies.answer(kind, queries, &self.bytes, |strategy| {
            let cached = strategy.uses_lists().then(|| dynamic.cached());
            match cached.as_ref().and_then(|cached| cached.copies.as_ref()) {
                Some(copies) => search(&copies.header, Some(&copies.image), None),
                None => search(&self.durable, None, None),
            }
        })
    }

    /// Calls `search` with the header and the copies that selections use now, without counting it as a query.
    pub(crate) fn beside_copies<R>(&self, search: impl FnOnce(&ElfHeader, Option<&Image>) -> R) -> R {
        let Some(dynamic) = &self.dynamic else {
            return search(&self.header, self.image());
        };
        match &dynamic.cached().copies {
            Some(copies) if dynamic.strategies.uses_lists(QueryKind::Select) => {
                search(&copies.header, Some(&copies.image))
            }
            _ => search(&self.durable, None),
        }
    }

    /// Renews the copies if that is due. Called after a sample by a thread that holds no copies.
    pub(crate) fn renew_if_due(&self, dynamic: &Dynamic) {
        if dynamic.is_due() {
            let plain = self.slow_only();
            dynamic.renew(move |counts, most, control| plain.counted(counts, most, control));
        }
    }

    /// Makes renewals run on the query at which they are due instead of on a background thread, so that the
    /// copies depend on the queries alone. This is meant for copies that follow the queries, in tests and on
    /// virtual clocks.
    pub fn copy_alone(&self) {
        if let Some(dynamic) = &self.dynamic {
            dynamic.copy_alone();
        }
    }

    /// Waits for a renewal in progress of copies that follow the queries.
    pub fn wait_for_copies(&self) {
        if let Some(dynamic) = &self.dynamic {
            dynamic.wait();
        }
    }

    /// Verifies every invariant of the bytes: lists sorted and linked once, every row exactly once. Reads
    /// everything.
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
