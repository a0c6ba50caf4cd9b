//! Bulk loading of an empty tree.
//!
//! All leaves are written and linked outside the tree. When they are durable, one store to the root
//! makes the first of them the tree's first leaf. The leaf that the empty tree had is freed.

use crate::TreeError;
use crate::entry_counter::EntryCounter;
use crate::inner::InnerNodes;
use crate::sorted_input::{SortedInput, filled};

use super::fault::{HybridFault, injected};
use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::tree::{HybridTree, number_of, offset_of};

/// The leaves written so far: the least key and the number of each.
type LoadedLeaves = Vec<(u64, u32)>;

impl<L: LeafFormat> HybridTree<L> {
    pub(crate) fn load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError> {
        self.write_gate.check(&self.slab)?;
        self.build_all()?;
        if self.is_empty() {
            self.forget_checkpoint()?;
            self.free_empty_leaves()?;
        }
        let first = self.inner.find(0).leaf;
        self.intact(first)?;
        if !self.is_empty() || self.inner.find(u64::MAX).leaf != first {
            return Err(TreeError::NotEmpty {
                name: self.name().to_owned(),
                entries: self.entries(),
            });
        }
        let mut entries = SortedInput::new(entries);
        let mut written = LoadedLeaves::new();
        let result = self.write_leaves(&mut entries, filled(L::ENTRIES, fill), &mut written);
        if written.is_empty() {
            return result.map(|()| 0);
        }
        let inner = result.and_then(|()| Ok(InnerNodes::build(&written)?));
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
        // All leaves are durable and linked; this store replaces the empty tree by them.
        medium.store_u64(root, offset_of(written[0].1));
        medium.flush(root, 8);
        let result = self.write_gate.keep(medium.fence());
        self.inner = inner;
        self.count = EntryCounter::new(entries.taken());
        result?;
        self.slab.free(offset_of(first));
        self.renew_checkpoint();
        Ok(entries.taken())
    }

    /// Writes all leaves. They are durable on return.
    fn write_leaves(
        &self,
        entries: &mut SortedInput<'_>,
        fill: usize,
        written: &mut LoadedLeaves,
    ) -> Result<(), TreeError> {
        let medium = self.slab.medium();
        let mut pending = entries.next(fill)?;
        let mut offset = self.take_for(&pending, written)?;
        while !pending.is_empty() {
            // A leaf links to the next one, which must therefore be allocated first.
            let following = entries.next(fill)?;
            let next = self.take_for(&following, written)?;
            L::write_new(LeafRef { medium, offset }, pending.into_iter(), next, true);
            (pending, offset) = (following, next);
        }
        if injected(HybridFault::LoadUnfenced) {
            return Ok(());
        }
        self.write_gate.keep(medium.fence())
    }

    /// Allocates a node for `entries`; returns 0 if there are none.
    fn take_for(&self, entries: &[(u64, u64)], written: &mut LoadedLeaves) -> Result<u64, TreeError> {
        let Some((least, _)) = entries.first() else {
            return Ok(0);
        };
        let node = self.write_gate.alloc(&self.slab)?;
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
