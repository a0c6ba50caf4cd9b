//! What whoever copies lists is asked on the way, as copying takes seconds of a large index.

use crate::Result;

/// Who wants lists copied.
pub(crate) trait Errand {
    /// Whether the copies are still wanted; asked for each list.
    ///
    /// # Errors
    /// [`ElfError::Cancelled`](crate::ElfError::Cancelled) if they are not.
    fn check(&self) -> Result<()>;

    /// The lists are chosen (equal numbers: the same lists). Makes room for their copies, which are taken if that says so.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn chosen(&self, lists: u64) -> Result<bool>;
}

/// An index is placed: its copies are wanted, and nothing is in their way.
pub(crate) struct Placing;

impl Errand for Placing {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn chosen(&self, _lists: u64) -> Result<bool> {
        Ok(true)
    }
}

/// The number of the lists chosen so far, and one more.
#[inline]
pub(crate) fn and_list(lists: u64, at: usize) -> u64 {
    (lists ^ at as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}
