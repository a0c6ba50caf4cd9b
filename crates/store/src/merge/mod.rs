//! Merging of the entries of a memtable into a tree.
//!
//! Steps, each of which is durable before the next: new entries in unused slots of leaves, and new pages;
//! bitmaps that make the entries valid; the checkpoint that names the new root. A crash in between leaves the
//! old root, whose leaves have some of the new entries: they are those of records after the old checkpoint,
//! which the log brings anyway.
//!
//! The log does not bring keys that were removed without a record, as expired ones are. A leaf that has such
//! a key is copied instead, so that the old root keeps it, and counters and leaves are of one checkpoint.
//! Where there is no room for copies, as on a full disk, removed keys are taken out of their leaves in place:
//! a crash before the checkpoint then leaves counters that still have these keys.

mod branches;
mod error;
mod leaves;

use std::sync::{Mutex, PoisonError};

use halocline_media::Medium;
use halocline_pool::Slab;

use crate::fault::{StoreFault, injected};
use crate::leaf::{ENTRIES, LeafPlace, NewEntry};
use crate::memtable::MemTable;
use crate::page_source::PageSource;
use crate::segments::{Freed, SegmentKind, Segments};
use crate::tree::Tree;

use branches::Child;
use error::Result;
use leaves::new_entry;

pub(crate) use branches::MAX_CHILDREN;
pub(crate) use error::MergeError;
pub(crate) use leaves::separator;

/// A merge in progress.
pub(crate) struct Merge<'a> {
    slab: &'a Slab,
    segments: &'a Mutex<Segments>,
    freed: &'a mut Freed,
    /// The pages that were allocated.
    pages: &'a mut Freed,
    /// The store whose tree is merged.
    pub(crate) store: u32,
    /// Leaves with new entries and the words that make them valid.
    words: Vec<(u64, u64)>,
    /// Called after each leaf.
    end_step: &'a dyn Fn(),
    /// True if leaves with removed keys are copied.
    copies_leaves: bool,
}

/// New leaves with their lower separators.
type NewLeaves = Vec<(Vec<u8>, u64)>;

/// The leaves that take the place of one.
struct LeafEdit {
    /// The first key that may be in the old leaf; `None` for the first leaf.
    from: Option<Vec<u8>>,
    /// The new leaves, each with its lower separator; that of the first is the lower separator of the old
    /// leaf.
    leaves: NewLeaves,
}

impl LeafEdit {
    fn share(&self) -> Self {
        Self {
            from: self.from.clone(),
            leaves: self.leaves.clone(),
        }
    }
}

impl<'a> Merge<'a> {
    pub(crate) fn new(
        slab: &'a Slab,
        segments: &'a Mutex<Segments>,
        freed: &'a mut Freed,
        pages: &'a mut Freed,
        end_step: &'a dyn Fn(),
        copies_leaves: bool,
    ) -> Self {
        Self {
            slab,
            segments,
            freed,
            pages,
            store: 0,
            words: Vec::new(),
            end_step,
            copies_leaves,
        }
    }

    pub(crate) fn medium(&self) -> &'a Medium {
        self.slab.medium()
    }

    pub(crate) fn source(&self) -> PageSource<'a> {
        PageSource::of_writer(self.slab, self.segments)
    }

    pub(crate) fn place(&self, offset: u64) -> LeafPlace {
        LeafPlace {
            store: self.store,
            offset,
        }
    }

    pub(crate) fn alloc(&mut self, kind: SegmentKind) -> Result<u64> {
        loop {
            let page = {
                let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
                segments.alloc_page(self.slab, kind)?
            };
            match page {
                Some(page) => {
                    self.pages.pages.push((page, kind));
                    return Ok(page);
                }
                // Without the lock, which commits take.
                None => self.slab.make_room(1)?,
            }
        }
    }

    /// Frees a page as soon as no checkpoint needs it.
    pub(crate) fn free(&mut self, page: u64, kind: SegmentKind) {
        if injected(StoreFault::FreeEarly) {
            let freed = Freed {
                pages: vec![(page, kind)],
                segments: Vec::new(),
            };
            let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
            segments.release(self.slab, &freed);
        } else {
            self.freed.pages.push((page, kind));
        }
    }

    /// Ends a step of the work.
    pub(crate) fn end_step(&self) {
        (self.end_step)();
    }

    /// Merges the entries into the tree and returns the new one. Nothing is valid before
    /// [`publish_leaves`](Self::publish_leaves).
    pub(crate) fn apply(&mut self, tree: &Tree, table: &MemTable) -> Result<MergedTree> {
        self.store = tree.store;
        let mut edits = Vec::new();
        let mut entries = table.iter().peekable();
        while let Some((first, _)) = entries.peek() {
            let Some(range) = tree.leaf_of(&self.source(), Some(first))? else {
                break;
            };
            let mut of_leaf = Vec::new();
            while let Some(entry) = entries.next_if(|(key, _)| range.to.as_deref().is_none_or(|to| *key < to))
            {
                of_leaf.push(entry);
            }
            if let Some(leaves) = self.edit_leaf(range.leaf, range.to.is_none(), &of_leaf, table)? {
                self.free(range.leaf, SegmentKind::Leaves);
                edits.push(LeafEdit {
                    from: range.from,
                    leaves,
                });
            }
            (self.end_step)();
        }
        // A tree without leaves takes all that is left.
        let rest: Vec<NewEntry> = entries.filter_map(|(key, entry)| new_entry(key, entry)).collect();
        if !rest.is_empty() {
            let leaves = self.write_leaves(&rest, ENTRIES)?;
            return self.new_root(
                leaves
                    .into_iter()
                    .map(|(from, page)| (from, Child::Leaf(page)))
                    .collect(),
            );
        }
        let Some(root) = &tree.root else {
            return Ok(MergedTree::Unchanged);
        };
        if edits.is_empty() {
            return Ok(MergedTree::Unchanged);
        }
        let children = self.edit_branch(root, &tree.expected_root(), &edits)?;
        match children.len() {
            0 => Ok(MergedTree::Changed(Tree::new(self.store, None))),
            _ => self.new_root(
                children
                    .into_iter()
                    .map(|(from, branch)| (from, Child::Branch(branch)))
                    .collect(),
            ),
        }
    }

    /// Makes new entries of leaves valid, once they are durable.
    pub(crate) fn publish_leaves(&mut self) -> Result<()> {
        let medium = self.medium();
        if !injected(StoreFault::BitmapFirst) {
            medium.fence()?;
        }
        for &(page, word) in &self.words {
            medium.store_u64(page, word);
            medium.flush(page, 8);
        }
        Ok(())
    }
}

/// The tree after a merge.
pub(crate) enum MergedTree {
    /// The root is the same; leaves may have changed.
    Unchanged,
    Changed(Tree),
}
