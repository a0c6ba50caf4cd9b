//! A common limit for the DRAM of several caches. The sum of reservations never exceeds the limit in
//! force when they were made, even with concurrent reservations. Lowering the limit does not revoke
//! reservations; it rejects new ones until enough have been released.

use crate::CacheError;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Debug)]
struct BudgetState {
    limit: AtomicU64,
    used: AtomicU64,
}

/// A budget of bytes. Clones share the same state.
///
/// ```
/// use halocline_cache::DramBudget;
/// let budget = DramBudget::new(100);
/// let sixty = budget.reserve(60)?;
/// assert!(budget.reserve(50).is_err());
/// drop(sixty);
/// assert_eq!(budget.reserve(50)?.bytes(), 50);
/// # Ok::<(), halocline_cache::CacheError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DramBudget {
    state: Arc<BudgetState>,
}

impl DramBudget {
    /// Creates an unused budget.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let (limit, used) = (AtomicU64::new(limit), AtomicU64::new(0));
        Self {
            state: Arc::new(BudgetState { limit, used }),
        }
    }

    /// Reserves bytes until the reservation is dropped.
    ///
    /// # Errors
    /// [`CacheError::BudgetUsedUp`] if fewer are free.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, CacheError> {
        let limit = self.limit();
        // Relaxed is sufficient: the counter guards no other memory.
        let more = |used: u64| used.checked_add(bytes).filter(|&used| used <= limit);
        match self.state.used.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(Reservation {
                state: Arc::clone(&self.state),
                bytes,
            }),
            Err(used) => Err(CacheError::BudgetUsedUp {
                asked: bytes,
                free: limit.saturating_sub(used),
                limit,
            }),
        }
    }

    /// Reserves as many bytes as are free, `bytes` at most.
    pub fn reserve_up_to(&self, bytes: u64) -> Reservation {
        let limit = self.limit();
        let mut taken = 0;
        let more = |used: u64| {
            taken = bytes.min(limit.saturating_sub(used));
            Some(used + taken)
        };
        // The closure never returns `None`, so the update cannot fail.
        let _ = self.state.used.fetch_update(Relaxed, Relaxed, more);
        Reservation {
            state: Arc::clone(&self.state),
            bytes: taken,
        }
    }

    /// Returns the number of bytes that can still be reserved.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// Returns the number of reserved bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state.used.load(Relaxed)
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.state.limit.load(Relaxed)
    }

    /// Changes the limit. Returns the number of bytes by which reservations exceed it; their holders should
    /// release that many.
    pub fn set_limit(&self, bytes: u64) -> u64 {
        self.state.limit.store(bytes, Relaxed);
        self.used().saturating_sub(bytes)
    }
}

/// Reserved bytes of a [`DramBudget`]. Dropping the reservation releases them.
#[derive(Debug)]
#[must_use = "what is dropped is given back"]
pub struct Reservation {
    state: Arc<BudgetState>,
    bytes: u64,
}

impl Reservation {
    /// Returns the number of reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases all but `bytes`, if more are reserved.
    pub fn shrink(&mut self, bytes: u64) {
        let back = self.bytes.saturating_sub(bytes);
        self.bytes -= back;
        self.state.used.fetch_sub(back, Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn what_is_refused_says_what_to_do() {
        let budget = DramBudget::new(100);
        let mut held = budget.reserve(70).unwrap();
        let error = budget.reserve(31).unwrap_err();
        assert_eq!(
            error,
            CacheError::BudgetUsedUp {
                asked: 31,
                free: 30,
                limit: 100
            }
        );
        assert!(error.to_string().contains("halocline.dram_budget"), "{error}");
        assert!(budget.reserve(u64::MAX).is_err());
        held.shrink(50);
        held.shrink(60);
        assert_eq!((held.bytes(), budget.used()), (50, 50));
    }

    #[test]
    fn a_lower_limit_refuses_until_enough_is_released() {
        let budget = DramBudget::new(100);
        let (a, b) = (budget.reserve(40).unwrap(), budget.reserve(40).unwrap());
        assert_eq!(budget.set_limit(60), 20);
        assert!(budget.reserve(1).is_err());
        drop(a);
        assert_eq!(budget.reserve(20).unwrap().bytes(), 20);
        assert_eq!(budget.set_limit(200), 0);
        drop(b);
        assert_eq!((budget.used(), budget.limit()), (0, 200));
        let most = budget.reserve_up_to(150);
        let rest = budget.reserve_up_to(u64::MAX);
        assert_eq!((most.bytes(), rest.bytes(), budget.free()), (150, 50, 0));
        assert_eq!(budget.set_limit(10), 190);
        assert_eq!(budget.reserve_up_to(1).bytes(), 0);
    }

    #[test]
    fn threads_never_pass_the_limit_together() {
        let budget = DramBudget::new(10);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let held = budget.reserve(4);
                        assert!(budget.used() <= 10);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
