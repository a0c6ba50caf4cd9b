//! The selections of planned statements that one index could answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use halocline_catalog::OpenIndex;
use halocline_catalog::selections::IndexSelection;
use halocline_scan::plan::{AccessPath, RecordedScan, ScanRecorder};

/// A selection of a planned statement.
#[derive(Debug, Clone)]
pub(crate) struct RecordedSelection {
    /// Number of the statement, from 1.
    pub(crate) statement: usize,
    pub(crate) selection: IndexSelection,
    /// True if the planner chose the index for it.
    pub(crate) chosen: bool,
}

/// Records the selections that one index could answer, of statements that are planned with it.
#[derive(Debug)]
pub(crate) struct SelectionRecorder {
    index: String,
    /// Number of the current statement, and the selections of all.
    recorded: Mutex<(usize, Vec<RecordedSelection>)>,
}

impl SelectionRecorder {
    pub(crate) fn new(index: &str) -> Self {
        Self {
            index: index.to_owned(),
            recorded: Mutex::default(),
        }
    }

    fn recorded(&self) -> MutexGuard<'_, (usize, Vec<RecordedSelection>)> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next statement.
    pub(crate) fn next_statement(&self) {
        self.recorded().0 += 1;
    }

    /// Returns the recorded selections and forgets them.
    pub(crate) fn take(&self) -> Vec<RecordedSelection> {
        std::mem::take(&mut self.recorded().1)
    }
}

impl ScanRecorder for SelectionRecorder {
    fn record_scan(&self, scan: &RecordedScan<'_>) {
        let is_it = |index: &OpenIndex| index.name == self.index && index.index.is_ok();
        let Some(number) = scan.open.indexes.iter().position(is_it) else {
            return;
        };
        let Some(selection) = scan.filters.index_selection(number, scan.open) else {
            return;
        };
        let mut recorded = self.recorded();
        let statement = recorded.0;
        recorded.1.push(RecordedSelection {
            statement,
            selection,
            chosen: matches!(scan.path, AccessPath::Index { number: chosen, .. } if *chosen == number),
        });
    }

    fn needs_every_scan(&self) -> bool {
        false
    }
}
