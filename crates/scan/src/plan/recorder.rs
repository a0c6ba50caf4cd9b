//! Recording of the table references of statements that are planned and not run.

use std::fmt::Debug;
use std::sync::Arc;

use halocline_catalog::OpenTable;
use halocline_catalog::settings::SessionSettings;

use super::access_path::{AccessPath, ScanRequest};
use super::conditions::Filters;

/// A table reference as it was planned.
pub struct RecordedScan<'a> {
    /// The table.
    pub open: &'a Arc<OpenTable>,
    /// Its filters.
    pub filters: &'a Filters,
    /// Everything else that was requested.
    pub request: &'a ScanRequest<'a>,
    /// The path that was chosen.
    pub path: &'a AccessPath,
}

/// Makes a session record the table references of what it plans.
pub fn record(settings: &mut SessionSettings, recorder: Arc<dyn ScanRecorder>) {
    settings.recorder = Some(Arc::new(recorder));
}

/// Returns the recorder of a session, if it has one.
pub fn recorder(settings: &SessionSettings) -> Option<&Arc<dyn ScanRecorder>> {
    settings.recorder.as_ref()?.downcast_ref()
}

/// Receives the table references of statements that are planned and not run.
pub trait ScanRecorder: Debug + Send + Sync {
    /// Records a table reference.
    fn record_scan(&self, scan: &RecordedScan<'_>);

    /// Notes that the rows of a table that the next references to it find are aggregated in one loop, unless
    /// an index finds them.
    fn note_aggregate(&self, _table: &str) {}

    /// Returns true if joins have to be planned with a scan of each table, so that all of them are recorded.
    fn needs_every_scan(&self) -> bool;
}
