//! Where a test that models threads may let another one go on: around each access to what threads share. In a build without tests
//! there is no such place.

#[cfg(test)]
pub(crate) use crate::tests::models::{point, wait};

/// Another thread may go on here.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn point() {}

/// Another thread must go on here, as this one waits for it; false if that is up to the system.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn wait() -> bool {
    false
}
