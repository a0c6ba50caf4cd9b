//! The lists of an index that is not built, planned over the sorted sample.

use super::light::{LightGroups, distinct_of, has_short_runs, inner_entries, is_even, link_len};
use super::tuples::SortedTuples;
use super::{MIN_MODELLED_ROWS, MIN_PLANNED_ROWS};
use crate::geometry::RecordGeometry;
use crate::packed::node::{INNER_HEADER, SMALL_LEAF};
use crate::packed::write::{LEAF_ROWS, LEAF_RUN};
use std::ops::Range;

/// A planned list, with its sampled rows.
#[derive(Debug)]
pub(super) enum PlannedList {
    Leaf(Range<usize>),
    Inner {
        rows: Range<usize>,
        /// The rank of each planned child at the depth of the list, ascending, and its number.
        children: Vec<(u32, usize)>,
        /// The other children, those with few sampled rows apart from those with very few.
        light: Vec<LightGroups>,
    },
}

/// The planned lists; the root is the last one.
#[derive(Debug, Default)]
pub(super) struct PlannedTree {
    pub(super) lists: Vec<PlannedList>,
    /// Number of rows for which a sampled row stands.
    pub(super) scale: f64,
}

/// Plans the lists.
pub(super) struct TreePlanner<'a> {
    geometry: &'a RecordGeometry,
    tuples: &'a SortedTuples,
    tree: PlannedTree,
}

impl<'a> TreePlanner<'a> {
    pub(super) fn new(geometry: &'a RecordGeometry, tuples: &'a SortedTuples, rows: u64) -> Self {
        let scale = rows as f64 / tuples.len().max(1) as f64;
        let tree = PlannedTree { lists: vec![], scale };
        Self {
            geometry,
            tuples,
            tree,
        }
    }

    /// Returns the tree and the bytes of its lists.
    pub(super) fn plan(mut self) -> (PlannedTree, f64) {
        let (_, bytes) = self.list(0..self.tuples.len(), 0);
        (self.tree, bytes)
    }

    /// Returns true if the sample is all rows.
    fn is_exact(&self) -> bool {
        self.tree.scale <= 1.0
    }

    /// Plans the list at `depth` over these rows, which share the values of all depths above. Returns its
    /// number and the bytes of its subtree.
    fn list(&mut self, rows: Range<usize>, depth: usize) -> (usize, f64) {
        let format = self.geometry.levels[depth];
        let base = self.geometry.base_len as f64;
        let all = rows.len() as f64 * self.tree.scale;
        if self.is_leaf(&rows, depth) {
            let head = if all <= SMALL_LEAF as f64 { 1.0 } else { 5.0 };
            self.tree.lists.push(PlannedList::Leaf(rows));
            let row = (format.value_len + format.record_len) as f64;
            return (self.tree.lists.len() - 1, head + base + all * row);
        }
        let (mut children, mut bytes) = (vec![], 0.0);
        let mut light = vec![];
        let mut start = rows.start;
        while start < rows.end {
            let end = self.tuples.group_end(start, rows.end, depth);
            if self.is_exact() || end - start >= MIN_PLANNED_ROWS {
                let (child, len) = self.list(start..end, depth + 1);
                children.push((self.tuples.rank(start, depth) as u32, child));
                bytes += len;
            } else {
                light.push(start..end);
            }
            start = end;
        }
        let model = |rows| LightGroups::new(self.geometry, self.tuples, rows, depth + 1, self.tree.scale);
        let light = if is_even(&light) {
            (light, vec![])
        } else {
            light.into_iter().partition(|rows| rows.len() < MIN_MODELLED_ROWS)
        };
        let light = [light.0, light.1].into_iter().filter(|rows| !rows.is_empty());
        let light: Vec<LightGroups> = light.map(model).collect();
        let groups: f64 = light.iter().map(|light| light.groups).sum();
        bytes += light.iter().map(|light| light.bytes).sum::<f64>();
        let values = &self.tuples.depths[depth].values;
        let value = |row: usize| values[self.tuples.rank(row, depth)];
        let (first, last) = (value(rows.start), value(rows.end - 1));
        let link = link_len(bytes);
        let (entries, value_len) = (children.len() as f64 + groups, format.value_len as f64);
        // Positions count from 0 on where that is no larger.
        let span = if (last as f64 + 1.0) * link <= entries * (link + value_len) {
            last as f64 + 1.0
        } else {
            (last - first) as f64 + 1.0
        };
        bytes += INNER_HEADER as f64 + base + inner_entries(entries, span, link, value_len);
        self.tree.lists.push(PlannedList::Inner {
            rows,
            children,
            light,
        });
        (self.tree.lists.len() - 1, bytes)
    }

    fn is_leaf(&self, rows: &Range<usize>, depth: usize) -> bool {
        if self.geometry.is_of_buckets(depth) {
            return false;
        }
        if depth == self.geometry.dims() {
            return true;
        }
        if self.is_exact() {
            let (start, end) = (rows.start, rows.end);
            return rows.len() <= LEAF_ROWS
                || !(start..end - LEAF_RUN).any(|row| self.tuples.same(row, row + LEAF_RUN, depth));
        }
        let (sampled, all) = (rows.len() as f64, rows.len() as f64 * self.tree.scale);
        if all <= LEAF_ROWS as f64 {
            return true;
        }
        let seen = self.tuples.groups(rows.start, rows.end, depth) as f64;
        let known = self.tuples.depths[depth].distinct.max(1) as f64;
        let values = distinct_of(all, sampled, seen).min(known).max(1.0);
        has_short_runs(all / values, values) > 0.5
    }
}
