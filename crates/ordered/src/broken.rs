//! Leaves that were found damaged, at opening or by a check: whatever needs one is refused.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Damaged leaves, with what is wrong with them. Costs one load as long as there are none.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    any: AtomicBool,
    leaves: RwLock<HashMap<u32, String>>,
}

impl Broken {
    pub(crate) fn add(&self, leaf: u32, reason: String) {
        let mut leaves = self.leaves.write().unwrap_or_else(PoisonError::into_inner);
        leaves.insert(leaf, reason);
        self.any.store(true, Ordering::Release);
    }

    /// What is wrong with a leaf, if anything is.
    #[inline(always)]
    pub(crate) fn reason(&self, leaf: u32) -> Option<String> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let leaves = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
        leaves.get(&leaf).cloned()
    }
}
