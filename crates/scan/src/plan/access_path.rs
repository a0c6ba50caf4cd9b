//! The choice between an index and a scan, with the reason for EXPLAIN.
//!
//! Costs are those of the CPU, with everything in memory, and the time to read what is not. A scan reads
//! while it compares; through an index, pages are read before they are used.

use std::sync::Arc;

use halocline_catalog::settings::FeatureMode;
use halocline_catalog::{OpenIndex, OpenTable};
use halocline_elf::TableIndex;
use halocline_sql::EngineError;

use super::conditions::{Filters, IndexPushdown};
use super::expected_reads::ReadModel;
use super::path_cost::{IndexCandidate, estimated_rows, evaluate, scan_cost, scan_reads};

/// The method by which the rows of a table reference are located.
pub enum AccessPath {
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
        /// Its reads.
        reads: PathReads,
    },
    /// By the scan kernels.
    Scan {
        /// Estimated number of matching rows.
        rows: f64,
        /// The reason for not using an index.
        reason: String,
        /// Its reads.
        reads: PathReads,
    },
}

/// The reads of an access path.
#[derive(Debug, Clone, Default)]
pub struct PathReads {
    /// The bytes that each path is expected to read from each tier, for EXPLAIN; empty if there is only
    /// DRAM.
    pub text: String,
    /// Columns whose chunks are not all in memory, and are read ahead.
    pub ahead: Vec<usize>,
    /// True if the index or single rows may not be in memory.
    pub scattered: bool,
}

impl PathReads {
    fn new(model: Option<ReadModel<'_>>, text: String) -> Self {
        let (ahead, scattered) = model.map_or_else(Default::default, |model| (model.ahead, model.scattered));
        Self {
            text,
            ahead,
            scattered,
        }
    }
}

/// The request for a scan, apart from its filters.
pub struct ScanRequest<'a> {
    /// Columns of the output.
    pub projection: &'a [usize],
    /// Number of rows after which the scan may stop.
    pub limit: Option<usize>,
    /// The setting `halocline.index`.
    pub mode: FeatureMode,
    /// Number of threads.
    pub threads: usize,
    /// True if the rows are aggregated, which a scan does in its own loop.
    pub aggregates: bool,
}

/// Number of rows below which a selection through an index runs on one thread.
pub(super) const SINGLE_ROWS: f64 = 20_000.0;

/// Number of rows of a segment in a morsel.
pub(super) const MORSEL_ROWS: usize = 65_536;

/// Chooses the access path with the lowest estimated cost, within what `halocline.index` allows.
///
/// # Errors
/// An index is damaged.
pub(super) fn choose_access_path(
    open: &OpenTable,
    filters: &Filters,
    request: &ScanRequest<'_>,
) -> Result<AccessPath, EngineError> {
    let segments = open.table.segments();
    let scan_filters = filters.remaining(&vec![false; filters.conditions.len()], segments.len());
    let scan_rows = estimated_rows(open, &scan_filters);
    let scan = |reason: String| {
        let reads = scan_reads(open, &scan_filters, request, scan_rows);
        let text = reads.as_ref().map_or_else(String::new, ReadModel::describe);
        Ok(AccessPath::Scan {
            rows: scan_rows,
            reason,
            reads: PathReads::new(reads, text),
        })
    };
    if filters.conditions.is_empty() && filters.others.is_empty() {
        return scan("no conditions".into());
    }
    if request.mode == FeatureMode::Off {
        return scan("halocline.index = off".into());
    }
    let mut best: Option<IndexCandidate<'_>> = None;
    for (number, index) in open.indexes.iter().enumerate() {
        let Some(index) = index.now() else { continue };
        let pushdown = filters.for_index(number, &index, segments.len());
        if pushdown.constrained.contains(&true) {
            let reads = ReadModel::new(open);
            let candidate = evaluate(open, filters, request, (number, &index), pushdown, reads)?;
            if best.as_ref().is_none_or(|best| candidate.cost < best.cost) {
                best = Some(candidate);
            }
        }
    }
    let Some(best) = best else {
        return scan(no_index(open, filters));
    };
    let rows = best.rows.min(scan_rows.max(1.0));
    let reads = scan_reads(open, &scan_filters, request, rows);
    let scan_cost = scan_cost(open, &scan_filters, request, rows);
    let scan_cost = reads
        .as_ref()
        .map_or(scan_cost, |model| model.reads.beside_scan(scan_cost));
    let text = best
        .reads
        .as_ref()
        .zip(reads.as_ref())
        .map(|(of_index, of_scan)| {
            let (index, scan) = (of_index.describe(), of_scan.describe());
            format!("index {index}; scan {scan}")
        });
    let text = text.unwrap_or_default();
    let costs = format!(
        "index {} about {:.2} ms, scan about {:.2} ms",
        best.index.name(),
        best.cost / 1e6,
        scan_cost / 1e6
    );
    if request.mode == FeatureMode::Auto && scan_cost < best.cost {
        return Ok(AccessPath::Scan {
            rows: best.rows,
            reason: format!("scan is cheaper: {costs} for {:.0} rows", best.rows),
            reads: PathReads::new(reads, text),
        });
    }
    let reason = if request.mode == FeatureMode::Force {
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
        reads: PathReads::new(best.reads, text),
    })
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
