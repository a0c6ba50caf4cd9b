//! The start and the end of a program, and the files of programs.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::{CliError, interrupt};

/// The exit code of a program that touched a part of a pool file that is no longer there.
const POOL_CUT_OFF: u8 = 4;

/// Runs a program whose command line is parsed: logs what `HALOCLINE_LOG` selects, listens to Ctrl-C, and
/// reports an error with its exit code. Call once.
pub fn run(main: impl FnOnce() -> Result<(), CliError>) -> ExitCode {
    let filter = EnvFilter::try_from_env("HALOCLINE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .without_time()
        .init();
    interrupt::listen();
    // Without the handler the system ends the process all the same, only silently.
    let _ = halocline_media::exit_on_bus_error(POOL_CUT_OFF);
    match main() {
        Ok(()) | Err(CliError::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere left to complain when stderr is gone too.
            let _ = write!(io::stderr(), "{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}

/// Returns the path of this program.
///
/// # Errors
/// The system does not tell it.
pub fn current() -> Result<PathBuf, CliError> {
    env::current_exe()
        .map_err(|error| CliError::failed(format!("cannot find this program's own file: {error}")))
}

/// Returns the path that a program of this name has beside this one, whether it is there or not.
///
/// # Errors
/// As [`current`].
pub fn beside(name: &str) -> Result<PathBuf, CliError> {
    Ok(current()?.with_file_name(name))
}
