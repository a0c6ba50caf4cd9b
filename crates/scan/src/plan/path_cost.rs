//! Estimates of access paths: rows, the time of the CPU, and reads of what is not in memory.

use std::sync::Arc;

use halocline_catalog::OpenTable;
use halocline_costs::access::index::{self, SegmentSelection};
use halocline_costs::access::scan;
use halocline_elf::TableIndex;
use halocline_sql::EngineError;

use super::access_path::{MORSEL_ROWS, SINGLE_ROWS, ScanRequest};
use super::conditions::{Filters, IndexPushdown, RemainingFilters};
use super::cost;
use super::expected_reads::ReadModel;

/// An index that can answer some of the filters, with its estimates.
pub(super) struct IndexCandidate<'a> {
    pub(super) number: usize,
    pub(super) index: Arc<TableIndex>,
    pub(super) pushdown: IndexPushdown,
    pub(super) rows: f64,
    /// That of its reads included.
    pub(super) cost: f64,
    pub(super) reads: Option<ReadModel<'a>>,
}

/// Estimates rows and cost of the access through an index, with the time of its reads if they are to be added
/// to a model.
pub(super) fn evaluate<'a>(
    open: &OpenTable,
    filters: &Filters,
    request: &ScanRequest<'_>,
    (number, index): (usize, &Arc<TableIndex>),
    pushdown: IndexPushdown,
    mut reads: Option<ReadModel<'a>>,
) -> Result<IndexCandidate<'a>, EngineError> {
    let remaining = filters.remaining(&pushdown.answered, open.table.segments().len());
    let (mut rows, mut cost) = (0.0, 0.0);
    for at in 0..open.table.segments().len() {
        let elf = index.segments()[at].elf();
        let estimate = elf.estimate(&pushdown.predicates[at])?;
        let selection = cost::segment_selection(estimate, elf.is_clustered(), elf.size());
        let (kept, own) = segment_cost(open, request, &remaining, at, selection);
        rows += kept;
        cost += own;
        if let Some(reads) = &mut reads {
            let segment = &open.table.segments()[at];
            reads.index(number, index, selection, elf.rows());
            for located in &located(open, request, &remaining, at, selection).1 {
                reads.rows(segment, located.column, located.rows, 1.0);
            }
        }
    }
    cost += index::aggregate(request.aggregates);
    cost += reads.as_ref().map_or(0.0, |model| model.reads.total());
    Ok(IndexCandidate {
        number,
        index: Arc::clone(index),
        pushdown,
        rows,
        cost,
        reads,
    })
}

/// Estimates the rows that a segment yields, and the cost of the access to it, through an index whose
/// selection has this estimate.
pub(super) fn segment_cost(
    open: &OpenTable,
    request: &ScanRequest<'_>,
    remaining: &RemainingFilters,
    at: usize,
    selection: SegmentSelection,
) -> (f64, f64) {
    let segment = &open.table.segments()[at];
    let (kept, columns) = located(open, request, remaining, at, selection);
    let fetched = columns.iter().map(|located| {
        let column = std::iter::once(located.column);
        cost::fetch_located(segment, column, located.rows, located.adjacent)
    });
    let fetched: f64 = fetched.sum();
    let threads = if selection.rows < SINGLE_ROWS {
        1
    } else {
        threads_of_scan(open, request)
    };
    (
        kept,
        selection.cost(columns.is_empty()) + fetched / threads as f64,
    )
}

/// Rows of a column that are read after an index has found them.
struct LocatedRows {
    column: usize,
    rows: f64,
    /// Share of the rows that directly follow the row before.
    adjacent: f64,
}

/// Estimates the rows that a segment yields through an index, and those of each column that are read.
fn located(
    open: &OpenTable,
    request: &ScanRequest<'_>,
    remaining: &RemainingFilters,
    at: usize,
    selection: SegmentSelection,
) -> (f64, Vec<LocatedRows>) {
    let segment = &open.table.segments()[at];
    let (kernels, strings) = (&remaining.kernels[at], &remaining.strings[at]);
    let adjacent = selection.adjacent_share();
    let selectivity = cost::kernel_selectivity(segment, kernels) * cost::string_selectivity(segment, strings);
    let kept = selection.rows * selectivity;
    let compared = kernels.iter().map(|(column, _)| *column);
    let compared = compared.chain(strings.iter().map(|(column, _)| *column));
    let compared = compared.map(|column| LocatedRows {
        column,
        rows: selection.rows,
        adjacent,
    });
    let read = expression_columns(open, remaining).into_iter();
    let read = read.chain(output_columns(open, request, remaining));
    let read = read.map(|column| LocatedRows {
        column,
        rows: kept,
        adjacent: adjacent * selectivity,
    });
    (kept, compared.chain(read).collect())
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
        let tested = if remaining.expressions.is_empty() {
            own
        } else {
            own.max(compared * cost::string_selectivity(segment, strings))
        };
        cost::scan_rows(segment, kernels)
            + scan::compare_strings(compared, strings.len())
            + cost::fetch(segment, expression_columns(open, remaining).into_iter(), tested)
            + cost::fetch(segment, output_columns(open, request, remaining).into_iter(), own)
    };
    let all: f64 = open.table.segments().iter().enumerate().map(of_segment).sum();
    let all = all / threads_of_scan(open, request) as f64;
    all * scan::share_until(request.limit, rows)
}

/// Estimates the reads of the scan if `rows` rows match; `None` if everything is in DRAM.
pub(super) fn scan_reads<'a>(
    open: &'a OpenTable,
    remaining: &RemainingFilters,
    request: &ScanRequest<'_>,
    rows: f64,
) -> Option<ReadModel<'a>> {
    let mut model = ReadModel::new(open)?;
    let read_share = scan::share_until(request.limit, rows);
    let total = open.table.rows().max(1) as f64;
    for (number, segment) in open.table.segments().iter().enumerate() {
        let own = rows * segment.rows() as f64 / total;
        let (kernels, strings) = (&remaining.kernels[number], &remaining.strings[number]);
        let (surviving, _) = cost::surviving_rows(segment, kernels);
        let share = surviving as f64 / segment.rows().max(1) as f64 * read_share;
        let mut compared: Vec<usize> = kernels.iter().map(|(column, _)| *column).collect();
        compared.extend(strings.iter().map(|(column, _)| *column));
        compared.sort_unstable();
        compared.dedup();
        for column in &compared {
            model.chunks(segment, *column, share);
        }
        let matching = segment.rows() as f64 * cost::kernel_selectivity(segment, kernels);
        let tested = own.max(matching * cost::string_selectivity(segment, strings));
        let columns = expression_columns(open, remaining).into_iter();
        let columns = columns.map(|column| (column, tested));
        let output = output_columns(open, request, remaining).into_iter();
        for (column, rows) in columns.chain(output.map(|column| (column, own))) {
            if !compared.contains(&column) {
                let read = rows * scan::share_until(request.limit, rows);
                model.rows(segment, column, read, share);
            }
        }
    }
    if request.limit.is_some() {
        // It is not known how far the scan gets.
        model.ahead.clear();
    }
    Some(model)
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
