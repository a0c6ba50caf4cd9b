//! The costs of access paths that may not exist, by the model that chooses among those that do.

use halocline_catalog::OpenTable;
use halocline_columns::CodePredicate;
use halocline_costs::access::index::{self, SegmentSelection};
use halocline_sql::EngineError;

use super::access_path::ScanRequest;
use super::conditions::{Filters, RemainingFilters, ScanPredicate};
use super::cost;
use super::path_cost::{estimated_rows, evaluate, scan_cost, segment_cost};

/// A table reference whose access paths are compared. Costs are in nanoseconds.
pub struct WhatIf<'a> {
    /// The table.
    pub open: &'a OpenTable,
    /// Its filters.
    pub filters: &'a Filters,
    /// Everything else that is requested of it.
    pub request: ScanRequest<'a>,
}

impl WhatIf<'_> {
    /// Returns the filters that an index leaves if it answers these conditions.
    pub fn remaining(&self, answered: &[bool]) -> RemainingFilters {
        self.filters.remaining(answered, self.open.table.segments().len())
    }

    /// Returns the estimated number of rows of a scan.
    pub fn scan_rows(&self) -> f64 {
        estimated_rows(self.open, &self.without_index())
    }

    /// Returns the cost of a scan if `rows` rows match.
    pub fn scan_cost(&self, rows: f64) -> f64 {
        scan_cost(self.open, &self.without_index(), &self.request, rows)
    }

    /// Returns the cost of the access to a segment through an index whose selection has this estimate.
    pub fn segment_cost(&self, remaining: &RemainingFilters, at: usize, selection: SegmentSelection) -> f64 {
        segment_cost(self.open, &self.request, remaining, at, selection).1
    }

    /// Returns the cost of an access through an index besides those of the segments.
    pub fn aggregate_cost(&self) -> f64 {
        index::aggregate(self.request.aggregates)
    }

    /// Returns the costs of the indexes of the table that can be used, each with its position.
    ///
    /// # Errors
    /// An index is damaged.
    pub fn index_costs(&self) -> Result<Vec<(usize, f64)>, EngineError> {
        let mut costs = Vec::new();
        for (number, index) in self.open.indexes.iter().enumerate() {
            let Some(index) = index.now() else { continue };
            let segments = self.open.table.segments().len();
            let pushdown = self.filters.for_index(number, &index, segments);
            if pushdown.constrained.contains(&true) {
                let (filters, request) = (self.filters, &self.request);
                let candidate = evaluate(self.open, filters, request, (number, &index), pushdown, None)?;
                costs.push((candidate.number, candidate.cost));
            }
        }
        Ok(costs)
    }

    fn without_index(&self) -> RemainingFilters {
        self.remaining(&vec![false; self.filters.conditions.len()])
    }
}

/// Returns the estimated share of the rows of a segment whose codes of a column satisfy all of the given
/// conditions; `None` if the column has no codes.
pub fn column_share(
    open: &OpenTable,
    filters: &Filters,
    conditions: &[usize],
    at: usize,
    column: usize,
) -> Option<f64> {
    let space = open.table.segments()[at].column(column).code_space()?;
    let mut merged = CodePredicate::Any;
    for condition in conditions {
        let (_, translation) = &filters.conditions[*condition];
        if let Some(ScanPredicate::Codes(codes)) = translation.scan.as_ref().and_then(|scan| scan.get(at)) {
            merged = merged.and(codes);
        }
    }
    Some(cost::selectivity(&merged, space))
}
