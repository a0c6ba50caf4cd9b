//! Modes of opening a tree, and rules for stores during opening.

use halocline_pool::{Pool, Slab, SlabRecovery};

use crate::TreeError;

/// A mode of opening a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// For reading and writing.
    Write,
    /// For reading and writing, even if power loss may have destroyed unsynced writes.
    Accept,
    /// For reading, alongside other readers.
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

/// Permits the first store that completes a change which a crash has interrupted.
///
/// # Errors
/// [`TreeError::NeedsRecovery`] in a tree that is opened read-only, [`TreeError::Pool`].
pub(crate) fn begin_repair(slab: &Slab) -> Result<(), TreeError> {
    if slab.is_read_only() {
        return Err(TreeError::NeedsRecovery {
            name: slab.name().to_owned(),
        });
    }
    Ok(slab.begin_writing()?)
}

/// Damage of a node whose bytes have changed since its tree was closed.
pub(crate) const NOT_AS_CLOSED: &str = "its bytes have changed since the tree was closed";

/// Returns true if a node contradicts its checksum. Checksums exist from the closing of a tree until its next
/// write.
#[inline]
pub(crate) fn has_changed(slab: &Slab, node: u64) -> bool {
    slab.sums().is_some_and(|sums| !sums.matches(node))
}
