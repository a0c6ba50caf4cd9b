//! The dynamic filters of a scan and their present state.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_select::filter::filter_record_batch;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use halocline_columns::{CodePredicate, RowId, RowSelection};
use halocline_sql::error::external;

use super::build_keys::BuildKeys;
use super::index_probe::LocatedRows;
use super::row_check::RowCheck;
use super::segment_filter::SegmentFilter;
use crate::plan::found_rows::keep;
use crate::plan::spec::ScanSpec;

/// The generation of a filter that has not been set yet.
const UNSET: u64 = 1;

/// A filter on the output of a scan, with the keys of the join that sets it.
type FilterWithKeys = (Arc<dyn PhysicalExpr>, Option<Arc<BuildKeys>>);

/// The dynamic filters of a scan, on its output.
#[derive(Debug)]
pub struct DynamicFilters {
    filters: Vec<DynamicFilter>,
    located: Mutex<Option<Arc<LocatedRows>>>,
}

#[derive(Debug)]
struct DynamicFilter {
    expr: Arc<dyn PhysicalExpr>,
    keys: Option<Arc<BuildKeys>>,
    current: Mutex<Option<Arc<ActiveFilter>>>,
}

/// The state of a filter that has been set.
#[derive(Debug)]
struct ActiveFilter {
    generation: u64,
    predicate: Arc<dyn PhysicalExpr>,
    /// The columns of the scan's output that it refers to.
    outputs: Vec<usize>,
    /// Columns of the scan's output that a join compares with its keys, and all values of these keys.
    keys: Vec<(usize, Vec<ArrayRef>)>,
    rows: RowCheck,
    /// Its translations, made when the first row of a segment is read.
    segments: Vec<OnceLock<SegmentFilter>>,
}

/// The filters that have been set, in their present state.
#[derive(Debug, Clone, Default)]
pub struct ActiveFilters(Vec<Arc<ActiveFilter>>);

impl DynamicFilters {
    /// Makes them of expressions.
    pub fn new(filters: Vec<FilterWithKeys>) -> Self {
        let of = |(expr, keys)| DynamicFilter {
            expr,
            keys,
            current: Mutex::default(),
        };
        Self {
            filters: filters.into_iter().map(of).collect(),
            located: Mutex::default(),
        }
    }

    /// Returns what indexes locate for the filters of a version.
    pub(super) fn located(&self, version: u64, spec: &ScanSpec) -> Arc<LocatedRows> {
        let mut located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        match located.as_ref().filter(|located| located.version == version) {
            Some(located) => Arc::clone(located),
            None => {
                let new = LocatedRows::new(version, spec.open.table.segments().len());
                Arc::clone(located.insert(Arc::new(new)))
            }
        }
    }

    /// Returns the filters as expressions on the output of the scan.
    pub fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.filters.iter().map(|filter| &filter.expr)
    }

    /// Returns the names of the columns that each filter refers to, for EXPLAIN.
    pub fn describe(&self, spec: &ScanSpec) -> String {
        let names = |filter: &DynamicFilter| {
            let mut columns: Vec<usize> = columns_of(&filter.expr);
            columns.sort_unstable();
            let names = columns
                .iter()
                .map(|output| spec.schema.field(*output).name().as_str());
            names.collect::<Vec<_>>().join(" + ")
        };
        self.filters.iter().map(names).collect::<Vec<_>>().join(", ")
    }

    /// Returns the present state of the filters. O(number of filters) if none has changed.
    ///
    /// # Errors
    /// A filter refers to a column that the scan does not output.
    pub fn active(&self, spec: &ScanSpec) -> Result<ActiveFilters> {
        let active = self.filters.iter().map(|filter| filter.active(spec));
        let active = active.collect::<Result<Vec<_>>>()?;
        Ok(ActiveFilters(active.into_iter().flatten().collect()))
    }
}

impl DynamicFilter {
    fn active(&self, spec: &ScanSpec) -> Result<Option<Arc<ActiveFilter>>> {
        // The expression may be newer than the generation; it is then read again the next time.
        let generation = self.expr.snapshot_generation();
        if generation <= UNSET {
            return Ok(None);
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(active) = current.as_ref().filter(|active| active.generation >= generation) {
            return Ok(Some(Arc::clone(active)));
        }
        let Some(predicate) = self.expr.snapshot()? else {
            return Ok(None);
        };
        let outputs = columns_of(&predicate);
        if outputs.iter().any(|output| *output >= spec.projection.len()) {
            return Ok(None);
        }
        let active = Arc::new(ActiveFilter {
            generation,
            rows: RowCheck::new(&predicate, &outputs, spec)?,
            segments: spec
                .open
                .table
                .segments()
                .iter()
                .map(|_| OnceLock::new())
                .collect(),
            keys: self.keys(spec),
            predicate,
            outputs,
        });
        *current = Some(Arc::clone(&active));
        Ok(Some(active))
    }

    /// Returns the columns of the scan's output that are compared with keys of a join, with these keys'
    /// values.
    fn keys(&self, spec: &ScanSpec) -> Vec<(usize, Vec<ArrayRef>)> {
        let Some(keys) = &self.keys else {
            return Vec::new();
        };
        let children = self.expr.children().into_iter().enumerate();
        let of_column = |(key, child): (usize, &Arc<dyn PhysicalExpr>)| {
            let output = child.downcast_ref::<Column>()?.index();
            (output < spec.projection.len()).then_some((output, keys.values(key)?))
        };
        children.filter_map(of_column).collect()
    }
}

impl ActiveFilter {
    fn of_segment(&self, spec: &ScanSpec, number: usize) -> &SegmentFilter {
        let segment = &spec.open.table.segments()[number];
        self.segments[number]
            .get_or_init(|| SegmentFilter::new(&self.predicate, &self.outputs, &self.keys, spec, segment))
    }
}

impl ActiveFilters {
    /// Returns true if no filter has been set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a number that grows whenever one of the filters changes.
    pub fn version(&self) -> u64 {
        self.0.iter().map(|active| active.generation).sum()
    }

    /// Returns the predicates of a segment for the scan kernels; `None` if no row can pass.
    pub fn kernels(&self, spec: &ScanSpec, number: usize) -> Option<Vec<(usize, CodePredicate)>> {
        let mut kernels = Vec::new();
        for active in &self.0 {
            let filter = active.of_segment(spec, number);
            if filter.excludes_all {
                return None;
            }
            kernels.extend(filter.kernels.iter().cloned());
        }
        Some(kernels)
    }

    /// Keeps the selected rows of a segment that pass what its [`kernels`](Self::kernels) do not say: the
    /// cheaper filters first.
    ///
    /// # Errors
    /// The columns of the filters cannot be read.
    pub fn keep_selected(&self, spec: &ScanSpec, number: usize, selection: &mut RowSelection) -> Result<()> {
        let segment = &spec.open.table.segments()[number];
        for active in &self.0 {
            for (column, codes) in &active.of_segment(spec, number).codes {
                segment.keep_codes(*column, codes, selection).map_err(external)?;
            }
        }
        for active in &self.0 {
            if active.of_segment(spec, number).by_rows {
                active.rows.keep_selected(segment, selection);
            }
        }
        Ok(())
    }

    /// Returns the rows of a segment, given sorted, that pass.
    ///
    /// # Errors
    /// The columns of the filters cannot be read.
    pub fn keep_rows(&self, spec: &ScanSpec, number: usize, mut rows: Vec<RowId>) -> Result<Vec<RowId>> {
        let segment = &spec.open.table.segments()[number];
        match self.kernels(spec, number) {
            None => return Ok(Vec::new()),
            Some(kernels) if kernels.is_empty() => {}
            Some(kernels) => rows = keep(segment, &kernels, rows)?,
        }
        for active in &self.0 {
            let filter = active.of_segment(spec, number);
            if filter.by_rows || !filter.codes.is_empty() {
                rows = active.rows.keep(segment, rows);
            }
        }
        Ok(rows)
    }

    /// Returns the rows of a batch of the scan's output that pass.
    ///
    /// # Errors
    /// The batch cannot be filtered.
    pub fn keep_batch(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        for active in &self.0 {
            let answer = active.predicate.evaluate(&batch);
            let answer = answer.and_then(|answer| answer.into_array(batch.num_rows()));
            // A filter that cannot be evaluated excludes nothing.
            if let Ok(answer) = answer
                && let Some(passing) = answer.as_boolean_opt()
            {
                batch = filter_record_batch(&batch, passing)?;
            }
        }
        Ok(batch)
    }
}

/// Returns the positions of the columns that an expression refers to.
fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut columns: Vec<usize> = collect_columns(expr)
        .iter()
        .map(|column| column.index())
        .collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
