//! Errors of profile files: [`ProfileError`].

use std::io;
use std::path::PathBuf;

/// An error of a profile file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the profile {}: {source}; check the path and its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the profile {}: {source}; check the path and its permissions", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a profile.
    #[error(
        "{} is not a profile: {source}; remove it, or write it again with `halocline calibrate`",
        path.display()
    )]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A field of the profile is out of range or contradicts others.
    #[error(
        "the profile {} is inconsistent: {field} {defect}; remove it, or write it again with \
         `halocline calibrate`",
        path.display()
    )]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// The field, as `warm.read[0].bytes_per_second`.
        field: String,
        /// The value, and the reason it is refused.
        defect: String,
    },
}
