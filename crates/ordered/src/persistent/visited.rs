//! Which leaves were looked at since the tree was opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// One bit for each node that was there at opening; nodes behind them were written later, by code that leaves nothing half done.
#[derive(Debug, Default)]
pub(crate) struct VisitedLeaves(Box<[AtomicU64]>);

impl VisitedLeaves {
    /// None of the nodes with numbers up to this.
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
