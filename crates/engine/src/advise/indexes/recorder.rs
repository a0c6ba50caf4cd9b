//! The table references of the workload's queries.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halocline_catalog::OpenTable;
use halocline_catalog::settings::FeatureMode;
use halocline_scan::plan::{Filters, RecordedScan, ScanRecorder, ScanRequest, WhatIf};

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
    /// True if its rows are aggregated in one loop, unless an index finds them.
    aggregates: bool,
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
                mode: FeatureMode::Auto,
                threads: self.threads,
                aggregates: self.aggregates,
            },
        }
    }
}

/// Records the table references of queries that are planned one after the other.
#[derive(Debug, Default)]
pub(super) struct WorkloadRecorder {
    recorded: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    /// Position of the current query.
    query: usize,
    /// The tables of which it aggregates rows.
    aggregated: BTreeSet<String>,
    /// The table references of all queries.
    scans: Vec<QueryScan>,
}

impl WorkloadRecorder {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which query is planned next.
    pub(super) fn begin(&self, query: usize) {
        let mut recorded = self.recorded();
        recorded.query = query;
        recorded.aggregated.clear();
    }

    /// Returns the recorded table references and forgets them.
    pub(super) fn take(&self) -> Vec<QueryScan> {
        std::mem::take(&mut self.recorded().scans)
    }
}

impl ScanRecorder for WorkloadRecorder {
    fn record_scan(&self, scan: &RecordedScan<'_>) {
        let mut recorded = self.recorded();
        let of_query = QueryScan {
            query: recorded.query,
            open: Arc::clone(scan.open),
            filters: scan.filters.clone(),
            projection: scan.request.projection.to_vec(),
            limit: scan.request.limit,
            threads: scan.request.threads,
            aggregates: recorded.aggregated.contains(scan.open.table.name()),
        };
        recorded.scans.push(of_query);
    }

    fn note_aggregate(&self, table: &str) {
        self.recorded().aggregated.insert(table.to_owned());
    }

    fn needs_every_scan(&self) -> bool {
        true
    }
}
