//! The `halocline` program: pools, tables, indexes and SQL from a shell.
//!
//! Output, exit codes and their invariants, which the programs share, are in `halocline-terminal`.

mod args;
mod command_line;
mod commands;
mod demo;
mod external;
mod opening;
mod sql;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use halocline_terminal::program;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().collect();
    let parsed = command_line::parse(&arguments);
    program::run(|| match parsed {
        Ok(command) => commands::run(command),
        Err(error) => Err(external::run_unknown(&error)),
    })
}
