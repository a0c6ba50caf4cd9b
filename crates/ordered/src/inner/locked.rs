//! Changes of a locked inner node.
//!
//! Between the stores, readers may see a mixture of old and new contents. Validation of the version rejects
//! it.

use std::sync::atomic::Ordering;

use crate::kernel::shift_up;
use crate::sched;
use crate::version::VersionGuard;

use super::key_window::{KeyWindow, NONE};
use super::node::{InnerNode, KEYS};

/// A locked node. Dropping it releases the lock with a new version;
/// [`unchanged`](LockedNode::unchanged) keeps the old one.
#[derive(Debug)]
pub(crate) struct LockedNode<'a> {
    node: &'a InnerNode,
    held: VersionGuard<'a>,
}

impl<'a> LockedNode<'a> {
    pub(super) fn new(node: &'a InnerNode, held: VersionGuard<'a>) -> LockedNode<'a> {
        LockedNode { node, held }
    }

    /// Releases the lock of a node that was not changed.
    pub(crate) fn unchanged(self) {
        self.held.unchanged();
    }

    pub(crate) fn node(&self) -> &InnerNode {
        self.node
    }

    pub(crate) fn is_full(&self) -> bool {
        self.node.count() == KEYS
    }

    /// Inserts a child to the right of the one in `slot`, with the lower bound `key`. The node must have
    /// room. `vectors` is the result of [`has_vectors`](crate::kernel::has_vectors), or false.
    pub(crate) fn insert(&self, slot: usize, key: u64, child: u32, vectors: bool) {
        let node = self.node;
        let count = node.count();
        debug_assert!(count < KEYS && slot <= count);
        shift_up(&node.keys, slot, count, vectors);
        shift_up(&node.children, slot + 1, count + 1, vectors);
        sched::point();
        node.keys[slot].store(key, Ordering::Relaxed);
        node.children[slot + 1].store(child, Ordering::Relaxed);
        node.count.store(count as u32 + 1, Ordering::Relaxed);
        let window = KeyWindow::from(node.window.load(Ordering::Relaxed));
        if count == 0 || !window.tells_apart(key) {
            return self.set_pieces();
        }
        shift_up(&node.pieces, slot, count, vectors);
        node.pieces[slot].store(window.piece(key), Ordering::Relaxed);
    }

    /// Removes the child in `slot`, which is not the first. Its left neighbour takes over its keys.
    pub(crate) fn remove(&self, slot: usize) {
        let node = self.node;
        let count = node.count();
        debug_assert!((1..=count).contains(&slot));
        for at in slot..count {
            node.keys[at - 1].store(node.key(at), Ordering::Relaxed);
            node.children[at].store(node.child(at + 1), Ordering::Relaxed);
        }
        sched::point();
        node.count.store(count as u32 - 1, Ordering::Relaxed);
        self.set_pieces();
    }

    /// Replaces the key right of the child in `slot`.
    pub(crate) fn set_key(&self, slot: usize, key: u64) {
        self.node.keys[slot].store(key, Ordering::Relaxed);
        self.set_pieces();
    }

    /// Replaces the whole contents.
    pub(crate) fn set(&self, keys: &[u64], children: &[u32]) {
        debug_assert!(keys.len() + 1 == children.len() && keys.len() <= KEYS);
        let node = self.node;
        for (slot, key) in node.keys.iter().zip(keys) {
            slot.store(*key, Ordering::Relaxed);
        }
        sched::point();
        for (slot, child) in node.children.iter().zip(children) {
            slot.store(*child, Ordering::Relaxed);
        }
        node.count.store(keys.len() as u32, Ordering::Relaxed);
        self.set_pieces();
    }

    /// Recomputes the window and all pieces from the keys.
    fn set_pieces(&self) {
        let node = self.node;
        let count = node.count();
        let window = match count {
            0 => KeyWindow::default(),
            _ => KeyWindow::around(node.key(0), node.key(count - 1)),
        };
        node.window.store(window.into(), Ordering::Relaxed);
        for (slot, stored) in node.pieces.iter().enumerate() {
            let piece = if slot < count {
                window.piece(node.key(slot))
            } else {
                NONE
            };
            stored.store(piece, Ordering::Relaxed);
        }
        sched::point();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromZeros;

    use super::*;
    use crate::kernel::has_vectors;

    /// Generates keys that are far apart, clustered, and adjacent.
    fn keys() -> impl Strategy<Value = Vec<u64>> {
        let cluster = (
            any::<u64>(),
            0_u32..64,
            prop::collection::vec(any::<u64>(), 1..30),
        )
            .prop_map(|(start, bits, some)| some.iter().map(|key| start.wrapping_add(key >> bits)).collect());
        let clusters = prop::collection::vec(cluster, 1..4);
        clusters.prop_map(|all: Vec<Vec<u64>>| all.concat())
    }

    proptest! {
        #[test]
        fn a_search_finds_the_child(keys in keys(), taken: Vec<prop::sample::Index>, moved: prop::sample::Index) {
            let node = InnerNode::new_zeroed();
            let locked = node.lock_new();
            locked.set(&[], &[0]);
            let mut model: Vec<u64> = vec![];
            let check = |model: &[u64]| {
                for key in keys.iter().flat_map(|key| [key.wrapping_sub(1), *key, key.wrapping_add(1)]).chain([0, u64::MAX]) {
                    let wanted = model.partition_point(|other| *other <= key);
                    for vectors in [false, has_vectors()] {
                        prop_assert_eq!(node.search(key, vectors), wanted, "{} in {:?}", key, model);
                    }
                }
                prop_assert_eq!(node.contents().keys, model);
                Ok(())
            };
            for key in &keys {
                if let Err(slot) = model.binary_search(key) && model.len() < KEYS {
                    locked.insert(slot, *key, *key as u32, has_vectors());
                    model.insert(slot, *key);
                }
            }
            check(&model)?;
            for slot in taken.iter().take(model.len() - 1) {
                let slot = slot.index(model.len());
                locked.remove(slot + 1);
                model.remove(slot);
            }
            check(&model)?;
            let slot = moved.index(model.len());
            if model.get(slot + 1).is_none_or(|next| next - model[slot] > 1) {
                model[slot] += u64::from(model[slot] < u64::MAX);
                locked.set_key(slot, model[slot]);
            }
            check(&model)?;
            let children: Vec<u32> = (0..=model.len() as u32).collect();
            locked.set(&model, &children);
            check(&model)?;
            prop_assert_eq!(node.contents().children, children);
        }
    }
}
