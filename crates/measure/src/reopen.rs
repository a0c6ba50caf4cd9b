//! Opening a pool as after a restart: in a process that knows nothing yet.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;

use arrow_schema::ArrowError;
use halocline_emulator::{Device, EmulatedSpec, Watch};
use halocline_engine::{Database, DatabaseOptions, EngineError};
use halocline_media::MediaError;
use serde::{Deserialize, Serialize};

use crate::{answer, machine};

/// Why a restart was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReopenError {
    /// The new process, or threads of this one, cannot be started.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The pool does not open, or the query fails.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The emulated medium reports an error.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The answer cannot be formatted.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The new process failed, or printed something else than it should.
    #[error("{0}")]
    Process(String),
}

/// How long a restart took, and what it answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reopened {
    /// Opening the pool, in milliseconds.
    pub open_ms: f64,
    /// The first query, from its text to its last row, in milliseconds.
    pub first_query_ms: f64,
    /// The same query once more, in milliseconds.
    pub second_query_ms: f64,
    /// DRAM that the process holds for itself after the second query (anonymous resident pages), in bytes;
    /// 0 where the kernel does not say.
    pub dram_bytes: u64,
    /// The answer, one line per row.
    pub answer: Vec<String>,
}

/// Opens the pool, on an emulated medium if one is given, and runs the query twice, in this process.
///
/// # Errors
/// The pool does not open, or the query fails.
pub fn measure(pool: &Path, query: &str, medium: Option<&EmulatedSpec>) -> Result<Reopened, ReopenError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let options = DatabaseOptions::default().with_read_only(true);
    let device = medium.map(Device::new).transpose()?;
    let watch = || Watch::start(device.as_ref());
    let opening = watch();
    let database = match &device {
        None => Database::open(pool, &options)?,
        Some(device) => Database::open_emulated(pool, &options, device)?,
    };
    let open_ms = milliseconds(&opening);
    let run = || runtime.block_on(async { database.sql(query).await?.collect().await });
    let asking = watch();
    let answer = answer::lines(&run()?)?;
    let first_query_ms = milliseconds(&asking);
    let asking = watch();
    run()?;
    let second_query_ms = milliseconds(&asking);
    let dram_bytes = machine::anonymous_dram().unwrap_or(0);
    Ok(Reopened {
        open_ms,
        first_query_ms,
        second_query_ms,
        dram_bytes,
        answer,
    })
}

/// Runs [`measure`] in a fresh process: `command` with the pool, the query and `--medium` with the medium as
/// JSON added. An empty `command` measures in this process.
///
/// # Errors
/// The process cannot be started, fails, or does not print what it should.
pub fn measure_in_process(
    command: &[OsString],
    pool: &Path,
    query: &str,
    medium: Option<&EmulatedSpec>,
) -> Result<Reopened, ReopenError> {
    let Some((program, arguments)) = command.split_first() else {
        return measure(pool, query, medium);
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(pool).arg(query);
    if let Some(medium) = medium {
        let medium = serde_json::to_string(medium).map_err(io::Error::from)?;
        command.arg("--medium").arg(medium);
    }
    let output = command.output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let text = text.trim().trim_start_matches("error: ").to_owned();
        return Err(ReopenError::Process(format!(
            "opening {} in a new process: {text}",
            pool.display()
        )));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| ReopenError::Process(format!("the new process printed something else: {error}")))
}

fn milliseconds(watch: &Watch) -> f64 {
    watch.elapsed().as_secs_f64() * 1e3
}
