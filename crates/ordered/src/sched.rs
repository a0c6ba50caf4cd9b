//! Scheduling points for tests that model threads, around each access to shared memory. They compile to
//! nothing outside tests.

#[cfg(test)]
pub(crate) use crate::tests::models::{point, wait};

/// Marks a point at which another thread may run.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn point() {}

/// Lets another thread run because this one waits for it. Returns false if no threads are modelled.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn wait() -> bool {
    false
}
