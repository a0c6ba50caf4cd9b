//! Steps that need a process of their own.

use std::io::{self, Write};

use halocline_bench::BenchError;
use halocline_measure::reopen;
use halocline_terminal::CliError;

use crate::args::InternalStep;

pub(super) fn run(step: &InternalStep) -> Result<(), CliError> {
    let InternalStep::Reopen { pool, query, medium } = step;
    let medium = medium.as_deref().map(serde_json::from_str).transpose();
    let medium = medium.map_err(|error| CliError::failed(format!("no medium: {error}")))?;
    let measured = reopen::measure(pool, query, medium.as_ref()).map_err(BenchError::from)?;
    let text = serde_json::to_string(&measured).map_err(|error| CliError::failed(error.to_string()))?;
    Ok(writeln!(io::stdout(), "{text}")?)
}
