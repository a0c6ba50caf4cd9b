//! What can be wrong with the description of an emulated medium.

use std::io;
use std::path::PathBuf;

use crate::profile::DeviceProfile;

/// An error in the name or the file of an emulated medium; each says what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatedError {
    /// The text does not begin with `emulated:`.
    #[error(
        "`{text}` is not an emulated medium; write emulated:PROFILE[:virtual|:delay][:absolute][:cache=MIB]"
    )]
    NotEmulated {
        /// The whole text.
        text: String,
    },
    /// No built-in profile has this name, and it is no file either.
    #[error(
        "there is no device profile `{name}`; choose one of {}, or give the path of a JSON file",
        known()
    )]
    UnknownProfile {
        /// What was asked for.
        name: String,
    },
    /// A word behind the profile is not known.
    #[error(
        "`{option}` is not an option of an emulated medium; use virtual, delay, absolute, cache=MIB, or ahead=LINES (at most 64)"
    )]
    UnknownOption {
        /// The word.
        option: String,
    },
    /// The profile's file cannot be read.
    #[error("cannot read the device profile {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The profile's file is not a profile.
    #[error("{} is not a device profile: {source}; docs/architecture.md shows one", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// A figure of the profile cannot be.
    #[error("the device profile `{name}` says {field} = {value}; it must be {must}")]
    Figure {
        /// The profile.
        name: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it should be.
        must: &'static str,
    },
}

fn known() -> String {
    DeviceProfile::names().join(", ")
}
