//! The choice between an index and a scan, with the reason for EXPLAIN.

use std::sync::Arc;

use halocline_elf::TableIndex;

use super::conditions::{Filters, IndexPushdown, RemainingFilters};
use super::cost::{self, IndexSelection};
use crate::EngineError;
use crate::catalog::{OpenIndex, OpenTable};
use crate::config::IndexMode;

/// The method by which the rows of a table reference are located.
pub(crate) enum AccessPath {
    /// Through an index.
    Index {
        /// Its position among the indexes of the table.
        number: usize,
        /// The index with the copies in DRAM that it had when it was chosen.
        index: Arc<TableIndex>,
        /// The filters that it answers.
        pushdown: IndexPushdown,
        /// Estimated number of rows that it yields.
        rows: f64,
        /// The reason for the choice.
        reason: String,
    },
    /// By the scan kernels.
    Scan {
        /// Estimated number of matching rows.
        rows: f64,
        /// The reason for not using an index.
        reason: String,
    },
}

/// The request for a scan, apart from its filters.
pub(crate) struct ScanRequest<'a> {
    /// Columns of the output.
    pub(crate) projection: &'a [usize],
    /// Number of rows after which the scan may stop.
    pub(crate) limit: Option<usize>,
    /// The setting `halocline.index`.
    pub(crate) mode: IndexMode,
    /// Number of threads.
    pub(crate) threads: usize,
    /// True if the rows are aggregated, which a scan does in its own loop.
    pub(crate) aggregates: bool,
}

/// Number of rows below which a selection through an index runs on one thread.
pub(super) const SINGLE_ROWS: f64 = 20_000.0;

/// Number of rows of a segment in a morsel.
pub(super) const MORSEL_ROWS: usize = 65_536;

/// An index that can answer some of the filters, with its estimates.
pub(super) struct IndexCandidate {
    pub(super) number: usize,
    index: Arc<TableIndex>,
    pushdown: IndexPushdown,
    rows: f64,
    pub(super) cost: f64,
}

/// Chooses the access path with the lowest estimated cost, within what `halocline.index` allows.
///
/// # Errors
/// An index is damaged.
pub(crate) fn choose_access_path(
    open: &OpenTable,
    filters: &Filters,
    request: &ScanRequest<'_>,
) -> Result<AccessPath, EngineError> {
    let segments = open.table.segments();
    let scan_filters = filters.remaining(&vec![false; filters.conditions.len()], segments.len());
    let scan_rows = estimated_rows(open, &scan_filters);
    let scan = |reason: String| {
        Ok(AccessPath::Scan {
            rows: scan_rows,
            reason,
        })
    };
    if filters.conditions.is_empty() && filters.others.is_empty() {
        return scan("no conditions".into());
    }
    if request.mode == IndexMode::Off {
        return scan("halocline.index = off".into());
    }
    let mut best: Option<IndexCandidate> = None;
    for (number, index) in open.indexes.iter().enumerate() {
        let Some(index) = index.now() else { continue };
        let pushdown = filters.for_index(number, &index, segments.len());
        if pushdown.constrained.contains(&true) {
            let candidate = evaluate(open, filters, request, number, &index, pushdown)?;
            if best.as_ref().is_none_or(|best| candidate.cost < best.cost) {
                best = Some(candidate);
            }
        }
    }
    let Some(best) = best else {
        return scan(no_index(open, filters));
    };
    let scan_cost = scan_cost(open, &scan_filters, request, best.rows.min(scan_rows.max(1.0)));
    let costs = format!(
        "index {} about {:.2} ms, scan about {:.2} ms",
        best.index.name(),
        best.cost / 1e6,
        scan_cost / 1e6
    );
    if request.mode == IndexMode::Auto && scan_cost < best.cost {
        return Ok(AccessPath::Scan {
            rows: best.rows,
            reason: format!("scan is cheaper: {costs} for {:.0} rows", best.rows),
        });
    }
    let reason = if request.mode == IndexMode::Force {
        format!("halocline.index = force; {costs}")
    } else {
        costs
    };
    Ok(AccessPath::Index {
        number: best.number,
        index: best.index,
        pushdown: best.pushdown,
        rows: best.rows,
        reason,
    })
}

/// Estimates rows and cost of the access through an index.
pub(super) fn evaluate(
    open: &OpenTable,
    filters: &Filters,
    request: &ScanRequest<'_>,
    number: usize,
    index: &Arc<TableIndex>,
    pushdown: IndexPushdown,
) -> Result<IndexCandidate, EngineError> {
    let remaining = filters.remaining(&pushdown.answered, open.table.segments().len());
    let (mut rows, mut cost) = (0.0, 0.0);
    for at in 0..open.table.segments().len() {
        let elf = index.segments()[at].elf();
        let estimate = elf.estimate(&pushdown.predicates[at])?;
        let selection = IndexSelection {
            estimate,
            is_clustered: elf.is_clustered(),
            bytes: elf.size() as f64,
        };
        let (kept, own) = segment_cost(open, request, &remaining, at, selection);
        rows += kept;
        cost += own;
    }
    cost += aggregate_cost(request);
    Ok(IndexCandidate {
        number,
        index: Arc::clone(index),
        pushdown,
        rows,
        cost,
    })
}

/// Returns the cost of aggregating rows that an index finds, in addition to that of a scan's own loop.
pub(super) fn aggregate_cost(request: &ScanRequest<'_>) -> f64 {
    match request.aggregates {
        true => cost::nanoseconds::AGGREGATE,
        false => 0.0,
    }
}

/// Estimates the rows that a segment yields, and the cost of the access to it, through an index whose
/// selection has this estimate.
pub(super) fn segment_cost(
    open: &OpenTable,
    request: &ScanRequest<'_>,
    remaining: &RemainingFilters,
    at: usize,
    selection: IndexSelection,
) -> (f64, f64) {
    let estimate = selection.estimate;
    let segment = &open.table.segments()[at];
    let (kernels, strings) = (&remaining.kernels[at], &remaining.strings[at]);
    let adjacent = cost::adjacent_share(estimate);
    let of_kernels = kernels.iter().map(|(column, _)| *column);
    let of_strings = strings.iter().map(|(column, _)| *column);
    let selectivity = cost::kernel_selectivity(segment, kernels) * cost::string_selectivity(segment, strings);
    let kept = estimate.rows * selectivity;
    let (tested, output) = (
        expression_columns(open, remaining).into_iter(),
        output_columns(open, request, remaining).into_iter(),
    );
    let counts = kernels.is_empty() && strings.is_empty() && tested.len() + output.len() == 0;
    let fetched = cost::fetch_located(segment, of_kernels, estimate.rows, adjacent)
        + cost::fetch_located(segment, of_strings, estimate.rows, adjacent)
        + cost::fetch_located(segment, tested, kept, adjacent * selectivity)
        + cost::fetch_located(segment, output, kept, adjacent * selectivity);
    let threads = match estimate.rows < SINGLE_ROWS {
        true => 1,
        false => threads_of_scan(open, request),
    };
    (kept, cost::elf(selection, counts) + fetched / threads as f64)
}

/// Estimates the cost of the scan if `rows` rows match.
pub(super) fn scan_cost(
    open: &OpenTable,
    remaining: &RemainingFilters,
    request: &ScanRequest<'_>,
    rows: f64,
) -> f64 {
    let total = open.table.rows().max(1) as f64;
    let of_segment = |(number, segment): (usize, &halocline_columns::Segment)| {
        let own = rows * segment.rows() as f64 / total;
        let (kernels, strings) = (&remaining.kernels[number], &remaining.strings[number]);
        let compared = segment.rows() as f64 * cost::kernel_selectivity(segment, kernels);
        let tested = match remaining.expressions.is_empty() {
            true => own,
            false => own.max(compared * cost::string_selectivity(segment, strings)),
        };
        cost::scan_rows(segment, kernels)
            + compared * strings.len() as f64 * cost::nanoseconds::SCAN_STRING
            + cost::fetch(segment, expression_columns(open, remaining).into_iter(), tested)
            + cost::fetch(segment, output_columns(open, request, remaining).into_iter(), own)
    };
    let all: f64 = open.table.segments().iter().enumerate().map(of_segment).sum();
    let all = all / threads_of_scan(open, request) as f64;
    // A scan stops when it has enough rows; a selection through an index finds them all first.
    match request.limit {
        Some(limit) if rows > limit as f64 => all * limit as f64 / rows,
        _ => all,
    }
}

/// Returns the number of threads that ranges of the table's rows keep busy.
fn threads_of_scan(open: &OpenTable, request: &ScanRequest<'_>) -> usize {
    let ranges = (open.table.rows() as usize).div_ceil(MORSEL_ROWS);
    ranges.min(request.threads).max(1)
}

/// Returns the columns of the conditions that are tested as expressions.
fn expression_columns(open: &OpenTable, remaining: &RemainingFilters) -> Vec<usize> {
    let mut columns: Vec<usize> = Vec::new();
    for expression in &remaining.expressions {
        let names = expression.column_refs();
        columns.extend(
            names
                .iter()
                .filter_map(|c| open.table.schema().index_of(&c.name).ok()),
        );
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Returns the other columns that are read for rows that match.
fn output_columns(open: &OpenTable, request: &ScanRequest<'_>, remaining: &RemainingFilters) -> Vec<usize> {
    let tested = expression_columns(open, remaining);
    let stored = open.table.schema().fields().len();
    let columns = request.projection.iter().copied();
    let mut columns: Vec<usize> = columns
        .filter(|column| *column < stored && !tested.contains(column))
        .collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Estimates the number of rows that pass the predicates on codes and strings.
pub(super) fn estimated_rows(open: &OpenTable, remaining: &RemainingFilters) -> f64 {
    let of_segment = |(number, segment): (usize, &halocline_columns::Segment)| {
        segment.live_rows() as f64
            * cost::kernel_selectivity(segment, &remaining.kernels[number])
            * cost::string_selectivity(segment, &remaining.strings[number])
    };
    open.table.segments().iter().enumerate().map(of_segment).sum()
}

/// Returns the reason why no index can be used.
fn no_index(open: &OpenTable, filters: &Filters) -> String {
    if open.indexes.is_empty() {
        return "the table has no index".into();
    }
    if let Some((name, error)) = open
        .indexes
        .iter()
        .find_map(|i| Some((&i.name, i.index.as_ref().err()?)))
    {
        return format!("index {name} cannot be read: {error}");
    }
    if filters.conditions.is_empty() {
        return "no condition is on one column alone".into();
    }
    let has_condition = |index: &&OpenIndex| {
        let columns = index.index.as_ref().map_or(&[][..], |index| index.columns());
        let mut conditions = filters.conditions.iter();
        conditions.any(|(condition, _)| columns.contains(&condition.column))
    };
    let mut with_conditions = open.indexes.iter().filter(has_condition);
    if let Some(reason) = with_conditions.find_map(OpenIndex::not_built) {
        return reason;
    }
    let mut columns: Vec<&str> = filters
        .conditions
        .iter()
        .map(|(condition, _)| open.table.schema().field(condition.column).name().as_str())
        .collect();
    columns.sort_unstable();
    columns.dedup();
    format!("no index answers a condition on {}", columns.join(", "))
}
