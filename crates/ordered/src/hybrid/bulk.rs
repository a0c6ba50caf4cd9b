//! Loading an empty tree with entries that come in order.
//!
//! All leaves are written and linked to each other beside the tree; when they are durable, one store to the root makes the tree begin
//! with the first of them, and the one leaf it had is free.

use crate::TreeError;
use crate::count::Count;
use crate::inner::Inner;
use crate::sorted::{Sorted, filled};

use super::leaves::{At, Leaves};
use super::mistake::{Mistake, made};
use super::tree::{Hybrid, number_of, offset_of};

/// The leaves that have been written so far: the least key of each, and its number.
type Written = Vec<(u64, u32)>;

impl<L: Leaves> Hybrid<L> {
    pub(crate) fn load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError> {
        self.latch.check(&self.slab)?;
        let first = self.inner.find(0).leaf;
        self.intact(first)?;
        if !self.is_empty() || self.inner.find(u64::MAX).leaf != first {
            return Err(TreeError::NotEmpty {
                name: self.name().to_owned(),
                entries: self.entries(),
            });
        }
        let mut entries = Sorted::new(entries);
        let mut written = Written::new();
        let result = self.write_leaves(&mut entries, filled(L::ENTRIES, fill), &mut written);
        if written.is_empty() {
            return result.map(|()| 0);
        }
        let inner = result.and_then(|()| Ok(Inner::build(&written)?));
        let inner = match inner {
            Ok(inner) => inner,
            Err(error) => {
                for (_, leaf) in &written {
                    self.slab.free(offset_of(*leaf));
                }
                return Err(error);
            }
        };
        let (medium, root) = (self.slab.medium(), self.slab.root());
        medium.store_u64(root, offset_of(written[0].1));
        medium.flush(root, 8);
        let result = self.latch.keep(medium.fence());
        self.inner = inner;
        self.count = Count::new(entries.taken());
        result?;
        self.slab.free(offset_of(first));
        Ok(entries.taken())
    }

    /// Writes all leaves; they are durable on return.
    fn write_leaves(
        &self,
        entries: &mut Sorted<'_>,
        fill: usize,
        written: &mut Written,
    ) -> Result<(), TreeError> {
        let medium = self.slab.medium();
        let mut pending = entries.next(fill)?;
        let mut offset = self.take_for(&pending, written)?;
        while !pending.is_empty() {
            // The next one's place must be known before this one is written, as it leads there.
            let following = entries.next(fill)?;
            let next = self.take_for(&following, written)?;
            L::write_new(At { medium, offset }, pending.into_iter(), next, true);
            (pending, offset) = (following, next);
        }
        if made(Mistake::LoadUnfenced) {
            return Ok(());
        }
        self.latch.keep(medium.fence())
    }

    /// A node for entries; none, that is 0, if there are no entries.
    fn take_for(&self, entries: &[(u64, u64)], written: &mut Written) -> Result<u64, TreeError> {
        let Some((least, _)) = entries.first() else {
            return Ok(0);
        };
        let node = self.latch.alloc(&self.slab)?;
        match number_of(node, self.name()) {
            Ok(number) => {
                written.push((*least, number));
                Ok(node)
            }
            Err(error) => {
                self.slab.free(node);
                Err(error)
            }
        }
    }
}
