//! Selections through an index, kept as conditions on values so that they can be translated for later
//! versions of the index.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_schema::FieldRef;
use halocline_columns::CodePredicate;
use halocline_elf::{Query, TableIndex};

use crate::catalog::OpenIndex;
use crate::filter::{ColumnCondition, both};
use crate::plan::{AccessPath, RecordedScan, ScanRecorder};

/// A selection: its conditions, each with the field of its column.
#[derive(Debug, Clone)]
pub(crate) struct IndexSelection(Vec<(FieldRef, ColumnCondition)>);

impl IndexSelection {
    /// Creates a selection of at least one condition.
    pub(crate) fn new(conditions: Vec<(FieldRef, ColumnCondition)>) -> Self {
        Self(conditions)
    }

    /// Translates the selection to a predicate for each dimension of a segment.
    fn predicates(&self, index: &TableIndex, segment: usize) -> Vec<CodePredicate> {
        let mut predicates = vec![CodePredicate::Any; index.columns().len()];
        for (field, condition) in &self.0 {
            let columns = index.columns().iter();
            let Some(dimension) = columns.clone().position(|column| *column == condition.column) else {
                continue;
            };
            let space = index.segments()[segment].space(dimension);
            let merged = condition
                .translate(field, space)
                .and_then(|codes| both(&predicates[dimension], &codes, space.max_code()));
            if let Some(merged) = merged {
                predicates[dimension] = merged;
            }
        }
        predicates
    }
}

/// Translates the selections to queries on each segment.
pub(super) fn sample<'a>(
    selections: impl Iterator<Item = &'a IndexSelection> + Clone,
    index: &TableIndex,
) -> Vec<Vec<Query>> {
    let of_segment = |segment| {
        let queries = selections
            .clone()
            .map(|selection| Query::Select(selection.predicates(index, segment)));
        queries.collect()
    };
    (0..index.segments().len()).map(of_segment).collect()
}

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
