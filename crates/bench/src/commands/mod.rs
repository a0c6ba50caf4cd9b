//! One module per command.

mod experiment;
mod internal;
mod kv;

use halocline_terminal::CliError;

use crate::args::{BenchCli, BenchCommand};

/// Runs a command.
pub(crate) fn run(cli: &BenchCli) -> Result<(), CliError> {
    match &cli.command {
        None => experiment::run(&cli.args),
        Some(BenchCommand::Kv(args)) => kv::run(args),
        Some(BenchCommand::Internal(step)) => internal::run(step),
    }
}
