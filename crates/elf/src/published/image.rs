//! Copies of lists of layout `published` in DRAM: those of some levels, or the most probable ones.
//!
//! As in layout `packed` (packed/image.rs) an image continues the index's offsets, and a link in a copy leads
//! to a copy where there is one. A list does not say how many rows are below it, so its probability is its
//! parent's divided by the parent's entries, as if rows were spread evenly.

use crate::place::list_copier::{
    CopyControl, CopySelection, CopyStop, ImageParts, ListCopier, copy_lists, copy_most_probable, fingerprint,
};
use crate::published::search::PublishedTree;
use crate::published::{ENTRY, LAST, MONO};
use crate::view::{Image, PAD, count_of};
use crate::{ElfError, Result};
use halocline_cache::AgedCounts;
use halocline_media::{Bytes, HugeVec};
use std::sync::Arc;

/// Copies lists, or only adds up their bytes.
struct PublishedCopier<'a, 'c, B> {
    lists: PublishedTree<'a, B>,
    selection: CopySelection<'c>,
    from: usize,
    /// Bytes so far, and at most.
    len: usize,
    most: usize,
    bytes: Option<HugeVec<u8>>,
    control: &'c dyn CopyControl,
    /// Which lists they are.
    fingerprint: u64,
}

/// Returns the image of these lists; `None` if it exceeds `most` bytes or `control` does not approve it.
///
/// # Errors
/// [`ElfError::Damaged`], [`ElfError::Memory`], [`ElfError::Cancelled`].
pub(crate) fn make<B: Bytes>(
    lists: PublishedTree<'_, B>,
    selection: CopySelection<'_>,
    most: u64,
    control: &dyn CopyControl,
) -> Result<Option<ImageParts>> {
    copy_lists(PublishedCopier::new(lists, selection, most, control), control)
}

/// Returns the image of the most probable lists of no more than `most` bytes; `None` if there is no room for
/// the root.
///
/// # Errors
/// As [`make`].
pub(crate) fn probable<B: Bytes>(
    lists: PublishedTree<'_, B>,
    counts: Option<&AgedCounts>,
    most: u64,
    control: &dyn CopyControl,
) -> Result<Option<ImageParts>> {
    let floor = 0.25 / lists.header.geometry.rows as f64;
    let copier = |selection| PublishedCopier::new(lists, selection, most, control);
    copy_most_probable(floor, (usize::MAX, counts), copier, control)
}

impl<'a, 'c, B: Bytes> PublishedCopier<'a, 'c, B> {
    fn new(
        lists: PublishedTree<'a, B>,
        selection: CopySelection<'c>,
        most: u64,
        control: &'c dyn CopyControl,
    ) -> Self {
        let len = lists.header.len;
        Self {
            lists,
            selection,
            from: len.next_multiple_of(64) as usize,
            len: 0,
            // A limit even without a budget: cyclic links of a damaged index end here.
            most: most.min(2 * len) as usize,
            bytes: None,
            control,
            fingerprint: 0,
        }
    }

    /// Reserves `len` bytes of the image and returns their position in it.
    fn take(&mut self, len: usize) -> Result<usize, CopyStop> {
        let at = self.len;
        self.len = self.len.saturating_add(len);
        if self.len > self.most {
            return Err(CopyStop::Full);
        }
        Ok(at)
    }

    fn put(&mut self, at: usize, word: &[u8]) {
        if let Some(place) = self
            .bytes
            .as_mut()
            .and_then(|bytes| bytes.get_mut(at..at + word.len()))
        {
            place.copy_from_slice(word);
        }
    }

    /// Copies the first dimension's array and returns its new offset.
    fn root(&mut self) -> Result<usize, CopyStop> {
        let lists = self.lists;
        if self.selection.levels == 0 {
            return Ok(lists.header.root as usize);
        }
        let places = lists.places();
        let at = self.take(places.saturating_mul(8) as usize)?;
        let mut used = 0_u64;
        for value in 0..places {
            used += u64::from(lists.root_link(value) != 0);
        }
        for value in 0..places {
            let link = lists.root_link(value);
            let link = self.link(link, 1, 1.0 / used.max(1) as f64)?;
            self.put(at + value as usize * 8, &link.to_le_bytes());
        }
        Ok(self.from + at)
    }

    /// Copies the target of a link if it is selected. Returns the link to the copy, or the old link.
    fn link(&mut self, link: u64, depth: usize, probability: f64) -> Result<u64, CopyStop> {
        if link == 0 || depth >= self.selection.levels {
            return Ok(link);
        }
        let counted = match self.selection.counts {
            Some(counts) => {
                let at = (link & !MONO) as usize;
                f64::from(counts.probability(count_of(at, counts), probability as f32))
            }
            None => probability,
        };
        if counted < self.selection.least {
            return Ok(link);
        }
        self.control.check()?;
        self.fingerprint = fingerprint(self.fingerprint, link as usize);
        if link & MONO == 0 {
            return self.list(link as usize, depth, probability);
        }
        if !self.selection.records {
            return Ok(link);
        }
        let (view, at) = (self.lists.view, (link & !MONO) as usize);
        let values = (self.lists.header.geometry.dims() - depth.min(self.lists.header.geometry.dims())) * 4;
        let len = values + self.lists.tid_count(at.saturating_add(values))? * 4;
        view.touch(at, len);
        let to = self.take(len)?;
        if let Some(list) = view.slice(at, len) {
            self.put(to, list);
        }
        Ok((self.from + to) as u64 | MONO)
    }

    fn list(&mut self, at: usize, depth: usize, probability: f64) -> Result<u64, CopyStop> {
        let lists = self.lists;
        if depth >= lists.header.geometry.dims() {
            return Err(ElfError::damaged(at, "a list has no dimension left").into());
        }
        let mut count = 1;
        while lists.entry(at + (count - 1) * ENTRY)?.0 & LAST == 0 {
            count += 1;
        }
        let to = self.take(count * ENTRY)?;
        for entry in (0..count).map(|k| k * ENTRY) {
            let (value, link) = lists.entry(at + entry)?;
            let link = self.link(link, depth + 1, probability / count as f64)?;
            self.put(to + entry, &value.to_le_bytes());
            self.put(to + entry + 4, &link.to_le_bytes());
        }
        Ok((self.from + to) as u64)
    }
}

impl<B: Bytes> ListCopier for PublishedCopier<'_, '_, B> {
    fn measure(&mut self) -> Result<(), CopyStop> {
        let root = self.root()?;
        if root < self.from {
            return Err(CopyStop::Full);
        }
        self.take(PAD).map(drop)
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn write(mut self) -> Result<ImageParts, CopyStop> {
        self.bytes = Some(HugeVec::zeroed(self.len).map_err(ElfError::Memory)?);
        let (from, len) = (self.from, self.len);
        self.len = 0;
        let root = self.root()?;
        let mut header = self.lists.header.clone();
        header.root = root as u64;
        header.nodes_end = (from + len - PAD) as u64;
        let bytes = Arc::new(self.bytes.take().unwrap_or_default());
        Ok((Arc::new(Image { from, bytes }), Arc::new(header)))
    }
}
