//! Recording of the table references of statements that are planned and not run.

use std::fmt::Debug;
use std::sync::Arc;

use super::access_path::{AccessPath, ScanRequest};
use super::conditions::Filters;
use crate::catalog::OpenTable;

/// A table reference as it was planned.
pub(crate) struct RecordedScan<'a> {
    /// The table.
    pub(crate) open: &'a Arc<OpenTable>,
    /// Its filters.
    pub(crate) filters: &'a Filters,
    /// Everything else that was requested.
    pub(crate) request: &'a ScanRequest<'a>,
    /// The path that was chosen.
    pub(crate) path: &'a AccessPath,
}

/// Receives the table references of statements that are planned and not run.
pub(crate) trait ScanRecorder: Debug + Send + Sync {
    /// Records a table reference.
    fn record_scan(&self, scan: &RecordedScan<'_>);

    /// Notes that the rows of a table that the next references to it find are aggregated in one loop, unless
    /// an index finds them.
    fn note_aggregate(&self, _table: &str) {}

    /// Returns true if joins have to be planned with a scan of each table, so that all of them are recorded.
    fn needs_every_scan(&self) -> bool;
}
