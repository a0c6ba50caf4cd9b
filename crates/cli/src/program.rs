//! The program's own file, for steps that run in processes of their own.

use std::env;
use std::path::PathBuf;

use crate::error::CliError;

/// Returns the path of this program.
///
/// # Errors
/// The system does not tell it.
pub(crate) fn current_program() -> Result<PathBuf, CliError> {
    env::current_exe()
        .map_err(|error| CliError::failed(format!("cannot find this program's own file: {error}")))
}
