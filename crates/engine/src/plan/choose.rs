//! Index or scan: the choice, and the reason for it in words.

use std::sync::Arc;

use halocline_elf::TableIndex;

use super::conditions::{Filters, IndexPart, Rest};
use super::cost;
use crate::EngineError;
use crate::catalog::{OpenIndex, OpenTable};
use crate::config::IndexMode;

/// How the rows of a scan are found.
pub(crate) enum Way {
    /// Through an index.
    Index {
        /// Which one of the table's.
        number: usize,
        /// The index, as it was placed when it was chosen.
        index: Arc<TableIndex>,
        /// What it answers.
        part: IndexPart,
        /// About how many rows it yields.
        rows: f64,
        /// Why it was chosen.
        reason: String,
    },
    /// By the scan kernels.
    Scan {
        /// About how many rows match.
        rows: f64,
        /// Why no index.
        reason: String,
    },
}

/// What a scan is asked for, beside its filters.
pub(crate) struct Wanted<'a> {
    /// Columns of the output.
    pub(crate) projection: &'a [usize],
    /// Rows that are enough.
    pub(crate) limit: Option<usize>,
    /// The setting.
    pub(crate) mode: IndexMode,
}

struct Candidate {
    number: usize,
    index: Arc<TableIndex>,
    part: IndexPart,
    rows: f64,
    cost: f64,
}

/// Picks the way for a scan.
///
/// # Errors
/// An index is damaged.
pub(crate) fn choose(open: &OpenTable, filters: &Filters, wanted: &Wanted<'_>) -> Result<Way, EngineError> {
    let segments = open.table.segments();
    let scan_rest = filters.rest(&vec![false; filters.conditions.len()], segments.len());
    let scan_rows = guess_rows(open, &scan_rest);
    let scan = |reason: String| {
        Ok(Way::Scan {
            rows: scan_rows,
            reason,
        })
    };
    if filters.conditions.is_empty() && filters.others.is_empty() {
        return scan("no conditions".into());
    }
    if wanted.mode == IndexMode::Off {
        return scan("halocline.index = off".into());
    }
    let mut best: Option<Candidate> = None;
    for (number, index) in open.indexes.iter().enumerate() {
        let Some(index) = index.now() else { continue };
        let part = filters.for_index(number, &index, segments.len());
        if part.constrained.contains(&true) {
            let candidate = evaluate(open, filters, wanted, number, &index, part)?;
            if best.as_ref().is_none_or(|best| candidate.cost < best.cost) {
                best = Some(candidate);
            }
        }
    }
    let Some(best) = best else {
        return scan(no_index(open, filters));
    };
    let scan_cost = scan_cost(open, &scan_rest, wanted, best.rows.min(scan_rows.max(1.0)));
    let costs = format!(
        "index {} about {:.2} ms, scan about {:.2} ms",
        best.index.name(),
        best.cost / 1e6,
        scan_cost / 1e6
    );
    if wanted.mode == IndexMode::Auto && scan_cost < best.cost {
        return Ok(Way::Scan {
            rows: best.rows,
            reason: format!("scan is cheaper: {costs} for {:.0} rows", best.rows),
        });
    }
    let reason = if wanted.mode == IndexMode::Force {
        format!("halocline.index = force; {costs}")
    } else {
        costs
    };
    Ok(Way::Index {
        number: best.number,
        index: best.index,
        part: best.part,
        rows: best.rows,
        reason,
    })
}

/// Rows and cost of going through an index.
fn evaluate(
    open: &OpenTable,
    filters: &Filters,
    wanted: &Wanted<'_>,
    number: usize,
    index: &Arc<TableIndex>,
    part: IndexPart,
) -> Result<Candidate, EngineError> {
    let rest = filters.rest(&part.answered, open.table.segments().len());
    let (mut rows, mut cost) = (0.0, 0.0);
    for (at, segment) in open.table.segments().iter().enumerate() {
        let elf = index.segments()[at].elf();
        let estimate = elf.estimate(&part.predicates[at])?;
        let beside = cost::beside(estimate);
        cost += cost::elf(estimate, elf.is_clustered());
        cost += cost::fetch(
            segment,
            rest.kernels[at].iter().map(|(column, _)| *column),
            estimate.rows,
            beside,
        );
        let share = cost::kernel_share(segment, &rest.kernels[at]);
        let kept = estimate.rows * share;
        let fetched = fetched(open, wanted, &rest).into_iter();
        cost += cost::fetch(segment, fetched, kept, beside * share);
        rows += kept;
    }
    Ok(Candidate {
        number,
        index: Arc::clone(index),
        part,
        rows,
        cost,
    })
}

/// Cost of the scan when `rows` rows match.
fn scan_cost(open: &OpenTable, rest: &Rest, wanted: &Wanted<'_>, rows: f64) -> f64 {
    let total = open.table.rows().max(1) as f64;
    let of_segment = |(number, segment): (usize, &halocline_columns::Segment)| {
        let own = rows * segment.rows() as f64 / total;
        cost::scan_rows(segment, &rest.kernels[number])
            + cost::fetch(segment, fetched(open, wanted, rest).into_iter(), own, 0.0)
    };
    let all: f64 = open.table.segments().iter().enumerate().map(of_segment).sum();
    // A scan stops when it has enough rows; a selection through an index finds them all first.
    match wanted.limit {
        Some(limit) if rows > limit as f64 => all * limit as f64 / rows,
        _ => all,
    }
}

/// Columns read for every row that the kernels keep.
fn fetched(open: &OpenTable, wanted: &Wanted<'_>, rest: &Rest) -> Vec<usize> {
    let stored = |column: &usize| *column < open.table.schema().fields().len();
    let mut columns: Vec<usize> = wanted.projection.iter().copied().filter(stored).collect();
    for expression in &rest.expressions {
        columns.extend(
            expression
                .column_refs()
                .iter()
                .filter_map(|c| open.table.schema().index_of(&c.name).ok()),
        );
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// About how many rows the kernels leave.
fn guess_rows(open: &OpenTable, rest: &Rest) -> f64 {
    let of_segment = |(number, segment): (usize, &halocline_columns::Segment)| {
        segment.rows() as f64 * cost::kernel_share(segment, &rest.kernels[number])
    };
    open.table.segments().iter().enumerate().map(of_segment).sum()
}

/// Why no index can be used.
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
