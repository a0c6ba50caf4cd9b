//! Estimates of the rows that a table reference selects, and of the values that are left in its columns.
//!
//! Conditions that an index or the scan kernels answer are estimated by codes: through the upper levels of
//! the index, or as shares of the codes of each segment. All others are estimated by the statistics of the
//! table.

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use halocline_catalog::OpenTable;
use halocline_catalog::estimate::of_statistics;
use halocline_catalog::settings::FeatureMode;
use halocline_columns::CodePredicate;
use halocline_costs::cardinality::{ColumnEstimate, PlanEstimate};

use super::access_path::{AccessPath, ScanRequest, choose_access_path};
use super::conditions::{Filters, ScanPredicate};
use super::cost;
use super::table::PoolTable;
use crate::estimate::{ColumnLookup, conjunction_of};

/// The estimate of a selection.
#[derive(Debug, Clone, Default)]
pub struct SelectionEstimate {
    /// Number of rows, those of the delta included.
    pub rows: f64,
    /// The columns that conditions restrict, with the share of their values that is left.
    pub shares: Vec<(usize, f64)>,
}

impl SelectionEstimate {
    /// Estimates the rows that a selection yields along an access path.
    pub fn for_path(open: &OpenTable, filters: &Filters, path: &AccessPath) -> Self {
        let (answered, rows) = match path {
            AccessPath::Index { pushdown, rows, .. } => (&pushdown.answered[..], *rows),
            AccessPath::Scan { rows, .. } => (&[][..], *rows),
        };
        let delta = open.delta.as_ref().map_or(0, |delta| delta.live_rows()) as f64;
        if filters.conditions.is_empty() && filters.others.is_empty() {
            return Self {
                rows: rows + delta,
                shares: Vec::new(),
            };
        }
        let table = table_estimate(open);
        let columns = TableColumns { open, table: &table };
        // Conditions that neither the index nor the kernels answer.
        let conditions = filters.conditions.iter().enumerate();
        let residual = conditions.filter(|(at, (_, translation))| {
            let is_answered = answered.get(*at).is_some_and(|answered| *answered);
            !is_answered && translation.scan.is_none()
        });
        let residual = residual.map(|(_, (condition, _))| &condition.expr);
        let residual: Vec<&Expr> = residual.chain(&filters.others).collect();
        let share = conjunction_of(&residual, &columns);
        // The delta is about as selective as the rest.
        let stored = open.table.live_rows().max(1) as f64;
        Self {
            rows: (rows + delta * (rows / stored).min(1.0)) * share,
            shares: shares(open, filters, &columns),
        }
    }
}

impl PoolTable {
    /// Estimates a selection before its access path is needed: the columns are those of the table.
    pub fn estimate(&self, filters: &[Expr], mode: FeatureMode) -> PlanEstimate {
        let open = self.open();
        let mut table = table_estimate(open);
        // The address of a row.
        let rows = table.rows;
        table
            .columns
            .resize_with(self.fields(), || ColumnEstimate::with_distinct(rows));
        if filters.is_empty() {
            return table;
        }
        let filters = Filters::read(filters, open, self.translations());
        let request = ScanRequest {
            projection: &[],
            limit: None,
            mode,
            // It decides between access paths, of which the estimates differ little.
            threads: 1,
            aggregates: false,
        };
        let Ok(path) = choose_access_path(open, &filters, &request) else {
            return table;
        };
        let selection = SelectionEstimate::for_path(open, &filters, &path);
        table.select(selection.rows.min(table.rows), &selection.shares);
        table
    }
}

/// Returns the estimate of a whole table, whose damage is reported when it is read.
fn table_estimate(open: &OpenTable) -> PlanEstimate {
    match open.statistics() {
        Ok(statistics) => of_statistics(&statistics),
        Err(_) => PlanEstimate::unknown(open.table.schema().fields().len()),
    }
}

/// The columns of a table, by name.
struct TableColumns<'t> {
    open: &'t OpenTable,
    table: &'t PlanEstimate,
}

impl ColumnLookup for TableColumns<'_> {
    fn column(&self, column: &Column) -> Option<&ColumnEstimate> {
        let at = self.open.table.schema().index_of(&column.name).ok()?;
        self.table.columns.get(at)
    }
}

/// Returns the columns that conditions restrict, with the share of the values that is left: by codes where
/// all conditions of a column are translated to them.
fn shares(open: &OpenTable, filters: &Filters, columns: &TableColumns<'_>) -> Vec<(usize, f64)> {
    let mut numbers: Vec<usize> = filters
        .conditions
        .iter()
        .map(|(condition, _)| condition.column)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let share = |number: usize| {
        let of_column = || {
            let conditions = filters.conditions.iter();
            conditions.filter(move |(condition, _)| condition.column == number)
        };
        let by_codes = of_column()
            .map(|(_, translation)| codes(translation.scan.as_deref()?))
            .collect::<Option<Vec<_>>>();
        match by_codes {
            Some(predicates) => share_of_codes(open, number, &predicates),
            None => {
                let conditions: Vec<&Expr> = of_column().map(|(condition, _)| &condition.expr).collect();
                conjunction_of(&conditions, columns)
            }
        }
    };
    numbers
        .into_iter()
        .map(|number| (number, share(number)))
        .collect()
}

/// Returns the predicates on codes; `None` unless all are.
fn codes(predicates: &[ScanPredicate]) -> Option<Vec<&CodePredicate>> {
    let predicates = predicates.iter().map(|predicate| match predicate {
        ScanPredicate::Codes(codes) => Some(codes),
        ScanPredicate::Strings(_) => None,
    });
    predicates.collect()
}

/// Returns the share of the values of a column that predicates on its codes leave, on average over the
/// segments. `predicates` has one for each condition and segment.
fn share_of_codes(open: &OpenTable, column: usize, predicates: &[Vec<&CodePredicate>]) -> f64 {
    let (mut left, mut all) = (0.0, 0.0);
    for (number, segment) in open.table.segments().iter().enumerate() {
        let rows = segment.rows() as f64;
        all += rows;
        let Some(space) = segment.column(column).code_space() else {
            left += rows;
            continue;
        };
        let mut merged = CodePredicate::Any;
        for predicate in predicates.iter().filter_map(|segments| segments.get(number)) {
            merged = merged.and(predicate);
        }
        left += rows * cost::selectivity(&merged, space);
    }
    if all > 0.0 { left / all } else { 1.0 }
}
