//! The `halocline` program: pools, tables, indexes and SQL from a shell.
//!
//! Invariants:
//! - answers go to stdout, everything else (errors, hints, progress, timings) to stderr;
//! - the exit code is 0 for success, 1 for an error, 2 for a wrong command line, 3 for a key that is not
//!   there, 4 where the pool was cut off while it was read, 130 after Ctrl-C;
//! - a reader that closes the pipe early ends the program silently, as a success.

mod args;
mod commands;
mod demo;
mod error;
mod interrupt;
mod opening;
mod output;
mod program;
mod progress;
mod size;
mod sql;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::Cli;
use error::CliError;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("HALOCLINE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .without_time()
        .init();
    interrupt::listen();
    // Without the handler the system ends the process all the same, only silently.
    let _ = halocline_media::exit_on_bus_error(error::POOL_CUT_OFF);
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere left to complain when stderr is gone too.
            let _ = write!(io::stderr(), "{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}
