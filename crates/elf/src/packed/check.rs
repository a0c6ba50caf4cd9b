//! Verification of every invariant of layout `packed`.

use crate::check::SeenRows;
use crate::error::ElfError;
use crate::geometry::Buckets;
use crate::packed::node::{InnerList, LeafList, ListNode, PackedTree, SMALL_LEAF};
use crate::packed::shortcut_builder::{PlaceContent, ShortcutBuilder, place};
use crate::packed::shortcuts::ShortcutForm;
use crate::packed::subranges::IRREGULAR;
use crate::{Result, Tid};
use halocline_media::Bytes;

/// Visits every node once, in the order in which they are stored.
pub(crate) fn check<B: Bytes>(tree: PackedTree<'_, B>) -> Result<()> {
    let header = tree.header;
    let mut seen = SeenRows::new(header.geometry.rows);
    let shortcuts = &header.shortcuts;
    let quarters = (shortcuts.form == ShortcutForm::Quartered).then_some(shortcuts.quarters);
    let mut check = PackedCheck {
        tree,
        seen: &mut seen,
        places: ShortcutBuilder::new(&header.geometry, shortcuts.dims(), quarters),
        codes: vec![],
        last: vec![],
        rows: 0,
    };
    let mut end = header.nodes_start as usize;
    if header.geometry.rows > 0 {
        end = check.subtree(header.root as usize, 0, end)?.1;
    }
    if end as u64 != header.nodes_end {
        return Err(ElfError::damaged(end, "the root is not the last list"));
    }
    let (places, _) = check.places.bytes(&header.shortcuts, header.nodes_end);
    if tree.view.slice(end, places.len()) != Some(&places) {
        return Err(ElfError::damaged(end, "the shortcuts do not lead to the lists"));
    }
    seen.finish()
}

struct PackedCheck<'a, 's, B> {
    tree: PackedTree<'a, B>,
    seen: &'s mut SeenRows,
    /// The expected shortcuts.
    places: ShortcutBuilder,
    /// Codes on the path to the list being checked.
    codes: Vec<u64>,
    /// Tuple and TID of the row before.
    last: Vec<u64>,
    /// Rows of the lists before.
    rows: u64,
}

impl<B: Bytes> PackedCheck<'_, '_, B> {
    /// Checks the subtree whose top list is at `at` and whose first byte must be `start`. Returns its rows
    /// and its end.
    fn subtree(&mut self, at: usize, depth: usize, start: usize) -> Result<(u64, usize)> {
        let node = self.tree.node(at, depth)?;
        if self.tree.geometry().is_clustered() && self.tree.base(at) != self.rows {
            return Err(ElfError::damaged(at, "the number of a list's first row is wrong"));
        }
        if depth == self.places.dims && depth > 0 {
            let place = place(self.tree.geometry(), self.codes.iter().copied());
            let counts = match (self.places.quarters, &node) {
                (Some(quarters), ListNode::Leaf(leaf)) if leaf.rows <= SMALL_LEAF => {
                    let code = |k| self.tree.view.uint(leaf.values + k, 1);
                    quarters.counts((0..leaf.rows).map(code))
                }
                _ => IRREGULAR,
            };
            self.places.set(place, PlaceContent::List(at as u64, counts));
        }
        match node {
            ListNode::Leaf(leaf) => {
                if at != start + self.tree.geometry().base_len {
                    return Err(ElfError::damaged(at, "a list does not follow the one before it"));
                }
                self.leaf(&leaf, at, depth)?;
                Ok((leaf.rows as u64, leaf.end()))
            }
            ListNode::Inner(inner) => self.inner(&inner, depth, start),
        }
    }

    fn inner(&mut self, inner: &InnerList, depth: usize, start: usize) -> Result<(u64, usize)> {
        let (mut rows, mut end, mut children) = (0, start, 0_u64);
        let mut before = None;
        for k in 0..inner.entries {
            let child = inner.child(self.tree.view, k);
            let value = inner.value(self.tree.view, k);
            if child == 0 {
                if inner.dense_from.is_some()
                    && self
                        .tree
                        .view
                        .uint(inner.links + k * inner.link_len, inner.link_len)
                        == 0
                {
                    continue;
                }
                return Err(ElfError::damaged(inner.at, "a link leads nowhere"));
            }
            if before.is_some_and(|before| before >= value) || value > self.tree.geometry().max_codes[depth] {
                return Err(ElfError::damaged(
                    inner.at,
                    "the values of a list are not ascending codes",
                ));
            }
            before = Some(value);
            self.codes.push(value);
            let (below, after) = self.subtree(child, depth + 1, end)?;
            self.codes.pop();
            rows += below;
            end = after;
            children += 1;
        }
        if end + self.tree.geometry().base_len != inner.at {
            return Err(ElfError::damaged(inner.at, "a list does not follow its children"));
        }
        if rows != inner.rows || children == 0 {
            return Err(ElfError::damaged(inner.at, "a list's number of rows is wrong"));
        }
        Ok((rows, inner.end()))
    }

    fn leaf(&mut self, leaf: &LeafList, at: usize, depth: usize) -> Result<()> {
        let view = self.tree.view;
        let geometry = self.tree.geometry();
        if leaf.rows == 0 {
            return Err(ElfError::damaged(at, "a list is empty"));
        }
        for k in 0..leaf.rows {
            let record = leaf.records_from(k).at;
            let mut row = self.codes.clone();
            if leaf.value_len > 0 {
                row.push(view.uint(leaf.values + k * leaf.value_len, leaf.value_len));
            }
            row.extend(
                geometry
                    .fields
                    .iter()
                    .skip(depth + 1)
                    .map(|f| view.u64(record + f.byte) >> f.shift & f.mask),
            );
            let tid = if geometry.is_clustered() {
                self.rows as Tid
            } else {
                view.u32(record) & geometry.tid_mask
            };
            self.rows += 1;
            if row.iter().zip(&geometry.max_codes).any(|(code, max)| code > max) {
                return Err(ElfError::damaged(
                    record,
                    "a code is above its dimension's maximum",
                ));
            }
            if let Some(Buckets { depth, shift }) = geometry.buckets
                && row[depth] != row[depth + 1] >> shift
            {
                return Err(ElfError::damaged(record, "a code is not of its list's bucket"));
            }
            let (mut used, len) = (geometry.record_bits[depth], leaf.records.len);
            if let Some(quarters) = self.places.quarters.filter(|_| depth == self.places.dims) {
                let low = quarters.low;
                if view.u64(record + low.byte) >> low.shift & low.mask != row[depth] & low.mask {
                    return Err(ElfError::damaged(
                        record,
                        "a record has not the lowest bits of its value",
                    ));
                }
                used = quarters.record_bits();
            }
            if used % 8 != 0 && view.u8(record + len - 1) >> (used % 8) != 0 {
                return Err(ElfError::damaged(record, "a record has bits beyond its fields"));
            }
            if depth < self.places.dims {
                let place = place(geometry, row[..self.places.dims].iter().copied());
                self.places.set(place, PlaceContent::Above);
            }
            row.push(u64::from(tid));
            if !self.last.is_empty() && self.last >= row {
                return Err(ElfError::damaged(record, "the rows are not in order"));
            }
            self.last = row;
            self.seen.add(tid, record)?;
        }
        Ok(())
    }
}
