//! The nodes of layout `packed`, decoded.
//!
//! Nodes are stored in post-order: the children of a list directly before it, in the order of their values,
//! so that a link is the distance back to the child and no subtree knows where in the file it lies. A node is
//! one of
//! - *leaf list*, `n` (1 byte, 1..=127) or `0x80, n` (u32): `n` values of its dimension, then `n` records; a
//!   value may occur several times. Below the last dimension there are no values: only TIDs.
//! - *inner list*, `0x81 | dense << 1 | (link length - 1) << 2`, entries (u32), rows below (u32); then either
//!   the smallest value (dense: entry `k` stands for value `min + k`, link 0 says that no row has it) or the
//!   values; then the links.
//!
//! In an image (image.rs) there is also the *split leaf list*, `0xe0`, `n` (u32), the offset of its records
//! (u64), and the values: a copy without the records.
//!
//! In a clustered index the number of its first row stands before each list, and records have no TIDs: below
//! the last dimension a list is only its number of rows.

use crate::geometry::RecordGeometry;
use crate::header::ElfHeader;
use crate::kernel::{CodeRange, Kernel, Records};
use crate::view::View;
use crate::{ElfError, Result};
use halocline_media::Bytes;
use std::ops::Range;

pub(crate) const SMALL_LEAF: usize = 127;
pub(crate) const LARGE_LEAF: u8 = 0x80;
pub(crate) const INNER: u8 = 0x81;
pub(crate) const DENSE: u8 = 0x02;
/// Bits of an inner list's kind that give the length of its links.
pub(crate) const LINK_LEN: u8 = 7 << 2;
const UNUSED: u8 = 0x60;
pub(crate) const INNER_HEADER: usize = 9;
/// Kind of a leaf list whose records are elsewhere; only in images.
pub(crate) const SPLIT: u8 = 0xe0;
/// Bytes before its values: kind, rows (u32), offset of the records (u64).
pub(crate) const SPLIT_HEADER: usize = 13;

/// A list whose entries are rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafList {
    pub(crate) rows: usize,
    /// Offset of the values.
    pub(crate) values: usize,
    /// Bytes of a value; 0 below the last dimension.
    pub(crate) value_len: usize,
    pub(crate) records: Records,
}

/// A list whose entries are lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InnerList {
    pub(crate) at: usize,
    pub(crate) entries: usize,
    /// Rows in the subtree.
    pub(crate) rows: u64,
    /// `Some(smallest value)` if the position is the value.
    pub(crate) dense_from: Option<u64>,
    /// Offset of the values, unless dense.
    pub(crate) values: usize,
    pub(crate) value_len: usize,
    /// Offset of the links.
    pub(crate) links: usize,
    pub(crate) link_len: usize,
}

/// A decoded list: its parts lie within the nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ListNode {
    Leaf(LeafList),
    Inner(InnerList),
}

impl ListNode {
    /// Returns the number of rows in the subtree.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.rows as u64,
            Self::Inner(inner) => inner.rows,
        }
    }
}

/// The nodes of an open index.
#[derive(Debug)]
pub(crate) struct PackedTree<'a, B> {
    pub(crate) view: View<'a, B>,
    pub(crate) header: &'a ElfHeader,
}

impl<B> Clone for PackedTree<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for PackedTree<'_, B> {}

impl<'a, B: Bytes> PackedTree<'a, B> {
    pub(crate) fn geometry(&self) -> &'a RecordGeometry {
        &self.header.geometry
    }

    /// Decodes the node at `at`, whose values are of dimension `depth <= dims`.
    #[inline(always)]
    pub(crate) fn node(&self, at: usize, depth: usize) -> Result<ListNode> {
        let view = self.view;
        let value_len = self.geometry().levels[depth].value_len;
        let kind = view.u8(at);
        if kind <= LARGE_LEAF {
            let (rows, head) = if kind == LARGE_LEAF {
                (view.u32(at + 1) as usize, 5)
            } else {
                (usize::from(kind), 1)
            };
            let values = at + head;
            let records = Records {
                at: values + rows * value_len,
                len: self.geometry().levels[depth].record_len,
            };
            self.inside(at, records.at + rows * records.len)?;
            view.touch(at, head + rows * value_len);
            return Ok(ListNode::Leaf(LeafList {
                rows,
                values,
                value_len,
                records,
            }));
        }
        if kind == SPLIT && at as u64 >= self.header.len {
            return self.split_leaf(at, depth);
        }
        let entries = view.u32(at + 1) as usize;
        let rows = u64::from(view.u32(at + 5));
        let link_len = usize::from(kind >> 2 & 7) + 1;
        let values = at + INNER_HEADER;
        let dense = kind & DENSE != 0;
        let links = values + if dense { value_len } else { entries * value_len };
        self.inside(at, links + entries * link_len)?;
        if kind & UNUSED != 0 || value_len == 0 {
            return Err(ElfError::damaged(at, "a list is of no known kind"));
        }
        view.touch(at, values - at);
        let dense_from = dense.then(|| view.uint(values, value_len));
        Ok(ListNode::Inner(InnerList {
            at,
            entries,
            rows,
            dense_from,
            values,
            value_len,
            links,
            link_len,
        }))
    }

    #[inline(never)]
    fn split_leaf(&self, at: usize, depth: usize) -> Result<ListNode> {
        let level = &self.geometry().levels[depth];
        let rows = self.view.u32(at + 1) as usize;
        self.inside(at, at + SPLIT_HEADER + rows * level.value_len)?;
        Ok(ListNode::Leaf(LeafList {
            rows,
            values: at + SPLIT_HEADER,
            value_len: level.value_len,
            records: Records {
                at: self.view.u64(at + 5) as usize,
                len: level.record_len,
            },
        }))
    }

    /// Returns the first row of the list at `at`; 0 unless the index is clustered.
    #[inline(always)]
    pub(crate) fn base(&self, at: usize) -> u64 {
        let len = self.geometry().base_len;
        let from = at.wrapping_sub(len);
        self.view.touch(from, len);
        if len == 0 { 0 } else { self.view.uint(from, len) }
    }

    /// Returns the rows below the entries `first..end` of a list of dimension `depth` in a clustered index;
    /// reads two children.
    pub(crate) fn rows_below(
        &self,
        inner: &InnerList,
        depth: usize,
        first: usize,
        end: usize,
    ) -> Result<Range<u64>> {
        let child = |k| {
            self.view.touch(inner.links + k * inner.link_len, inner.link_len);
            Some(inner.child(self.view, k)).filter(|&child| child != 0)
        };
        let Some(top) = (first..end).find_map(child) else {
            return Ok(0..0);
        };
        let last = (first..end).rev().find_map(child).unwrap_or(top);
        self.view.prefetch(top);
        let end = self.base(last) + self.node(last, depth + 1)?.rows();
        let start = self.base(top);
        if start > end {
            return Err(ElfError::damaged(
                inner.at,
                "the rows of a list's children descend",
            ));
        }
        Ok(start..end)
    }

    #[inline(always)]
    fn inside(&self, at: usize, end: usize) -> Result<()> {
        if end as u64 <= self.header.nodes_end {
            Ok(())
        } else {
            Err(beyond(at))
        }
    }
}

#[cold]
#[inline(never)]
fn beyond(at: usize) -> ElfError {
    ElfError::damaged(at, "a list reaches beyond the nodes")
}

impl InnerList {
    /// Returns the offset of child `k`; 0 if a dense list has none there (0 is the header's offset, never a
    /// node's).
    #[inline(always)]
    pub(crate) fn child<B: Bytes>(&self, view: View<'_, B>, k: usize) -> usize {
        let distance = view.uint(self.links + k * self.link_len, self.link_len) as usize;
        if distance == 0 || distance >= self.at {
            0
        } else {
            self.at - distance
        }
    }

    /// Returns the value of entry `k`.
    #[inline(always)]
    pub(crate) fn value<B: Bytes>(&self, view: View<'_, B>, k: usize) -> u64 {
        match self.dense_from {
            Some(min) => min.wrapping_add(k as u64),
            None => view.uint(self.values + k * self.value_len, self.value_len),
        }
    }

    /// Returns the offset of the first byte after the node.
    pub(crate) fn end(&self) -> usize {
        self.links + self.entries * self.link_len
    }

    /// Returns the entries `first..end` whose values lie in `wanted`.
    #[inline(always)]
    pub(crate) fn interval<B: Bytes, K: Kernel>(
        &self,
        view: View<'_, B>,
        wanted: CodeRange,
    ) -> (usize, usize) {
        match self.dense_from {
            Some(min) => {
                let end = self.entries as u64;
                let first = wanted.lo.saturating_sub(min).min(end);
                let upto = wanted
                    .hi()
                    .checked_sub(min)
                    .map_or(0, |last| last.saturating_add(1).min(end));
                (first as usize, upto.max(first) as usize)
            }
            None => interval::<B, K>(view, self.values, self.value_len, self.entries, wanted),
        }
    }
}

impl LeafList {
    /// Returns the offset of the first byte after the node.
    pub(crate) fn end(&self) -> usize {
        self.records.at + self.rows * self.records.len
    }

    /// Returns the rows `first..end` whose values lie in `wanted`.
    #[inline(always)]
    pub(crate) fn interval<B: Bytes, K: Kernel>(
        &self,
        view: View<'_, B>,
        wanted: CodeRange,
    ) -> (usize, usize) {
        if self.value_len == 0 {
            return (0, self.rows);
        }
        interval::<B, K>(view, self.values, self.value_len, self.rows, wanted)
    }

    /// Returns the records from `first` on.
    #[inline(always)]
    pub(crate) fn records_from(&self, first: usize) -> Records {
        Records {
            at: self.records.at + first * self.records.len,
            len: self.records.len,
        }
    }
}

/// Returns the positions `first..end` of the sorted values that lie in `wanted`: up to 64 values with vector
/// comparisons, more by binary search.
#[inline(always)]
fn interval<B: Bytes, K: Kernel>(
    view: View<'_, B>,
    values: usize,
    len: usize,
    count: usize,
    wanted: CodeRange,
) -> (usize, usize) {
    if count <= 64 {
        view.touch(values, count * len);
        let mask = K::between(view, values, len, count, wanted);
        let first = (mask.trailing_zeros() as usize).min(count);
        return (first, first + mask.count_ones() as usize);
    }
    long_interval(view, values, len, count, wanted)
}

#[inline(never)]
fn long_interval<B: Bytes>(
    view: View<'_, B>,
    values: usize,
    len: usize,
    count: usize,
    wanted: CodeRange,
) -> (usize, usize) {
    let first = partition(view, values, len, 0, count, |value| value < wanted.lo);
    // The interval is usually short, so its end is searched in doubling steps.
    let mut step = 16;
    while first + step < count && view.uint(values + (first + step) * len, len) <= wanted.hi() {
        step *= 2;
    }
    let end = partition(view, values, len, first, (first + step).min(count), |value| {
        value <= wanted.hi()
    });
    (first, end)
}

/// Returns the first position in `from..to` whose value is not `before`.
fn partition<B: Bytes>(
    view: View<'_, B>,
    values: usize,
    len: usize,
    from: usize,
    to: usize,
    before: impl Fn(u64) -> bool,
) -> usize {
    let (mut from, mut size) = (from, to - from);
    while size > 0 {
        let half = size / 2;
        let at = values + (from + half) * len;
        view.touch(at, len);
        if before(view.uint(at, len)) {
            from += half + 1;
            size -= half + 1;
        } else {
            size = half;
        }
    }
    from
}
