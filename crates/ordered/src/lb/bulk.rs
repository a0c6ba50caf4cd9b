//! Loading an empty tree with entries that come in order.
//!
//! All leaves are written and linked to each other beside the tree, and the first entries to free slots of the tree's one leaf, which is
//! empty; when all is durable, that leaf takes its entries and the link to the others in the way of a split: by its link that is not
//! live and one store to the header of its first block, the only one that is filled.

use halocline_media::Medium;

use crate::inner::Inner;
use crate::kernel::fingerprint;
use crate::{OrderedIndex, TreeError};

use super::layout::{Header, SLOTS};
use super::leaf::Leaf;
use super::tree::{LbTree, number_of};
use crate::count::Count;

/// What has been written so far.
#[derive(Debug, Default)]
struct Written {
    /// Each leaf's least key and its number; the tree's first leaf before them.
    leaves: Vec<(u64, u32)>,
    /// Of the first leaf, and with it of the whole tree once it is stored.
    header: Header,
    entries: u64,
}

impl<M: Medium, const B: usize> LbTree<M, B> {
    pub(super) fn load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError> {
        self.latch.check(self.name())?;
        let first = self.inner.find(0).leaf;
        self.intact(first)?;
        if !self.is_empty() || self.inner.find(u64::MAX).leaf != first {
            return Err(TreeError::NotEmpty {
                name: self.name().to_owned(),
                entries: self.len(),
            });
        }
        let most = B * SLOTS;
        let fill = ((most as f64 * fill).round() as usize).clamp(1, most);
        let mut written = Written {
            leaves: vec![(0, first)],
            header: self.leaf(first).header(0),
            entries: 0,
        };
        let result = self.write_leaves(entries, fill, &mut written);
        let inner = result.and_then(|()| Ok(Inner::build(&written.leaves)?));
        let inner = match inner {
            Ok(inner) => inner,
            Err(error) => {
                for (_, leaf) in &written.leaves[1..] {
                    self.slab.free(super::tree::offset_of(*leaf));
                }
                return Err(error);
            }
        };
        let leaf = self.leaf(first);
        leaf.store_header(0, written.header.flipped());
        leaf.flush_line(0, 0);
        let result = self.latch.keep(self.slab.medium().fence());
        self.inner = inner;
        self.count = Count::new(written.entries);
        result?;
        Ok(written.entries)
    }

    /// Writes all leaves but the first, and what the first one will have; all of it is durable on return.
    fn write_leaves(
        &self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: usize,
        written: &mut Written,
    ) -> Result<(), TreeError> {
        let mut before = None;
        let mut whole = |written: &mut Written, most: usize| {
            let mut some = Vec::with_capacity(most);
            for (key, value) in entries.take(most) {
                if let Some(before) = before.filter(|before| *before >= key) {
                    return Err(TreeError::NotSorted {
                        position: written.entries,
                        key,
                        before,
                    });
                }
                before = Some(key);
                written.entries += 1;
                some.push((key, value));
            }
            Ok(some)
        };
        let medium = self.slab.medium();
        let first = self.leaf(written.leaves[0].1);
        for ((key, value), slot) in whole(written, fill.min(SLOTS))?.into_iter().zip(0..) {
            first.store_entry((0, slot), key, value);
            written.header = written.header.with(slot, fingerprint(key));
        }
        let mut pending = whole(written, fill)?;
        let mut node = self.take_for(&pending, written)?;
        first.store_link(1 - written.header.alt(), node);
        (1..4).for_each(|line| first.flush_line(0, line));
        while !pending.is_empty() {
            // The next one's place must be known before this one is written, as it leads there.
            let following = whole(written, fill)?;
            let next = self.take_for(&following, written)?;
            Leaf::<M, B> { medium, offset: node }.write_new(pending.into_iter(), next, true);
            (pending, node) = (following, next);
        }
        self.latch.keep(medium.fence())
    }

    /// A node for entries; none, that is 0, if there are no entries.
    fn take_for(&self, entries: &[(u64, u64)], written: &mut Written) -> Result<u64, TreeError> {
        let Some((least, _)) = entries.first() else {
            return Ok(0);
        };
        let node = self.slab.alloc()?;
        match number_of(node, self.name()) {
            Ok(number) => {
                written.leaves.push((*least, number));
                Ok(node)
            }
            Err(error) => {
                self.slab.free(node);
                Err(error)
            }
        }
    }
}
