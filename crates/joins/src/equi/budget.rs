//! The memory that joins share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all holders share. Whatever a join allocates in proportion to its data counts:
/// collected rows, hash tables, filters, buffers of partitions.
#[derive(Debug)]
pub struct JoinBudget {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl JoinBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<JoinBudget> {
        Arc::new(JoinBudget {
            limit,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        })
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the largest number of bytes that were in use at a time.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Returns the bytes that are not in use.
    pub fn available(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Takes `bytes` if they are left.
    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<BudgetShare> {
        let grow = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        let used = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow)
            .ok()?;
        self.peak.fetch_max(used + bytes, Ordering::Relaxed);
        Some(self.reservation(bytes))
    }

    /// Takes `bytes` even beyond the limit: for working memory without which a join cannot make progress.
    pub(super) fn force(self: &Arc<Self>, bytes: usize) -> BudgetShare {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(used, Ordering::Relaxed);
        self.reservation(bytes)
    }

    fn reservation(self: &Arc<Self>, bytes: usize) -> BudgetShare {
        BudgetShare {
            budget: Arc::clone(self),
            bytes,
        }
    }
}

/// Bytes taken from a budget, given back on drop.
#[derive(Debug)]
pub(super) struct BudgetShare {
    budget: Arc<JoinBudget>,
    bytes: usize,
}

impl BudgetShare {
    /// Gives back all but `bytes`.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let spare = self.bytes.saturating_sub(bytes);
        self.budget.used.fetch_sub(spare, Ordering::Relaxed);
        self.bytes -= spare;
    }

    /// Returns the number of bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the bytes of another reservation of the same budget.
    pub(super) fn merge(&mut self, mut other: BudgetShare) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget));
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_given_back() {
        let budget = JoinBudget::new(100);
        let mut first = budget.try_take(60).unwrap();
        assert!(budget.try_take(41).is_none());
        assert!(budget.try_take(usize::MAX).is_none());
        let second = budget.force(70);
        assert_eq!((budget.used(), budget.available(), budget.peak()), (130, 0, 130));
        drop(second);
        first.shrink(10);
        first.merge(budget.try_take(90).unwrap());
        assert_eq!((first.bytes(), budget.available()), (100, 0));
        drop(first);
        assert_eq!((budget.used(), budget.peak()), (0, 130));
    }
}
