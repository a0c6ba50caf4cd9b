//! How much DRAM queries take.

use std::ffi::OsString;
use std::path::Path;

use crate::experiments::memory::peak_of;
use crate::{BenchError, Settings};

/// Says that [`query_peak`] has no program to measure.
pub(in crate::experiments) const NO_DRAM: &str = "DRAM is not measured: that takes the program `halocline` beside this one; `cargo build --release` builds it";

/// Returns the peak of anonymous resident pages of a process that opens the pool and runs the statements. The
/// mapped pages of the pool are not among them.
///
/// # Errors
/// The settings name no program, or it fails.
pub(in crate::experiments) fn query_peak(
    pool: &Path,
    statements: &str,
    settings: &Settings,
) -> Result<u64, BenchError> {
    let mut arguments = vec![OsString::from("sql"), pool.as_os_str().to_owned()];
    let threads = settings.threads().to_string();
    let options = [
        statements,
        "--read-only",
        "--output",
        "csv",
        "--threads",
        &threads,
    ];
    arguments.extend(options.map(OsString::from));
    peak_of(settings, &arguments)
}
