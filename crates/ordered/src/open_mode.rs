//! What a tree is opened for, and what opening may store.

use halocline_pool::{Pool, Slab, SlabRecovery};

use crate::TreeError;

/// What a tree is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// To read and write it.
    Write,
    /// The same, whatever power loss has left of it.
    Accept,
    /// To read it, beside other readers.
    Read,
}

impl OpenMode {
    /// Opens the slab of a tree.
    ///
    /// # Errors
    /// As [`Pool::open_slab`].
    pub(crate) fn slab(self, pool: &Pool, name: &str, owner: [u8; 8]) -> Result<SlabRecovery, TreeError> {
        Ok(match self {
            OpenMode::Write => pool.open_slab(name, owner)?,
            OpenMode::Accept => pool.open_slab_unsynced(name, owner)?,
            OpenMode::Read => pool.open_slab_read_only(name, owner)?,
        })
    }
}

/// Called before the first store that finishes what a crash has left half done.
///
/// # Errors
/// [`TreeError::NeedsRecovery`] in a tree that is opened to be read, [`TreeError::Pool`].
pub(crate) fn may_finish(slab: &Slab) -> Result<(), TreeError> {
    if slab.is_read_only() {
        return Err(TreeError::NeedsRecovery {
            name: slab.name().to_owned(),
        });
    }
    Ok(slab.begin_writing()?)
}

/// What is wrong with a node whose bytes have changed since its tree was closed.
pub(crate) const NOT_AS_CLOSED: &str = "its bytes are not those it had when the tree was closed";

/// Whether a node may have changed since its tree was closed, by its checksum, if it has one that holds.
#[inline]
pub(crate) fn has_changed(slab: &Slab, node: u64) -> bool {
    slab.sums().is_some_and(|sums| !sums.matches(node))
}
