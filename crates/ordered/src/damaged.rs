//! Nodes that were found damaged, at opening or by a check: whatever needs one is refused.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Nodes are numbered by their offsets in these units.
const GRAIN: u64 = 256;

/// Damaged nodes, with what is wrong with them. Costs one load as long as there are none.
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

    /// What is wrong with a node, if anything is.
    #[inline(always)]
    pub(crate) fn reason(&self, node: u32) -> Option<String> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.get(&node).cloned()
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether the node at an offset is one of them.
    pub(crate) fn has_at(&self, offset: u64) -> bool {
        u32::try_from(offset / GRAIN).is_ok_and(|node| self.has(node))
    }

    pub(crate) fn has(&self, node: u32) -> bool {
        self.any.load(Ordering::Relaxed) && self.reason(node).is_some()
    }
}
