//! Relocates pages out of the segments that a checkpoint vacates, so that their space can be returned to the
//! pool.
//!
//! Branches are copied on write: the previous checkpoint's pages stay intact until the new checkpoint is
//! durable. A damaged leaf stays where it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::branch::{BranchRef, Children, ExpectedBranch, TreeBranch};
use crate::layout::{LEAF, SEGMENT};
use crate::merge::{Merge, MergeError};
use crate::segments::SegmentKind;
use crate::tree::{Tree, load_leaf};

/// Returns true if a page is in one of these segments.
fn is_in(segments: &BTreeSet<u64>, page: u64) -> bool {
    let segment = segments.range(..=page).next_back();
    segment.is_some_and(|segment| page - segment < SEGMENT)
}

impl Merge<'_> {
    /// Copies the tree's pages that lie in `vacated` to other segments and returns the new tree. It becomes
    /// valid with the next checkpoint. O(branches).
    pub(crate) fn vacate(&mut self, tree: &Tree, vacated: &BTreeSet<u64>) -> Result<Tree, MergeError> {
        self.store = tree.store;
        let root = match &tree.root {
            Some(root) => self.vacate_branch(root, &tree.expected_root(), vacated)?,
            None => return Ok(tree.clone()),
        };
        Ok(match &tree.root {
            Some(old) if Arc::ptr_eq(old, &root) => tree.clone(),
            _ => Tree::new(tree.store, Some(root)),
        })
    }

    fn vacate_branch(
        &mut self,
        at: &Arc<BranchRef>,
        expected: &ExpectedBranch<'_>,
        vacated: &BTreeSet<u64>,
    ) -> Result<Arc<BranchRef>, MergeError> {
        let medium = self.medium();
        let branch = at.get(&self.source(), expected)?;
        let (children, has_changed) = match &branch.children {
            Children::Leaves(leaves) => {
                let mut pages = Vec::with_capacity(leaves.len());
                for leaf in leaves {
                    pages.push(if is_in(vacated, *leaf) {
                        self.copy_leaf(*leaf)?
                    } else {
                        *leaf
                    });
                }
                let has_changed = pages != *leaves;
                (Children::Leaves(pages), has_changed)
            }
            Children::Branches(branches) => {
                let mut moved = Vec::with_capacity(branches.len());
                for (child, below) in branches.iter().enumerate() {
                    moved.push(self.vacate_branch(below, &expected.child(branch, child), vacated)?);
                }
                let has_changed = moved
                    .iter()
                    .zip(branches)
                    .any(|(new, old)| !Arc::ptr_eq(new, old));
                (Children::Branches(moved), has_changed)
            }
        };
        if !has_changed && !is_in(vacated, at.page) {
            return Ok(Arc::clone(at));
        }
        let separators = branch.separators();
        let page = self.alloc(SegmentKind::Branches)?;
        let moved = TreeBranch::new(&separators, children, branch.level());
        let bytes = moved.page(page);
        medium.store(page, &bytes);
        medium.flush(page, bytes.len() as u64);
        self.free(at.page, SegmentKind::Branches);
        Ok(BranchRef::new(page, moved))
    }

    /// Copies a leaf. Returns the page of the copy, or that of the leaf if it is damaged.
    fn copy_leaf(&mut self, page: u64) -> Result<u64, MergeError> {
        let medium = self.medium();
        let Ok(leaf) = load_leaf(medium, self.place(page)) else {
            tracing::warn!(page, "a damaged leaf stays where it is");
            return Ok(page);
        };
        let copy = self.alloc(SegmentKind::Leaves)?;
        medium.store(copy, leaf.moved_to(self.place(copy)).as_bytes());
        medium.flush(copy, LEAF);
        self.free(page, SegmentKind::Leaves);
        self.end_step();
        Ok(copy)
    }
}
