//! Errors of merges: [`MergeError`].

use halocline_media::MediaError;
use halocline_pool::PoolError;

use crate::tree::Damage;

/// An error of a merge, which has changed nothing that is valid.
#[derive(Debug)]
pub(crate) enum MergeError {
    Damage(Damage),
    Pool(PoolError),
    Media(MediaError),
}

impl MergeError {
    /// Returns true if there was no page to allocate: the disk is full, or another writer of the pool does
    /// not let the slab grow.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(
            self,
            Self::Pool(PoolError::DiskFull { .. } | PoolError::Locked { .. })
        )
    }
}

impl From<Damage> for MergeError {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl From<PoolError> for MergeError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<MediaError> for MergeError {
    fn from(error: MediaError) -> Self {
        Self::Media(error)
    }
}

pub(super) type Result<T, E = MergeError> = std::result::Result<T, E>;
