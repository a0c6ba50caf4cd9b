//! Nodes known to be damaged, found when the tree was opened or by a check. Operations that need one of them
//! fail.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Unit of node numbers: a node's number is its offset divided by this.
const GRAIN: u64 = 256;

/// The set of damaged nodes and the reason for each. A lookup costs one load while the set is empty.
#[derive(Debug, Default)]
pub(crate) struct DamagedNodes {
    any: AtomicBool,
    nodes: RwLock<HashMap<u32, String>>,
}

impl DamagedNodes {
    pub(crate) fn add(&self, node: u32, reason: String) {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node, reason);
        self.any.store(true, Ordering::Release);
    }

    /// Returns the reason why a node is damaged, or `None` if it is not known to be.
    #[inline(always)]
    pub(crate) fn reason(&self, node: u32) -> Option<String> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.get(&node).cloned()
    }

    /// Returns true if any node is damaged.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Returns true if the node at `offset` is damaged.
    pub(crate) fn has_at(&self, offset: u64) -> bool {
        u32::try_from(offset / GRAIN).is_ok_and(|node| self.has(node))
    }

    pub(crate) fn has(&self, node: u32) -> bool {
        self.any.load(Ordering::Relaxed) && self.reason(node).is_some()
    }
}
