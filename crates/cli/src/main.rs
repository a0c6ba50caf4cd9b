//! The `halocline` program: pools, tables, indexes and SQL from a shell.
//!
//! Output, exit codes and their invariants, which the programs share, are in `halocline-terminal`.

mod args;
mod commands;
mod demo;
mod external;
mod opening;
mod sql;

use std::process::ExitCode;

use clap::Parser;
use halocline_terminal::program;

use args::Cli;

fn main() -> ExitCode {
    let parsed = Cli::try_parse();
    program::run(|| match parsed {
        Ok(cli) => commands::run(cli.command),
        Err(error) => Err(external::run_unknown(&error)),
    })
}
