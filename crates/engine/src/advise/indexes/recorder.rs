//! The table references of the workload's queries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::OpenTable;
use crate::config::IndexMode;
use crate::plan::{Filters, RecordedScan, ScanRecorder, ScanRequest, WhatIf};

/// A table reference of a query.
#[derive(Debug, Clone)]
pub(super) struct QueryScan {
    /// Position of the query.
    pub(super) query: usize,
    pub(super) open: Arc<OpenTable>,
    pub(super) filters: Filters,
    projection: Vec<usize>,
    limit: Option<usize>,
    threads: usize,
}

impl QueryScan {
    /// Returns the comparison of its access paths.
    pub(super) fn what_if(&self) -> WhatIf<'_> {
        WhatIf {
            open: &self.open,
            filters: &self.filters,
            request: ScanRequest {
                projection: &self.projection,
                limit: self.limit,
                mode: IndexMode::Auto,
                threads: self.threads,
                // Rows without a column are counted.
                aggregates: self.projection.is_empty(),
            },
        }
    }
}

/// Records the table references of queries that are planned one after the other.
#[derive(Debug, Default)]
pub(super) struct WorkloadRecorder {
    /// Position of the current query, and the table references of all.
    recorded: Mutex<(usize, Vec<QueryScan>)>,
}

impl WorkloadRecorder {
    fn recorded(&self) -> MutexGuard<'_, (usize, Vec<QueryScan>)> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which query is planned next.
    pub(super) fn begin(&self, query: usize) {
        self.recorded().0 = query;
    }

    /// Returns the recorded table references and forgets them.
    pub(super) fn take(&self) -> Vec<QueryScan> {
        std::mem::take(&mut self.recorded().1)
    }
}

impl ScanRecorder for WorkloadRecorder {
    fn record_scan(&self, scan: &RecordedScan<'_>) {
        let mut recorded = self.recorded();
        let query = recorded.0;
        recorded.1.push(QueryScan {
            query,
            open: Arc::clone(scan.open),
            filters: scan.filters.clone(),
            projection: scan.request.projection.to_vec(),
            limit: scan.request.limit,
            threads: scan.request.threads,
        });
    }

    fn needs_every_scan(&self) -> bool {
        true
    }
}
