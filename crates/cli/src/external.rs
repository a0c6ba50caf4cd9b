//! Subcommands that are programs of their own: `halocline NAME` runs `halocline-NAME` if that program lies
//! beside this one.
//!
//! It takes the place of this process, so that signals and the exit code are its own. `args.rs` has the names
//! that help and completions show; any other one is found by its file.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use halocline_terminal::{CliError, program};

/// Runs the program of a subcommand. Returns only if it cannot be run.
pub(crate) fn run(name: &str, arguments: impl IntoIterator<Item = OsString>) -> CliError {
    let path = match path(name) {
        Ok(path) => path,
        Err(error) => return error,
    };
    if !path.is_file() {
        return CliError::with_hint(
            format!(
                "`{name}` is a program of its own, and there is no {}",
                path.display()
            ),
            format!(
                "`cargo build --release -p halocline-{name}` builds it, beside a `halocline` of that build"
            ),
        );
    }
    let error = Command::new(&path).args(arguments).exec();
    CliError::failed(format!("cannot run {}: {error}", path.display()))
}

/// Runs the program of a subcommand that the parser does not know. Where there is none, ends this process
/// with the error of the parser, or with the help that was asked for.
pub(crate) fn run_unknown(error: &clap::Error) -> CliError {
    let mut words = env::args_os().skip(1);
    let name = words.next().and_then(|word| word.into_string().ok());
    let is_there = |name: &str| path(name).is_ok_and(|path| path.is_file());
    match name {
        Some(name) if is_unknown(name.as_ref(), error) && is_there(&name) => run(&name, words),
        _ => error.exit(),
    }
}

/// Returns true if the parser took the name for that of a subcommand, and did not find it.
pub(crate) fn is_unknown(name: &OsStr, error: &clap::Error) -> bool {
    error.kind() == ErrorKind::InvalidSubcommand
        && matches!(
            error.get(ContextKind::InvalidSubcommand),
            Some(ContextValue::String(unknown)) if OsStr::new(unknown) == name
        )
}

fn path(name: &str) -> Result<PathBuf, CliError> {
    program::beside(&format!("halocline-{name}"))
}
