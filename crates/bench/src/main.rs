//! The `halocline-bench` program: the experiments from a command line, as `halocline bench`.
//!
//! Output, exit codes and their invariants, which `halocline` shares, are in `halocline-terminal`.

mod args;
mod commands;

use std::process::ExitCode;

use clap::Parser;
use halocline_terminal::program;

use args::BenchCli;

fn main() -> ExitCode {
    let cli = BenchCli::parse();
    program::run(|| commands::run(&cli))
}
