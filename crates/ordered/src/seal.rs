//! Closing a tree: its nodes get checksums, which hold until it is written again.
//!
//! A tree is closed when it is dropped. One whose medium has failed, or that is dropped while a thread panics, counts as one that a crash has
//! ended.

use halocline_pool::{NodeAtRest, Slab};

use crate::damaged::DamagedNodes;

/// Rules of closing, for a test to break.
pub(crate) mod mistake {
    halocline_pool::mistakes! {
        /// A tree is dropped as if its process died.
        Unsealed,
        /// A tree is written while its slab says that it is closed.
        StayClosed,
        /// Nodes that were found damaged get checksums as if they were intact.
        SealDamaged,
    }
}

use mistake::{Mistake, made};

/// Whether a tree that is dropped is to be closed.
pub(crate) fn is_closing(slab: &Slab, has_failed: bool) -> bool {
    !(slab.is_read_only() || has_failed || std::thread::panicking() || made(Mistake::Unsealed))
}

/// Closes the slab of a tree; `is_known` says of a node whether it was looked at since the tree was opened, or written.
pub(crate) fn seal(slab: &mut Slab, broken: &DamagedNodes, is_known: impl Fn(u64) -> bool) {
    let closed_before = slab.sums().is_some();
    // An error is in the log, and the slab counts as one that was not closed.
    let _ = slab.seal(|node| {
        if made(Mistake::SealDamaged) {
            NodeAtRest::Current
        } else if broken.has_at(node) {
            NodeAtRest::Damaged
        } else if is_known(node) {
            NodeAtRest::Current
        } else if closed_before {
            NodeAtRest::Untouched
        } else {
            // Out of reach behind a damaged node.
            NodeAtRest::Damaged
        }
    });
}
