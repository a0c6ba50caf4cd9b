//! Bulk loading of an empty tree. All nodes are written outside the tree, leaves first; one store to
//! the root makes them visible.

use crate::TreeError;
use crate::sorted_input::{SortedInput, filled};

use super::entry_count::LazyEntryCount;
use super::format::NodeFormat;
use super::layout::NodeHeadValues;
use super::node::{NodeWriter, number_of};
use super::tree::PersistentTree;

/// The nodes of one level: the lower bound and the offset of each.
type LevelNodes = Vec<(u64, u64)>;

/// The nodes written so far.
#[derive(Default)]
struct LoadedNodes {
    nodes: Vec<u64>,
    inner_nodes: u64,
}

impl<F: NodeFormat> PersistentTree<F> {
    pub(crate) fn load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError> {
        self.write_gate.check(&self.slab)?;
        let path = loop {
            // The first attempt fails if it has to visit the leaf.
            if let Some(path) = self.try_path(0)? {
                break path;
            }
        };
        let (root, leaf) = (path.nodes[path.height as usize], path.nodes[0]);
        if path.height > 1 || !self.is_empty() || F::count(self.node(root)) > 1 {
            return Err(TreeError::NotEmpty {
                name: self.name().to_owned(),
                entries: self.entries(),
            });
        }
        let mut entries = SortedInput::new(entries);
        let mut written = LoadedNodes::default();
        let result = self.write_all(&mut entries, filled(F::CAPACITY, fill), &mut written);
        let (root_node, height) = match result {
            Ok(Some(root)) => root,
            Ok(None) => return Ok(0),
            Err(error) => {
                written.nodes.iter().for_each(|node| self.slab.free(*node));
                return Err(error);
            }
        };
        let mut out = NodeWriter::new(self.slab.medium());
        self.store_root(&mut out, root_node);
        self.set_root(number_of(root_node), height);
        self.inner_nodes = written.inner_nodes.into();
        self.entry_count = LazyEntryCount::known(entries.taken());
        let result = self.write_gate.keep(out.done());
        for node in [root, leaf] {
            self.slab.free(self.node(node).offset);
        }
        result.map(|()| entries.taken())
    }

    /// Writes all nodes durably. Returns the root and its level, or `None` if there are no entries.
    fn write_all(
        &self,
        entries: &mut SortedInput<'_>,
        most: usize,
        written: &mut LoadedNodes,
    ) -> Result<Option<(u64, u32)>, TreeError> {
        let mut out = NodeWriter::new(self.slab.medium());
        let mut level = self.write_leaves(&mut out, entries, most, written)?;
        if level.is_empty() {
            return Ok(None);
        }
        let mut height = 0;
        while level.len() > 1 || height == 0 {
            height += 1;
            level = self.write_inner(&mut out, &level, height, most.max(2), written)?;
        }
        if !F::load_unfenced() {
            out.fence();
        }
        self.write_gate.keep(out.done())?;
        Ok(level.first().map(|(_, root)| (*root, height)))
    }

    fn write_leaves(
        &self,
        out: &mut NodeWriter<'_>,
        entries: &mut SortedInput<'_>,
        most: usize,
        written: &mut LoadedNodes,
    ) -> Result<LevelNodes, TreeError> {
        let mut level = LevelNodes::new();
        let mut pending = entries.next(most)?;
        let mut node = self.take_for(&pending, written)?;
        while let Some((least, _)) = pending.first() {
            // A leaf links to the next one, which must therefore be allocated first.
            let following = entries.next(most)?;
            let next = self.take_for(&following, written)?;
            let low = if level.is_empty() { 0 } else { *least };
            let head = NodeHeadValues {
                level: 0,
                sibling: next,
                low,
                high: following.first().map_or(u64::MAX, |(key, _)| key - 1),
            };
            F::write_new(out, node, &head, &pending);
            level.push((low, node));
            (pending, node) = (following, next);
        }
        Ok(level)
    }

    /// Writes the level above `below`, with the children distributed evenly.
    fn write_inner(
        &self,
        out: &mut NodeWriter<'_>,
        below: &LevelNodes,
        height: u32,
        most: usize,
        written: &mut LoadedNodes,
    ) -> Result<LevelNodes, TreeError> {
        let count = below.len().div_ceil(most);
        let mut level = LevelNodes::new();
        for number in 0..count {
            let first = below.len() * number / count;
            level.push((below[first].0, self.take_for(&below[first..], written)?));
            written.inner_nodes += 1;
        }
        for number in 0..count {
            let range = below.len() * number / count..below.len() * (number + 1) / count;
            let next = level.get(number + 1);
            let head = NodeHeadValues {
                level: height,
                sibling: next.map_or(0, |next| next.1),
                low: level[number].0,
                high: next.map_or(u64::MAX, |next| next.0 - 1),
            };
            F::write_new(out, level[number].1, &head, &below[range]);
        }
        Ok(level)
    }

    /// Allocates a node for `entries`; returns 0 if there are none.
    fn take_for(&self, entries: &[(u64, u64)], written: &mut LoadedNodes) -> Result<u64, TreeError> {
        if entries.is_empty() {
            return Ok(0);
        }
        let node = self.take()?;
        self.visited.add(number_of(node));
        written.nodes.push(node);
        Ok(node)
    }
}
