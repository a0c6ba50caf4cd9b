//! Errors in the description of an emulated medium.

use std::io;
use std::path::PathBuf;

use crate::profile::DeviceProfile;

/// An error in the name or the profile file of an emulated medium.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatedError {
    /// The text does not begin with `emulated:`.
    #[error(
        "`{text}` is not an emulated medium; \
         write emulated:PROFILE[:virtual|:delay][:absolute][:cache=MIB][:ahead=LINES]"
    )]
    NotEmulated {
        /// The whole text.
        text: String,
    },
    /// The name is neither a built-in profile nor the path of a file.
    #[error(
        "device profile `{name}` does not exist; choose one of {}, or give the path of a JSON file",
        known()
    )]
    UnknownProfile {
        /// The name or path.
        name: String,
    },
    /// The specification has an unknown option.
    #[error(
        "`{option}` is not an option of an emulated medium; \
         use virtual, delay, absolute, cache=MIB, or ahead=LINES (at most 64)"
    )]
    UnknownOption {
        /// The option.
        option: String,
    },
    /// The profile file cannot be read.
    #[error("cannot read the device profile {}: {source}; check the path and its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The profile file is not a valid profile.
    #[error("{} is not a device profile: {source}; docs/architecture.md has an example", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A figure of the profile is out of range.
    #[error("the device profile `{name}` has {field} = {value}, which must be {must}; correct the profile")]
    Figure {
        /// The profile.
        name: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The valid range.
        must: &'static str,
    },
}

fn known() -> String {
    DeviceProfile::names().join(", ")
}
