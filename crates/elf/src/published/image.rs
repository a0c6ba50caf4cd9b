//! Copies of lists of layout `published` in DRAM: those of some levels, or the most probable ones.
//!
//! As in layout `packed` (packed/image.rs) an image continues the index's offsets, and a link in a copy leads to a copy
//! where there is one. A list does not say how many rows are below it, so its probability is its parent's divided by the
//! parent's entries, as if rows were spread evenly.

use crate::header::Header;
use crate::place::errand::{Errand, and_list};
use crate::published::search::Lists;
use crate::published::{ENTRY, LAST, MONO};
use crate::view::{Image, PAD, count_of};
use crate::{ElfError, Result};
use halocline_cache::AgedCounts;
use halocline_media::{Bytes, HugeVec};
use std::sync::Arc;

/// Which lists are copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'c> {
    /// Those of dimensions below this one.
    pub(crate) levels: usize,
    /// And of such a probability.
    pub(crate) least: f64,
    /// MonoLists too.
    pub(crate) mono_lists: bool,
    /// What the probability follows beside the tree's.
    pub(crate) counts: Option<&'c AgedCounts>,
}

/// Copies lists, or only adds up their bytes.
struct Copier<'a, 'c, B> {
    lists: Lists<'a, B>,
    wanted: Wanted<'c>,
    from: usize,
    /// Bytes so far, and at most.
    len: usize,
    most: usize,
    bytes: Option<HugeVec<u8>>,
    errand: &'c dyn Errand,
    /// Which lists they are.
    chosen: u64,
}

/// Too many bytes for the budget, or damage, or nobody wants the copies any more.
enum Stop {
    Full,
    Failed(ElfError),
}

impl From<ElfError> for Stop {
    fn from(error: ElfError) -> Self {
        Self::Failed(error)
    }
}

/// The image of these lists; `None` if it has more than `most` bytes or the errand does not want it.
///
/// # Errors
/// [`ElfError::Damaged`], [`ElfError::Memory`], [`ElfError::Cancelled`].
pub(crate) fn make<B: Bytes>(
    lists: Lists<'_, B>,
    wanted: Wanted<'_>,
    most: u64,
    errand: &dyn Errand,
) -> Result<Option<(Arc<Image>, Arc<Header>)>> {
    let mut copier = Copier::new(lists, wanted, most, errand);
    match copier.measure() {
        Ok(()) if errand.chosen(copier.chosen)? => copier.write().map(Some),
        Ok(()) | Err(Stop::Full) => Ok(None),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// The image of the most probable lists that has no more than `most` bytes; `None` if there is no room for the root.
///
/// # Errors
/// As [`make`].
pub(crate) fn probable<B: Bytes>(
    lists: Lists<'_, B>,
    counts: Option<&AgedCounts>,
    most: u64,
    errand: &dyn Errand,
) -> Result<Option<(Arc<Image>, Arc<Header>)>> {
    let wanted = |least| Wanted {
        levels: usize::MAX,
        least,
        mono_lists: true,
        counts,
    };
    let fits = |least| match Copier::new(lists, wanted(least), most, errand).measure() {
        Ok(()) => Ok(true),
        Err(Stop::Full) => Ok(false),
        Err(Stop::Failed(error)) => Err(error),
    };
    match crate::place::least(0.25 / lists.header.geometry.rows as f64, fits)? {
        Some(least) => make(lists, wanted(least), most, errand),
        None => Ok(None),
    }
}

impl<'a, 'c, B: Bytes> Copier<'a, 'c, B> {
    fn new(lists: Lists<'a, B>, wanted: Wanted<'c>, most: u64, errand: &'c dyn Errand) -> Self {
        let len = lists.header.len;
        Self {
            lists,
            wanted,
            from: len.next_multiple_of(64) as usize,
            len: 0,
            // Lists that are linked again and again, by damage, come to an end.
            most: most.min(2 * len) as usize,
            bytes: None,
            errand,
            chosen: 0,
        }
    }

    fn measure(&mut self) -> Result<(), Stop> {
        let root = self.root()?;
        if root < self.from {
            return Err(Stop::Full);
        }
        self.take(PAD).map(drop)
    }

    fn write(mut self) -> Result<(Arc<Image>, Arc<Header>)> {
        self.bytes = Some(HugeVec::zeroed(self.len).map_err(ElfError::Memory)?);
        let (from, len) = (self.from, self.len);
        self.len = 0;
        let root = match self.root() {
            Ok(root) => root,
            Err(Stop::Full) => return Err(ElfError::damaged(0, "lists change while they are copied")),
            Err(Stop::Failed(error)) => return Err(error),
        };
        let mut header = self.lists.header.clone();
        header.root = root as u64;
        header.nodes_end = (from + len - PAD) as u64;
        let bytes = Arc::new(self.bytes.take().unwrap_or_default());
        Ok((Arc::new(Image { from, bytes }), Arc::new(header)))
    }

    /// Room for `len` bytes: their place within the image.
    fn take(&mut self, len: usize) -> Result<usize, Stop> {
        let at = self.len;
        self.len = self.len.saturating_add(len);
        if self.len > self.most {
            return Err(Stop::Full);
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

    /// Copies the first dimension's array; gives its new offset.
    fn root(&mut self) -> Result<usize, Stop> {
        let lists = self.lists;
        if self.wanted.levels == 0 {
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

    /// Copies what a link leads to, if it is wanted; gives the link to it, new or old.
    fn link(&mut self, link: u64, depth: usize, probability: f64) -> Result<u64, Stop> {
        if link == 0 || depth >= self.wanted.levels {
            return Ok(link);
        }
        let counted = match self.wanted.counts {
            Some(counts) => {
                let at = (link & !MONO) as usize;
                f64::from(counts.probability(count_of(at, counts), probability as f32))
            }
            None => probability,
        };
        if counted < self.wanted.least {
            return Ok(link);
        }
        self.errand.check()?;
        self.chosen = and_list(self.chosen, link as usize);
        if link & MONO == 0 {
            return self.list(link as usize, depth, probability);
        }
        if !self.wanted.mono_lists {
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

    fn list(&mut self, at: usize, depth: usize, probability: f64) -> Result<u64, Stop> {
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
