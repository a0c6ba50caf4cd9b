//! `halocline-memcached`: a memcached server over a pool.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use halocline_memcached::MemcachedArgs;
use tracing_subscriber::EnvFilter;

/// A memcached server whose items survive crashes and are there again at once.
#[derive(Debug, Parser)]
#[command(name = "halocline-memcached", version, disable_help_flag = true)]
struct Command {
    #[command(flatten)]
    args: MemcachedArgs,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let filter = EnvFilter::try_from_env("HALOCLINE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    match command.args.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere left to complain when stderr is gone too.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
