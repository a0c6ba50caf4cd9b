//! The procedure by which both layouts copy lists of an index into an [`Image`] in DRAM.
//!
//! A [`ListCopier`] traverses the selected lists twice. The first pass only adds up the bytes of the copies
//! and stops as soon as they exceed the budget, so that no memory is mapped for an image that does not fit;
//! the second pass writes them. Copying a large index takes seconds, so each list is preceded by a
//! cancellation check ([`CopyControl`]).

use crate::header::ElfHeader;
use crate::view::Image;
use crate::{ElfError, Result};
use halocline_cache::AgedCounts;
use std::sync::Arc;

/// An image and the header whose offsets lead into it.
pub(crate) type ImageParts = (Arc<Image>, Arc<ElfHeader>);

/// The lists to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopySelection<'c> {
    /// Only lists of dimensions below this one are copied.
    pub(crate) levels: usize,
    /// Least traversal probability of a list that is copied.
    pub(crate) least: f64,
    /// Copies the records of leaf lists (layout `packed`) and MonoLists (layout `published`) too.
    pub(crate) records: bool,
    /// Observed accesses, which are combined with the probabilities that follow from the shape of the tree.
    pub(crate) counts: Option<&'c AgedCounts>,
}

impl CopySelection<'_> {
    /// Selects all lists of the first `levels` dimensions.
    pub(crate) fn levels(levels: usize) -> Self {
        Self {
            levels,
            least: 0.0,
            records: true,
            counts: None,
        }
    }
}

/// Cancels a copy operation, and makes room for its result.
pub(crate) trait CopyControl {
    /// Checks that the copies are still needed; called before each list.
    ///
    /// # Errors
    /// [`ElfError::Cancelled`] if they are not.
    fn check(&self) -> Result<()>;

    /// Prepares for copies of the selected lists, which `fingerprint` identifies. Returns false if they are
    /// not to be made.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn approve(&self, fingerprint: u64) -> Result<bool>;
}

/// A control that approves every copy and never cancels: for an index that is being placed.
pub(crate) struct Uncontrolled;

impl CopyControl for Uncontrolled {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn approve(&self, _fingerprint: u64) -> Result<bool> {
        Ok(true)
    }
}

/// The reason why a pass over the lists ended early.
pub(crate) enum CopyStop {
    /// The copies exceed the budget.
    Full,
    /// Damage, cancellation or lack of memory.
    Failed(ElfError),
}

impl From<ElfError> for CopyStop {
    fn from(error: ElfError) -> Self {
        Self::Failed(error)
    }
}

/// A copy operation of one layout.
pub(crate) trait ListCopier: Sized {
    /// Adds up the bytes of the image.
    fn measure(&mut self) -> Result<(), CopyStop>;

    /// Returns the [`fingerprint`] of the lists that were measured.
    fn fingerprint(&self) -> u64;

    /// Writes the image; called after [`measure`](Self::measure).
    fn write(self) -> Result<ImageParts, CopyStop>;
}

/// Returns the fingerprint of the lists selected so far with the list at `at` added.
#[inline]
pub(crate) fn fingerprint(lists: u64, at: usize) -> u64 {
    (lists ^ at as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

/// Returns the image; `None` if it exceeds the copier's budget or `control` does not approve it.
///
/// # Errors
/// [`ElfError::Damaged`], [`ElfError::Memory`], [`ElfError::Cancelled`].
pub(crate) fn copy_lists<C: ListCopier>(
    mut copier: C,
    control: &dyn CopyControl,
) -> Result<Option<ImageParts>> {
    match copier.measure() {
        Ok(()) if control.approve(copier.fingerprint())? => {}
        Ok(()) | Err(CopyStop::Full) => return Ok(None),
        Err(CopyStop::Failed(error)) => return Err(error),
    }
    match copier.write() {
        Ok(parts) => Ok(Some(parts)),
        Err(CopyStop::Full) => Err(ElfError::damaged(0, "lists changed while they were copied")),
        Err(CopyStop::Failed(error)) => Err(error),
    }
}

/// Returns the image of the most probable lists of the first `levels` dimensions that fits the budget; `None`
/// if not even the root list does. `copier` makes a copier for a selection, whose least probability is not
/// lowered below `floor`.
///
/// # Errors
/// As [`copy_lists`].
pub(crate) fn copy_most_probable<'c, C: ListCopier>(
    floor: f64,
    (levels, counts): (usize, Option<&'c AgedCounts>),
    copier: impl Fn(CopySelection<'c>) -> C,
    control: &dyn CopyControl,
) -> Result<Option<ImageParts>> {
    let copier = |least| {
        copier(CopySelection {
            least,
            counts,
            ..CopySelection::levels(levels)
        })
    };
    let fits = |least| match copier(least).measure() {
        Ok(()) => Ok(true),
        Err(CopyStop::Full) => Ok(false),
        Err(CopyStop::Failed(error)) => Err(error),
    };
    match least_probability(floor, fits)? {
        Some(least) => copy_lists(copier(least), control),
        None => Ok(None),
    }
}

/// Returns the least probability whose lists fit, down to `floor`, at which all lists are selected; `None` if
/// not even lists as probable as the root fit.
fn least_probability(floor: f64, fits: impl Fn(f64) -> Result<bool>) -> Result<Option<f64>> {
    let (mut small, mut large) = (1.0, None);
    while fits(small)? {
        large = Some(small);
        if small <= floor {
            return Ok(large);
        }
        small /= 2.0;
    }
    let Some(mut large) = large else {
        return Ok(None);
    };
    for _ in 0..6 {
        let middle = (small + large) / 2.0;
        if fits(middle)? {
            large = middle;
        } else {
            small = middle;
        }
    }
    Ok(Some(large))
}
