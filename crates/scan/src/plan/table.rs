//! The table provider: a table of the pool as DataFusion sees it.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use halocline_catalog::filter::ColumnCondition;
use halocline_catalog::settings::{FeatureMode, SessionSettings};
use halocline_catalog::{OpenIndex, OpenTable};
use halocline_columns::{CodePredicate, StringPredicate, Table};
use halocline_elf::TableIndex;
use halocline_sql::EngineError;
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::error::external;

use super::access_path::{AccessPath, MORSEL_ROWS, PathReads, SINGLE_ROWS, ScanRequest, choose_access_path};
use super::conditions::{Filters, OnColumns, TranslationCache, dimension_space};
use super::cost;
use super::estimate::SelectionEstimate;
use super::morsels::{ScanMorsel, split};
use super::recorder::{RecordedScan, ScanRecorder, recorder};
use super::scan_node::{IndexLookup, PoolScan};
use super::spec::{ResidualFilter, ScanSpec, address_field, with_address};
use crate::leaf::LeafExec;

/// Number of rows of the delta in a morsel.
const DELTA_ROWS: usize = 8_192;
/// Number of parts per partition into which a large selection through an index is split.
const PARTS_PER_PARTITION: usize = 4;

/// A reference to a table in one statement.
#[derive(Debug)]
pub struct PoolTable {
    open: Arc<OpenTable>,
    /// The columns of the table, followed by the addresses if the statement changes rows.
    schema: SchemaRef,
    translations: TranslationCache,
}

impl PoolTable {
    /// Returns the provider of a table of one version.
    pub fn new(open: Arc<OpenTable>) -> Self {
        Self {
            schema: Arc::clone(open.table.schema()),
            open,
            translations: TranslationCache::default(),
        }
    }

    /// Adds a column with the addresses of the rows, for statements that change them.
    pub fn with_addresses(open: Arc<OpenTable>) -> Self {
        let mut fields = open.table.schema().fields().to_vec();
        fields.push(Arc::new(address_field()));
        Self {
            schema: Arc::new(Schema::new(fields)),
            ..Self::new(open)
        }
    }

    /// Returns the number of its rows.
    pub fn rows(&self) -> u64 {
        self.open.live_rows()
    }

    /// Returns the table unless the reference has the column of addresses.
    pub fn without_addresses(&self) -> Option<Arc<OpenTable>> {
        (!self.has_addresses()).then(|| Arc::clone(&self.open))
    }

    /// Translates filters to predicates on codes, per segment; `None` if one of them has no exact
    /// translation.
    pub fn conditions(open: &OpenTable, filters: &[Expr]) -> Option<Vec<OnColumns<CodePredicate>>> {
        let segments = open.table.segments().len();
        let filters = Filters::read(filters, open, &TranslationCache::default());
        let remaining = filters.remaining(&vec![false; filters.conditions.len()], segments);
        let is_on_codes = remaining.expressions.is_empty() && remaining.strings.iter().all(Vec::is_empty);
        is_on_codes.then_some(remaining.kernels)
    }

    /// Translates filters to predicates on codes, per segment, and conditions on strings without codes, which
    /// the segments of the returned table have; `None` if one of them has no exact translation, or the table
    /// is damaged.
    pub fn selection(
        open: &Arc<OpenTable>,
        filters: &[Expr],
    ) -> Option<(Arc<OpenTable>, Vec<OnColumns<CodePredicate>>)> {
        let segments = open.table.segments().len();
        let filters = Filters::read(filters, open, &TranslationCache::default());
        let remaining = filters.remaining(&vec![false; filters.conditions.len()], segments);
        let open = with_strings(open, &remaining.strings).ok()?;
        remaining
            .expressions
            .is_empty()
            .then_some((open, remaining.kernels))
    }

    /// Returns true if a chunk is estimated to have a row, on average, that satisfies these predicates on
    /// codes of each segment.
    pub fn matches_in_most_chunks(open: &OpenTable, conditions: &[OnColumns<CodePredicate>]) -> bool {
        let segments = open.table.segments().iter().zip(conditions);
        let mut in_chunks = segments.map(|(segment, conditions)| {
            segment.chunk_rows() as f64 * cost::kernel_selectivity(segment, conditions)
        });
        in_chunks.any(|rows| rows >= 1.0)
    }

    /// Returns the table in the version of the statement.
    pub(super) fn open(&self) -> &OpenTable {
        &self.open
    }

    /// Returns the translations of the statement's conditions.
    pub(super) fn translations(&self) -> &TranslationCache {
        &self.translations
    }

    /// Returns the number of columns, that of the addresses included.
    pub(super) fn fields(&self) -> usize {
        self.schema.fields().len()
    }

    /// Returns the reason why rows that match `filters` are found by a scan, and what it reads; `None` if
    /// they are found by an index that can be used or would be built for the query. `columns` are read of
    /// them, by a number of threads, and aggregated.
    pub fn scan_reason(
        open: &OpenTable,
        filters: &[Expr],
        columns: &[usize],
        (mode, threads): (FeatureMode, usize),
    ) -> Option<(String, PathReads)> {
        let filters = Filters::read(filters, open, &TranslationCache::default());
        let is_built = |index: &OpenIndex| {
            let mut conditions = filters.conditions.iter();
            conditions.any(|(condition, _)| index.is_to_be_built(condition.column))
        };
        if mode != FeatureMode::Off && open.indexes.iter().any(is_built) {
            return None;
        }
        let request = ScanRequest {
            projection: columns,
            limit: None,
            mode,
            threads,
            aggregates: true,
        };
        match choose_access_path(open, &filters, &request) {
            Ok(AccessPath::Scan { reason, reads, .. }) => Some((reason, reads)),
            // The scan reports an index that is damaged.
            Ok(AccessPath::Index { .. }) | Err(_) => None,
        }
    }

    fn has_addresses(&self) -> bool {
        self.schema.fields().len() > self.open.table.schema().fields().len()
    }

    /// Returns the morsels of the delta.
    fn delta_morsels(&self) -> impl Iterator<Item = ScanMorsel> + '_ {
        let batches = self.open.delta.iter().flat_map(|delta| delta.batches());
        let of = |(batch, rows): (usize, usize)| {
            let starts = (0..rows).step_by(DELTA_ROWS);
            starts.map(move |start| ScanMorsel::Delta {
                batch,
                rows: start..rows.min(start + DELTA_ROWS),
            })
        };
        batches.map(|(_, rows)| rows.num_rows()).enumerate().flat_map(of)
    }

    /// Returns the morsels of the segments. No chunk is in two of them, so that its zone map is read once.
    fn row_morsels(&self) -> Vec<ScanMorsel> {
        self.morsels_of_rows(|segment, rows| ScanMorsel::Rows { segment, rows })
    }

    /// Makes morsels of ranges of rows that cover all segments.
    fn morsels_of_rows(&self, morsel: impl Fn(usize, Range<usize>) -> ScanMorsel) -> Vec<ScanMorsel> {
        let mut morsels = Vec::new();
        for (number, segment) in self.open.table.segments().iter().enumerate() {
            let starts = (0..segment.rows()).step_by(MORSEL_ROWS);
            let ranges = starts.map(|start| start..segment.rows().min(start + MORSEL_ROWS));
            morsels.extend(ranges.map(|rows| morsel(number, rows)));
        }
        morsels
    }
}

#[async_trait]
impl TableProvider for PoolTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let statistics = self.open.statistics().ok()?;
        Some(if self.has_addresses() {
            with_address(statistics)
        } else {
            statistics
        })
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let exact = |filter: &&Expr| {
            ColumnCondition::read(filter, self.open.table.schema())
                .is_some_and(|condition| self.translations.translation(&condition, &self.open).is_exact())
        };
        let answer = |filter| {
            if exact(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(answer).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = state.config_options().extensions.get::<SessionSettings>();
        let mode = settings.map(|settings| settings.index).unwrap_or_default();
        let recorder = settings.and_then(recorder).cloned();
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let filters = self
            .translate(filters, recorder.is_none() && mode != FeatureMode::Off)
            .await?;
        let target = state.config().target_partitions().max(1);
        let request = ScanRequest {
            projection: &projection,
            limit,
            mode,
            threads: target,
            aggregates: false,
        };
        let path = choose_access_path(&self.open, &filters, &request).map_err(external)?;
        self.record_selection(&filters, &request, &path, recorder.as_deref());
        let spec = self.spec(state, projection, &filters, &path)?;
        let scan = match path {
            AccessPath::Scan { reason, .. } => self.kernel_scan(spec, reason, limit, target),
            AccessPath::Index {
                number,
                index,
                pushdown,
                rows,
                reason,
                ..
            } => {
                let index = match recorder {
                    // The plan is not run.
                    Some(_) => index,
                    None => placed(&self.open, number, index).await?,
                };
                // A small selection is not worth a second thread.
                let partitions = if rows < SINGLE_ROWS { 1 } else { target };
                self.index_scan(spec, index, pushdown.predicates, reason, limit, partitions)
            }
        };
        Ok(Arc::new(LeafExec(scan)))
    }
}

impl PoolTable {
    /// Translates the filters of a scan. If `build`, volatile indexes that could answer them are built first.
    async fn translate(&self, filters: &[Expr], build: bool) -> Result<Filters> {
        if build && build_volatile(&self.open, filters).await? {
            // The cached translations were made without these indexes.
            return Ok(Filters::read(filters, &self.open, &TranslationCache::default()));
        }
        Ok(Filters::read(filters, &self.open, &self.translations))
    }

    /// Records the selection for a statement that is only planned, or for the workload of the index that
    /// answers it.
    fn record_selection(
        &self,
        filters: &Filters,
        request: &ScanRequest<'_>,
        path: &AccessPath,
        recorder: Option<&dyn ScanRecorder>,
    ) {
        if let Some(recorder) = recorder {
            recorder.record_scan(&RecordedScan {
                open: &self.open,
                filters,
                request,
                path,
            });
        } else if let AccessPath::Index { number, .. } = path {
            let index = &self.open.indexes[*number];
            let selection = || filters.index_selection(*number, &self.open);
            index.placement.record(&index.name, selection);
        }
    }

    /// Returns the specification of a scan along an access path.
    fn spec(
        &self,
        state: &dyn Session,
        projection: Vec<usize>,
        filters: &Filters,
        path: &AccessPath,
    ) -> Result<ScanSpec> {
        let open = &self.open;
        let answered = match path {
            AccessPath::Index { pushdown, .. } => pushdown.answered.clone(),
            AccessPath::Scan { .. } => vec![false; filters.conditions.len()],
        };
        let remaining = filters.remaining(&answered, open.table.segments().len());
        let settings = state.config_options().extensions.get::<SessionSettings>();
        let delta_filter = match open.delta {
            Some(_) => ResidualFilter::plan(filters.expressions(), open, state)?,
            None => None,
        };
        Ok(ScanSpec {
            open: with_strings(open, &remaining.strings).map_err(external)?,
            schema: Arc::new(self.schema.project(&projection)?),
            projection,
            kernels: remaining.kernels,
            described: remaining.described,
            residual: ResidualFilter::plan(remaining.expressions, open, state)?,
            delta_filter,
            estimate: SelectionEstimate::for_path(open, filters, path),
            codes: Vec::new(),
            reads: match path {
                AccessPath::Index { reads, .. } | AccessPath::Scan { reads, .. } => reads.clone(),
            },
            probes_indexes: settings.is_none_or(|settings| settings.index != FeatureMode::Off),
        })
    }

    /// Returns the scan by the kernels.
    fn kernel_scan(&self, spec: ScanSpec, reason: String, limit: Option<usize>, target: usize) -> PoolScan {
        let mut morsels = self.row_morsels();
        morsels.extend(self.delta_morsels());
        let partitions = target.min(morsels.len().max(1));
        PoolScan::new(spec, None, reason, limit, morsels, partitions)
    }

    /// Returns the scan through an index, whose selection on each segment is given as predicates per
    /// dimension. With several partitions, these share the rows that it finds.
    fn index_scan(
        &self,
        spec: ScanSpec,
        index: Arc<TableIndex>,
        predicates: Vec<Vec<CodePredicate>>,
        reason: String,
        limit: Option<usize>,
        partitions: usize,
    ) -> PoolScan {
        let shares_rows = partitions > 1 && !spec.counts_all();
        let mut morsels = if shares_rows {
            self.morsels_of_rows(|segment, rows| ScanMorsel::Found { segment, rows })
        } else {
            self.selections(&index, &predicates, partitions)
        };
        // With enough selections every thread has its own; otherwise all threads share each of them.
        let shared_selections =
            shares_rows || partitions == 1 || morsels.len() < partitions * PARTS_PER_PARTITION / 2;
        morsels.extend(self.delta_morsels());
        let lookup = IndexLookup {
            on: describe(&index, &predicates, &self.open),
            predicates: predicates.into(),
            index,
            shared_selections,
        };
        PoolScan::new(spec, Some(lookup), reason, limit, morsels, partitions)
    }

    /// Returns selections on the segments' Elfs as morsels, several for each segment if there are several
    /// partitions.
    fn selections(
        &self,
        index: &TableIndex,
        predicates: &[Vec<CodePredicate>],
        partitions: usize,
    ) -> Vec<ScanMorsel> {
        let parts = if partitions == 1 {
            1
        } else {
            partitions * PARTS_PER_PARTITION
        };
        let mut morsels = Vec::new();
        for (segment, predicates) in predicates.iter().enumerate() {
            let space = |dimension| dimension_space(index, segment, dimension).max_code();
            let max_codes: Vec<u64> = (0..predicates.len()).map(space).collect();
            let selections = split(predicates, &max_codes, parts).into_iter();
            morsels.extend(selections.map(|predicates| ScanMorsel::Select { segment, predicates }));
        }
        morsels
    }
}

/// Returns the table, whose segments have these conditions on strings.
///
/// # Errors
/// A segment is damaged.
fn with_strings(
    open: &Arc<OpenTable>,
    strings: &[OnColumns<StringPredicate>],
) -> Result<Arc<OpenTable>, EngineError> {
    if strings.iter().all(Vec::is_empty) {
        Ok(Arc::clone(open))
    } else {
        Ok(Arc::new(open.with_string_conditions(strings)?))
    }
}

/// Builds the volatile indexes that could answer one of the filters: the first query that can use such an
/// index builds it, and dropping the query cancels the build. Returns true if there was something to build.
///
/// # Errors
/// The building thread panicked.
async fn build_volatile(open: &OpenTable, filters: &[Expr]) -> Result<bool> {
    let conditions = filters
        .iter()
        .filter_map(|filter| ColumnCondition::read(filter, open.table.schema()));
    let columns: Vec<usize> = conditions.map(|condition| condition.column).collect();
    let mut any = false;
    for index in open.indexes.iter() {
        if columns.iter().any(|column| index.is_to_be_built(*column)) {
            place(index, &open.table).await?;
            any = true;
        }
    }
    Ok(any)
}

/// Returns the index with its copies in DRAM, which the first query that uses the index makes.
///
/// # Errors
/// The copying thread panicked.
async fn placed(open: &OpenTable, number: usize, now: Arc<TableIndex>) -> Result<Arc<TableIndex>> {
    let index = &open.indexes[number];
    // A volatile index was built before it was chosen.
    if index.is_volatile() || !index.is_due() {
        return Ok(now);
    }
    Ok(place(index, &open.table).await?.unwrap_or(now))
}

/// Runs [`OpenIndex::place`] on a thread that may block.
///
/// # Errors
/// That thread panicked.
async fn place(index: &OpenIndex, table: &Table) -> Result<Option<Arc<TableIndex>>> {
    let (index, table) = (index.clone(), table.clone());
    let end = CancelOnDrop::default();
    let cancel = end.flag();
    let placed = tokio::task::spawn_blocking(move || index.place(&table, false, &cancel)).await;
    placed.map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Returns the conditions on the dimensions of an index, with the values of the first segment, for EXPLAIN.
fn describe(index: &TableIndex, predicates: &[Vec<CodePredicate>], open: &OpenTable) -> String {
    let Some(first) = predicates.first() else {
        return String::new();
    };
    let constrained = first
        .iter()
        .enumerate()
        .filter(|(_, predicate)| **predicate != CodePredicate::Any);
    let texts = constrained.map(|(dimension, predicate)| {
        let column = open.table.schema().field(index.columns()[dimension]).name();
        format!(
            "{column} {}",
            dimension_space(index, 0, dimension).describe(predicate)
        )
    });
    texts.collect::<Vec<_>>().join(", ")
}
