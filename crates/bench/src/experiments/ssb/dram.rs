//! How much DRAM the queries take: the peak of anonymous resident pages of a process that opens the pool and
//! runs them, which the mapped pages of the pool are not among.

use halocline_workloads::ssb_queries;

use super::data::Sizes;
use super::variant::PoolSpec;
use crate::experiments::sql::{NO_DRAM, query_peak};
use crate::{BenchError, Reporter, Settings};

/// The peaks of one pool, in bytes.
pub(super) struct Peak {
    pub(super) stored: PoolSpec,
    pub(super) threads: usize,
    /// Of a process that runs all queries.
    pub(super) all: u64,
    /// Of one that only opens the pool.
    pub(super) opened: u64,
}

/// Measures the peaks of all pools of the largest scale factor. The list is empty if [`Settings::program`] is
/// not set.
pub(super) fn peaks(
    stored: &[Sizes],
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<Vec<Peak>, BenchError> {
    if settings.program.is_none() {
        report.line(NO_DRAM)?;
        return Ok(vec![]);
    }
    let largest = stored
        .iter()
        .map(|sizes| sizes.stored.scale_factor)
        .fold(0.0, f64::max);
    let queries: Vec<&str> = ssb_queries().iter().map(|query| query.sql).collect();
    let of_largest = stored.iter().filter(|sizes| sizes.stored.scale_factor == largest);
    of_largest
        .map(|sizes| {
            let peak = |statements: &str| query_peak(&sizes.path, statements, settings);
            Ok(Peak {
                stored: sizes.stored.clone(),
                threads: settings.threads(),
                all: peak(&queries.join(";\n"))?,
                opened: peak("SELECT count(*) FROM supplier")?,
            })
        })
        .collect()
}
