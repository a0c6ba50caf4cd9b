//! A pool's table as DataFusion sees it.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use halocline_columns::{CodePredicate, Table};
use halocline_elf::TableIndex;

use super::choose::{Wanted, Way, choose};
use super::conditions::{Filters, Translations, dimension_space};
use super::elf_scan::{ElfParts, ElfScan};
use super::pool_scan::PoolScan;
use super::scan::{Residual, Scan, external, with_address};
use super::work::{Executions, Morsel, split};
use crate::advise::Noted;
use crate::catalog::{OpenIndex, OpenTable};
use crate::config::{IndexMode, Settings};
use crate::filter::Condition;
use crate::statement::CancelOnDrop;

/// Rows of a segment that one partition scans at a time.
const MORSEL_ROWS: usize = 65_536;
/// Rows of the delta that one partition looks at at a time.
const ADDED_ROWS: usize = 8_192;
/// Rows below which a selection through an index is not worth a second thread.
const SINGLE_ROWS: f64 = 20_000.0;
/// Parts per partition that a large selection through an index is split into.
const PARTS: usize = 4;

/// Name of the column with the address of each row.
pub(crate) const ADDRESS: &str = "row address";

/// One reference to a table in one statement.
#[derive(Debug)]
pub(crate) struct PoolTable {
    open: Arc<OpenTable>,
    /// The table's columns, and the address where that is asked for.
    schema: SchemaRef,
    translations: Translations,
}

impl PoolTable {
    pub(crate) fn new(open: Arc<OpenTable>) -> Self {
        Self {
            schema: Arc::clone(open.table.schema()),
            open,
            translations: Translations::default(),
        }
    }

    /// The table with one more column, the addresses of its rows: for statements that change rows.
    pub(crate) fn with_addresses(open: Arc<OpenTable>) -> Self {
        let mut fields = open.table.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(ADDRESS, DataType::UInt64, false)));
        Self {
            schema: Arc::new(Schema::new(fields)),
            ..Self::new(open)
        }
    }

    /// The table, if its rows have no addresses.
    pub(crate) fn without_addresses(&self) -> Option<Arc<OpenTable>> {
        (!self.has_addresses()).then(|| Arc::clone(&self.open))
    }

    /// These filters as conditions on codes, by segment; none if one of them is no such condition.
    pub(crate) fn conditions(open: &OpenTable, filters: &[Expr]) -> Option<Vec<Vec<(usize, CodePredicate)>>> {
        let segments = open.table.segments().len();
        let filters = Filters::read(filters, open, &Translations::default());
        let rest = filters.rest(&vec![false; filters.conditions.len()], segments);
        rest.expressions.is_empty().then_some(rest.kernels)
    }

    fn has_addresses(&self) -> bool {
        self.schema.fields().len() > self.open.table.schema().fields().len()
    }

    /// Morsels for the rows that are in no segment.
    fn added_morsels(&self) -> impl Iterator<Item = Morsel> + '_ {
        let batches = self.open.delta.iter().flat_map(|delta| delta.batches());
        let of = |(batch, rows): (usize, usize)| {
            let starts = (0..rows).step_by(ADDED_ROWS);
            starts.map(move |start| Morsel::Added {
                batch,
                rows: start..rows.min(start + ADDED_ROWS),
            })
        };
        batches.map(|(_, rows)| rows.num_rows()).enumerate().flat_map(of)
    }

    /// Morsels for a scan: runs of rows that no zone map need be asked for twice.
    fn row_morsels(&self) -> Vec<Morsel> {
        let segments = self.open.table.segments().iter().enumerate();
        let of = |(segment, rows): (usize, usize)| {
            let starts = (0..rows).step_by(MORSEL_ROWS);
            starts.map(move |start| Morsel::Rows {
                segment,
                rows: start..rows.min(start + MORSEL_ROWS),
            })
        };
        segments
            .map(|(number, segment)| (number, segment.rows()))
            .flat_map(of)
            .collect()
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
        Some(match self.has_addresses() {
            true => with_address(statistics),
            false => statistics,
        })
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let exact = |filter: &&Expr| {
            Condition::read(filter, self.open.table.schema())
                .is_some_and(|condition| self.translations.of(&condition, &self.open).is_exact())
        };
        let answer = |filter| match exact(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
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
        let (open, segments) = (&self.open, self.open.table.segments());
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&projection)?);
        let settings = state.config_options().extensions.get::<Settings>();
        let mode = settings.map(|s| s.index).unwrap_or_default();
        let recorder = settings.and_then(|s| s.recorder.clone());
        let runs = recorder.is_none() && mode != IndexMode::Off;
        let filters = match runs && built(open, filters).await? {
            // There may be more to translate to.
            true => Filters::read(filters, open, &Translations::default()),
            false => Filters::read(filters, open, &self.translations),
        };
        let wanted = Wanted {
            projection: &projection,
            limit,
            mode,
        };
        let way = choose(open, &filters, &wanted).map_err(external)?;
        let chosen = match &way {
            Way::Index { number, .. } => Some(*number),
            Way::Scan { .. } => None,
        };
        match (&recorder, chosen) {
            (Some(recorder), _) => recorder.note(open, &filters, chosen),
            (None, Some(number)) => {
                let index = &open.indexes[number];
                index
                    .placing
                    .note(&index.name, || Noted::of(&filters, number, open));
            }
            (None, None) => {}
        }
        let answered = match &way {
            Way::Index { part, .. } => part.answered.clone(),
            Way::Scan { .. } => vec![false; filters.conditions.len()],
        };
        let rest = filters.rest(&answered, segments.len());
        let residual = Residual::plan(rest.expressions, open, state)?;
        let unindexed = match open.delta {
            Some(_) => Residual::plan(filters.expressions(), open, state)?,
            None => None,
        };
        let (Way::Index { rows: stored, .. } | Way::Scan { rows: stored, .. }) = &way;
        let rows = stored + open.delta.as_ref().map_or(0, |delta| delta.live_rows()) as f64;
        let scan = Arc::new(Scan {
            open: Arc::clone(open),
            projection,
            schema,
            kernels: rest.kernels,
            described: rest.described,
            residual,
            unindexed,
            rows,
        });
        let target = state.config().target_partitions().max(1);
        Ok(match way {
            Way::Scan { reason, .. } => {
                let mut morsels = self.row_morsels();
                morsels.extend(self.added_morsels());
                let partitions = target.min(morsels.len().max(1));
                Arc::new(PoolScan::new(
                    scan,
                    reason,
                    limit,
                    Executions::new(morsels),
                    partitions,
                ))
            }
            Way::Index {
                number,
                index,
                part,
                rows,
                reason,
            } => {
                let index = match recorder {
                    // Nothing will run.
                    Some(_) => index,
                    None => placed(open, number, index).await?,
                };
                let partitions = if rows < SINGLE_ROWS { 1 } else { target };
                let parts = if partitions == 1 { 1 } else { partitions * PARTS };
                let mut morsels = Vec::new();
                for (segment, predicates) in part.predicates.iter().enumerate() {
                    let space = |dimension| dimension_space(&index, segment, dimension).max_code();
                    let max_codes: Vec<u64> = (0..predicates.len()).map(space).collect();
                    let split = split(predicates, &max_codes, parts);
                    morsels.extend(
                        split
                            .into_iter()
                            .map(|predicates| Morsel::Select { segment, predicates }),
                    );
                }
                // With enough parts every thread has its own; otherwise all of them share each.
                let together = partitions == 1 || morsels.len() < partitions * PARTS / 2;
                morsels.extend(self.added_morsels());
                let on = describe(&index, &part.predicates, open);
                let executions = Executions::new(morsels);
                let parts = ElfParts {
                    index,
                    on,
                    reason,
                    fetch: limit,
                    executions,
                    partitions,
                    together,
                };
                Arc::new(ElfScan::new(scan, parts))
            }
        })
    }
}

/// Has the volatile indexes built that one of the filters could go through: the first query that has a use for one builds
/// it, and the end of the query is the end of the build. Says whether there was something to build.
///
/// # Errors
/// The thread that builds died.
async fn built(open: &OpenTable, filters: &[Expr]) -> Result<bool> {
    let conditions = filters
        .iter()
        .filter_map(|filter| Condition::read(filter, open.table.schema()));
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

/// The index with what of it is to be in DRAM: the first query that uses it has copies made.
///
/// # Errors
/// The thread that makes them died.
async fn placed(open: &OpenTable, number: usize, now: Arc<TableIndex>) -> Result<Arc<TableIndex>> {
    let index = &open.indexes[number];
    // A volatile one was chosen as it is.
    if index.is_volatile() || !index.is_due() {
        return Ok(now);
    }
    Ok(place(index, &open.table).await?.unwrap_or(now))
}

/// See [`OpenIndex::place`].
///
/// # Errors
/// The thread that does it died.
async fn place(index: &OpenIndex, table: &Table) -> Result<Option<Arc<TableIndex>>> {
    let (index, table) = (index.clone(), table.clone());
    let end = CancelOnDrop::default();
    let cancel = end.flag();
    let placed = tokio::task::spawn_blocking(move || index.place(&table, false, &cancel)).await;
    placed.map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The conditions on an index's dimensions in the values' own words (those of the first segment).
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
