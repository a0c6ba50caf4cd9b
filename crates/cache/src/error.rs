//! What can be wrong with a placement.

use thiserror::Error;

/// A placement that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// No placement is written like this.
    #[error(
        "`{text}` is no placement: write slow-only, hybrid, volatile, static, static:LEVELS, dynamic[:POLICY], \
         static+dynamic[:POLICY], dual-access or auto"
    )]
    UnknownPlacement {
        /// What was written.
        text: String,
    },
    /// No replacement policy has this name.
    #[error(
        "`{name}` is no replacement policy: use one of {}",
        crate::PolicyKind::names()
    )]
    UnknownPolicy {
        /// What was written.
        name: String,
    },
    /// A number of levels that is none.
    #[error("`{text}` is no number of levels: write for example static:3")]
    UnknownLevels {
        /// What was written.
        text: String,
    },
}
