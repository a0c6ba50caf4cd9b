//! Copies of lists of layout `packed` in DRAM: those of some levels, or those with the most rows.
//!
//! An image continues the index's offsets: its lists stand after the last byte of the index, children before
//! parents as everywhere, so a link is still the distance back to the child, whether that is a copy or not. A
//! search that comes to a copy goes on in copies without looking anything up, and reads the index itself from
//! the first list on that has none. The traversal probability of a list is its share of the rows (section 2.2
//! of the paper). A list never has more rows than its parent, so the lists above any least probability form a
//! tree.

use crate::packed::node::{InnerList, LINK_LEN, LeafList, ListNode, PackedTree, SPLIT, SPLIT_HEADER};
use crate::packed::point_batch::FieldCoefficients;
use crate::packed::shortcuts::{ShortcutForm, Shortcuts};
use crate::place::list_copier::{
    CopyControl, CopySelection, CopyStop, ImageParts, ListCopier, copy_lists, copy_most_probable, fingerprint,
};
use crate::view::{Image, PAD, View, count_of};
use crate::{ElfError, Result};
use halocline_cache::AgedCounts;
use halocline_media::{Bytes, HugeVec};
use std::sync::Arc;

/// Divisor: a budget below this part of the index holds only a small share of its lists.
const SMALL_BUDGET_DIVISOR: u64 = 2;

/// A copy operation: measures the image, then writes it.
struct PackedCopier<'a, 'c, B> {
    tree: PackedTree<'a, B>,
    selection: CopySelection<'c>,
    /// First offset of the image.
    from: usize,
    /// Bytes of a link.
    link_len: usize,
    /// Bytes so far, and their limit.
    len: u64,
    most: u64,
    /// True if a list behind the shortcuts is copied, so that the shortcuts must lead to copies.
    deep: bool,
    control: &'c dyn CopyControl,
    /// Fingerprint of the lists copied so far.
    fingerprint: u64,
    bytes: Option<HugeVec<u8>>,
    /// Offsets of the children of the open lists, copies or not.
    children: Vec<usize>,
    /// The shortcuts of the image, if they are of form direct.
    direct: Option<Shortcuts>,
}

/// Returns the image of these lists and of the shortcuts; `None` if it exceeds `most` bytes or `control` does
/// not approve it.
///
/// # Errors
/// [`ElfError::Damaged`], [`ElfError::Memory`], [`ElfError::Cancelled`].
pub(crate) fn make<B: Bytes>(
    tree: PackedTree<'_, B>,
    selection: CopySelection<'_>,
    most: u64,
    control: &dyn CopyControl,
) -> Result<Option<ImageParts>> {
    copy_lists(PackedCopier::new(tree, selection, most, control), control)
}

/// Returns the image of the most probable lists of at most `most` bytes; `None` if there is no room for the
/// root.
///
/// # Errors
/// As [`make`].
pub(crate) fn probable<B: Bytes>(
    tree: PackedTree<'_, B>,
    counts: Option<&AgedCounts>,
    most: u64,
    control: &dyn CopyControl,
) -> Result<Option<ImageParts>> {
    let levels = levels_worth(tree, most);
    let floor = 1.0 / tree.geometry().rows as f64;
    let copier = |selection| PackedCopier::new(tree, selection, most, control);
    copy_most_probable(floor, (levels, counts), copier, control)
}

/// Returns the number of levels whose lists may be copied. Shortcuts that lead to copies have form direct and
/// hold only offsets, whereas quartered ones also hold row counts of every list: these are not given up for
/// copies of a few lists. (Finding the few would also read the whole index.)
fn levels_worth<B: Bytes>(tree: PackedTree<'_, B>, most: u64) -> usize {
    let shortcuts = &tree.header.shortcuts;
    match shortcuts.form {
        ShortcutForm::Quartered if most < tree.header.len / SMALL_BUDGET_DIVISOR => shortcuts.dims(),
        _ => usize::MAX,
    }
}

impl<'a, 'c, B: Bytes> PackedCopier<'a, 'c, B> {
    fn new(
        tree: PackedTree<'a, B>,
        selection: CopySelection<'c>,
        most: u64,
        control: &'c dyn CopyControl,
    ) -> Self {
        let from = (tree.header.len as usize).next_multiple_of(64);
        let end = from as u64 + most.min(2 * tree.header.len + (1 << 20));
        Self {
            tree,
            selection,
            from,
            link_len: (64 - end.leading_zeros() as usize).div_ceil(8),
            len: 0,
            most,
            deep: false,
            control,
            fingerprint: 0,
            bytes: None,
            children: vec![],
            direct: None,
        }
    }

    /// Returns the shortcuts of the image: of form direct if they lead to copies.
    fn shortcuts(&self) -> Shortcuts {
        let old = &self.tree.header.shortcuts;
        let end = self.from as u64 + self.most.min(2 * self.tree.header.len + (1 << 20));
        let direct = || Shortcuts::new(self.tree.geometry(), old.dims(), ShortcutForm::Direct, end);
        let mut shortcuts = if self.deep {
            direct().unwrap_or_default()
        } else {
            old.clone()
        };
        shortcuts.at = self.from;
        shortcuts
    }

    fn add(&mut self, len: u64) -> Result<(), CopyStop> {
        self.len += len;
        if self.len > self.most {
            return Err(CopyStop::Full);
        }
        Ok(())
    }

    /// Returns the offset of the next copy.
    fn position(&self) -> usize {
        self.from + self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }

    /// Copies the list at `at` after its descendants, if it is selected. Returns the offset of the copy, or
    /// else that of the list. `place` is the slot index of its prefix among the shortcuts.
    fn list(&mut self, at: usize, depth: usize, place: u64) -> Result<usize, CopyStop> {
        let tree = self.tree;
        // Checked before the list is read, as most lists are below the last copied level.
        if depth >= self.selection.levels {
            return Ok(at);
        }
        self.control.check()?;
        let node = tree.node(at, depth)?;
        // Copies are reached from a copy of the root only, so it is always copied.
        if depth > 0 && self.probability(at, &node) < self.selection.least {
            return Ok(at);
        }
        self.fingerprint = fingerprint(self.fingerprint, at);
        let new = match node {
            ListNode::Inner(inner) => self.inner(&inner, depth, place)?,
            ListNode::Leaf(leaf) => self.leaf(&leaf, at)?,
        };
        if depth == tree.header.shortcuts.dims() && depth > 0 {
            self.deep = true;
            if let (Some(direct), Some(bytes)) = (&self.direct, &mut self.bytes) {
                let from = direct.offset(place as usize) - self.from;
                bytes[from..from + direct.unit].copy_from_slice(&new.to_le_bytes()[..direct.unit]);
            }
        }
        Ok(new)
    }

    fn probability(&self, at: usize, node: &ListNode) -> f64 {
        let share = node.rows() as f64 / self.tree.geometry().rows as f64;
        match self.selection.counts {
            None => share,
            Some(counts) => f64::from(counts.probability(count_of(at, counts), share as f32)),
        }
    }

    fn inner(&mut self, inner: &InnerList, depth: usize, place: u64) -> Result<usize, CopyStop> {
        let tree = self.tree;
        let base_len = tree.geometry().base_len;
        let len = base_len + (inner.links - inner.at) + inner.entries * self.link_len;
        self.add(len as u64)?;
        let open = self.children.len();
        tree.view.touch(inner.values, inner.end() - inner.values);
        let stride = tree.header.shortcuts.stride(depth);
        for k in 0..inner.entries {
            let child = inner.child(tree.view, k);
            let new = match child {
                0 => 0,
                _ => {
                    let code = inner.value(tree.view, k);
                    self.list(child, depth + 1, place.wrapping_add(code.wrapping_mul(stride)))?
                }
            };
            if self.bytes.is_some() {
                self.children.push(new);
            }
        }
        let new = self.position() + base_len;
        if let Some(bytes) = &mut self.bytes {
            let head = bytes.len() + base_len;
            copy(tree.view, inner.at - base_len, inner.links, bytes);
            bytes[head] = bytes[head] & !LINK_LEN | ((self.link_len - 1) as u8) << 2;
            for &child in &self.children[open..] {
                let distance = if child == 0 { 0 } else { (new - child) as u64 };
                bytes.extend_from_slice(&distance.to_le_bytes()[..self.link_len]);
            }
        }
        self.children.truncate(open);
        Ok(new)
    }

    fn leaf(&mut self, leaf: &LeafList, at: usize) -> Result<usize, CopyStop> {
        let view = self.tree.view;
        let base_len = self.tree.geometry().base_len;
        let values = leaf.rows * leaf.value_len;
        let split = !self.selection.records && leaf.value_len > 0;
        let len = if split {
            SPLIT_HEADER + values
        } else {
            leaf.end() - at
        };
        self.add((base_len + len) as u64)?;
        let new = self.position() + base_len;
        if let Some(bytes) = &mut self.bytes {
            if split {
                copy(view, at - base_len, at, bytes);
                bytes.push(SPLIT);
                bytes.extend_from_slice(&(leaf.rows as u32).to_le_bytes());
                bytes.extend_from_slice(&(leaf.records.at as u64).to_le_bytes());
                copy(view, leaf.values, leaf.values + values, bytes);
            } else {
                copy(view, at - base_len, leaf.end(), bytes);
            }
        }
        Ok(new)
    }
}

impl<B: Bytes> ListCopier for PackedCopier<'_, '_, B> {
    fn measure(&mut self) -> Result<(), CopyStop> {
        let root = self.list(self.tree.header.root as usize, 0, 0)?;
        if root < self.from {
            return Err(CopyStop::Full);
        }
        let shortcuts = self.shortcuts();
        self.add(shortcuts.end().saturating_sub(shortcuts.at as u64) + PAD as u64)
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn write(mut self) -> Result<ImageParts, CopyStop> {
        let (tree, from) = (self.tree, self.from);
        let mut bytes = HugeVec::with_capacity(self.len as usize).map_err(ElfError::Memory)?;
        let shortcuts = self.shortcuts();
        let old = &tree.header.shortcuts;
        if self.deep && shortcuts.dims() > 0 {
            for place in 0..shortcuts.places() {
                let word = old.word(tree.view, old.offset(place));
                bytes.extend_from_slice(&word.to_le_bytes()[..shortcuts.unit]);
            }
            self.direct = Some(shortcuts.clone());
        } else {
            copy(tree.view, old.at, old.end() as usize, &mut bytes);
        }
        self.len = 0;
        self.bytes = Some(bytes);
        let root = self.list(tree.header.root as usize, 0, 0)?;
        let mut bytes = self.bytes.take().unwrap_or_default();
        bytes.extend_from_slice(&[0; PAD]);
        let mut header = tree.header.clone();
        header.root = root as u64;
        header.nodes_end = (from + bytes.len() - PAD) as u64;
        header.coefficients = FieldCoefficients::all(&header.geometry, &shortcuts);
        header.shortcuts = shortcuts;
        let bytes = Arc::new(bytes);
        Ok((Arc::new(Image { from, bytes }), Arc::new(header)))
    }
}

/// Appends bytes of the index to the image.
fn copy<B: Bytes>(view: View<'_, B>, from: usize, to: usize, bytes: &mut HugeVec<u8>) {
    let len = to.saturating_sub(from);
    view.touch(from, len);
    if let Some(part) = view.slice(from, len) {
        bytes.extend_from_slice(part);
    } else {
        bytes.resize(bytes.len() + len);
    }
}
