//! Rebalancing after leaves were removed. A node with few children takes some from a neighbour or is
//! merged with it, so that every lowest node has at least two children if the tree has two leaves. All
//! changes are in DRAM. If concurrent changes interfere, rebalancing is left to the next removal.

use super::{CHILDREN, InnerNode, InnerNodes, KEYS};

/// A node with fewer children is rebalanced.
const MIN_CHILDREN: usize = CHILDREN / 4;

/// Maximum number of attempts despite concurrent changes.
const MAX_ATTEMPTS: usize = 64;

impl InnerNodes {
    /// Rebalances the nodes on the path to a key, one of whose leaves was removed.
    pub(crate) fn shrink(&self, key: u64) {
        for _ in 0..MAX_ATTEMPTS {
            if self.try_shrink(key) == Some(false) {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns true if something was changed, so that there may be more to do, and `None` if a concurrent
    /// change interfered.
    fn try_shrink(&self, key: u64) -> Option<bool> {
        let (root, height, mut node, mut version) = self.start()?;
        if height > 1 && node.count() == 0 {
            let locked = node.lock(version)?;
            if self.start_is(root, height) {
                self.set_root(node.child(0), height - 1);
                drop(locked);
                self.free(root);
                return Some(true);
            }
            locked.unchanged();
            return None;
        }
        for _ in 1..height {
            let slot = node.search(key, self.vectors);
            let child = node.child(slot);
            let next = self.node(child)?;
            let next_version = next.read()?;
            let few = next.count() < MIN_CHILDREN;
            if !node.validate(version) {
                return None;
            }
            if few && node.count() > 0 {
                let left = if slot > 0 { slot - 1 } else { slot };
                self.join(node, version, left)?;
                return Some(true);
            }
            (node, version) = (next, next_version);
        }
        Some(false)
    }

    /// Merges the children `left` and `left + 1` of a node, or distributes their contents evenly.
    fn join(&self, node: &InnerNode, version: u64, left: usize) -> Option<()> {
        let above = node.lock(version)?;
        let (left_index, right_index) = (node.child(left), node.child(left + 1));
        let locked = self
            .node(left_index)
            .zip(self.node(right_index))
            .and_then(|(a, b)| {
                let first = a.lock(a.read()?)?;
                match b.read().and_then(|version| b.lock(version)) {
                    Some(second) => Some((first, second)),
                    None => {
                        first.unchanged();
                        None
                    }
                }
            });
        let Some((first, second)) = locked else {
            above.unchanged();
            return None;
        };
        let mut all = first.node().contents();
        let others = second.node().contents();
        all.keys.push(node.key(left));
        all.keys.extend(others.keys);
        all.children.extend(others.children);
        if all.keys.len() <= KEYS {
            first.set(&all.keys, &all.children);
            above.remove(left + 1);
            drop((second, first, above));
            self.free(right_index);
        } else {
            let middle = all.keys.len() / 2;
            first.set(&all.keys[..middle], &all.children[..=middle]);
            second.set(&all.keys[middle + 1..], &all.children[middle + 1..]);
            above.set_key(left, all.keys[middle]);
        }
        Some(())
    }
}
