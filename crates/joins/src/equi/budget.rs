//! The memory that joins share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a budget takes from its source at a time.
const REFILL_BYTES: usize = 1 << 20;

/// Memory that a budget shares with other work, such as the memory pool of a query engine.
pub trait MemorySource: Send + Sync {
    /// Takes `bytes`, and returns true, if they are left.
    fn try_take(&self, bytes: usize) -> bool;

    /// Takes `bytes` even if they are not left.
    fn force(&self, bytes: usize);

    /// Gives `bytes` back.
    fn give_back(&self, bytes: usize);

    /// Returns the bytes that are left.
    fn available(&self) -> usize;
}

/// A number of bytes that all holders share. Whatever a join allocates in proportion to its data counts:
/// collected rows, hash tables, filters, buffers of partitions.
pub struct JoinBudget {
    limit: usize,
    source: Option<Box<dyn MemorySource>>,
    state: Mutex<BudgetState>,
}

/// Invariant: a budget with a source has taken at least the bytes in use from it.
#[derive(Debug, Default)]
struct BudgetState {
    used: usize,
    peak: usize,
    /// Bytes taken from the source.
    taken: usize,
}

impl JoinBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<JoinBudget> {
        Arc::new(JoinBudget {
            limit,
            source: None,
            state: Mutex::default(),
        })
    }

    /// Creates a budget of at most `limit` bytes, which are taken from a source when they are needed, and
    /// given back with the budget at the latest.
    pub fn from_source(limit: usize, source: impl MemorySource + 'static) -> Arc<JoinBudget> {
        Arc::new(JoinBudget {
            limit,
            source: Some(Box::new(source)),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.state().used
    }

    /// Returns the largest number of bytes that were in use at a time.
    pub fn peak(&self) -> usize {
        self.state().peak
    }

    /// Returns the bytes that are not in use.
    pub fn available(&self) -> usize {
        let state = self.state();
        let left = self.limit.saturating_sub(state.used);
        match &self.source {
            None => left,
            Some(source) => left.min(state.taken.saturating_sub(state.used) + source.available()),
        }
    }

    /// Takes `bytes` if they are left.
    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<BudgetShare> {
        let mut state = self.state();
        let used = state.used.checked_add(bytes).filter(|used| *used <= self.limit)?;
        if let Some(source) = &self.source
            && used > state.taken
        {
            let missing = used - state.taken;
            let more = missing.max(REFILL_BYTES);
            state.taken += match () {
                () if source.try_take(more) => more,
                () if more > missing && source.try_take(missing) => missing,
                () => return None,
            };
        }
        state.used = used;
        state.peak = state.peak.max(used);
        Some(self.share(bytes))
    }

    /// Takes `bytes` even beyond the limit: for working memory without which a join cannot make progress.
    pub(super) fn force(self: &Arc<Self>, bytes: usize) -> BudgetShare {
        let mut state = self.state();
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        if let Some(source) = &self.source
            && state.used > state.taken
        {
            source.force(state.used - state.taken);
            state.taken = state.used;
        }
        self.share(bytes)
    }

    fn give_back(&self, bytes: usize) {
        let mut state = self.state();
        state.used -= bytes;
        if let Some(source) = &self.source {
            let spare = state.taken - state.used;
            // A little is kept, as most of what is given back is taken again soon.
            if spare > 4 * REFILL_BYTES {
                source.give_back(spare - REFILL_BYTES);
                state.taken = state.used + REFILL_BYTES;
            }
        }
    }

    fn share(self: &Arc<Self>, bytes: usize) -> BudgetShare {
        BudgetShare {
            budget: Arc::clone(self),
            bytes,
        }
    }
}

impl Drop for JoinBudget {
    fn drop(&mut self) {
        let taken = self.state().taken;
        if let Some(source) = &self.source {
            source.give_back(taken);
        }
    }
}

impl fmt::Debug for JoinBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinBudget")
            .field("limit", &self.limit)
            .field("state", &*self.state())
            .finish_non_exhaustive()
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
        self.budget.give_back(spare);
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
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    /// A pool of 16 MiB.
    #[derive(Default)]
    struct Shared(AtomicUsize);

    impl MemorySource for Arc<Shared> {
        fn try_take(&self, bytes: usize) -> bool {
            let fits = bytes <= self.available();
            if fits {
                self.force(bytes);
            }
            fits
        }

        fn force(&self, bytes: usize) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }

        fn available(&self) -> usize {
            (16 * REFILL_BYTES).saturating_sub(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn bytes_are_taken_from_a_source_and_given_back() {
        let shared = Arc::new(Shared::default());
        let taken = || shared.0.load(Ordering::Relaxed);
        let budget = JoinBudget::from_source(32 * REFILL_BYTES, Arc::clone(&shared));
        assert_eq!((budget.available(), taken()), (16 * REFILL_BYTES, 0));
        let few = budget.try_take(10).unwrap();
        assert_eq!(
            (budget.available(), taken()),
            (16 * REFILL_BYTES - 10, REFILL_BYTES)
        );
        let most = budget.try_take(16 * REFILL_BYTES - 10).unwrap();
        assert!(budget.try_take(1).is_none());
        let forced = budget.force(REFILL_BYTES);
        assert_eq!((budget.used(), taken()), (17 * REFILL_BYTES, 17 * REFILL_BYTES));
        drop((most, forced));
        // A little is kept until the budget ends.
        assert_eq!((budget.used(), taken()), (10, 10 + 2 * REFILL_BYTES));
        drop((few, budget));
        assert_eq!(taken(), 0);
    }
}
