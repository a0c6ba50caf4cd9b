//! Closing a tree: its nodes get checksums that are valid until its next write.
//!
//! A tree is closed when it is dropped. If its medium has failed, or if the thread is panicking, it is
//! left as after a crash.

use halocline_pool::{NodeAtRest, Slab};

use crate::damaged::DamagedNodes;

/// Fault injection for closing.
pub(crate) mod fault {
    halocline_faults::faults! {
        /// Rules of closing a tree that a test can break.
        pub(crate) enum CloseFault {
            /// A tree is dropped as if its process died.
            Unsealed,
            /// A tree is written while its slab says that it is closed.
            StayClosed,
            /// Nodes that were found damaged get checksums as if they were intact.
            SealDamaged,
        }
    }
}

use fault::{CloseFault, injected};

/// Returns true if a tree that is dropped should be closed.
pub(crate) fn is_closing(slab: &Slab, has_failed: bool) -> bool {
    !(slab.is_read_only() || has_failed || std::thread::panicking() || injected(CloseFault::Unsealed))
}

/// Closes the slab of a tree. `is_known` returns true for nodes that were written or checked since the
/// tree was opened.
pub(crate) fn seal(slab: &mut Slab, damaged_nodes: &DamagedNodes, is_known: impl Fn(u64) -> bool) {
    let closed_before = slab.sums().is_some();
    // On an error the slab is left as not closed, which the next opening handles; the pool logs it.
    let _ = slab.seal(|node| {
        if injected(CloseFault::SealDamaged) {
            NodeAtRest::Current
        } else if damaged_nodes.has_at(node) {
            NodeAtRest::Damaged
        } else if is_known(node) {
            NodeAtRest::Current
        } else if closed_before {
            NodeAtRest::Untouched
        } else {
            // Unreachable because of a damaged node.
            NodeAtRest::Damaged
        }
    });
}
