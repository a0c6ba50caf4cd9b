//! The set of leaves that were visited since the tree was opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// One bit per node that existed when the tree was opened. Nodes behind them were written later and
/// cannot contain unfinished changes.
#[derive(Debug, Default)]
pub(crate) struct VisitedLeaves(Box<[AtomicU64]>);

impl VisitedLeaves {
    /// Creates a set in which no node with a number up to `last` is visited.
    pub(crate) fn none_up_to(last: u32) -> VisitedLeaves {
        VisitedLeaves((0..=last / 64).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline(always)]
    pub(crate) fn has(&self, number: u32) -> bool {
        match self.0.get(number as usize / 64) {
            None => true,
            Some(word) => word.load(Ordering::Acquire) >> (number % 64) & 1 == 1,
        }
    }

    #[inline]
    pub(crate) fn add(&self, number: u32) {
        if let Some(word) = self.0.get(number as usize / 64) {
            word.fetch_or(1 << (number % 64), Ordering::Release);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}
