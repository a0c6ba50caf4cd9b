//! A pool's table as DataFusion sees it.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use halocline_columns::CodePredicate;

use super::choose::{Wanted, Way, choose};
use super::conditions::{Filters, Translations, dimension_space};
use super::elf_scan::{ElfParts, ElfScan};
use super::pool_scan::PoolScan;
use super::scan::{Residual, Scan, external};
use super::work::{Executions, Morsel, split};
use crate::catalog::OpenTable;
use crate::config::Settings;
use crate::filter::Condition;

/// Rows of a segment that one partition scans at a time.
const MORSEL_ROWS: usize = 65_536;
/// Rows below which a selection through an index is not worth a second thread.
const SINGLE_ROWS: f64 = 20_000.0;
/// Parts per partition that a large selection through an index is split into.
const PARTS: usize = 4;

/// One reference to a table in one statement.
#[derive(Debug)]
pub(crate) struct PoolTable {
    open: Arc<OpenTable>,
    translations: Translations,
}

impl PoolTable {
    pub(crate) fn new(open: Arc<OpenTable>) -> Self {
        Self {
            open,
            translations: Translations::default(),
        }
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
        Arc::clone(self.open.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        self.open
            .statistics()
            .ok()
            .map(|statistics| Statistics::clone(&statistics))
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
            .unwrap_or_else(|| (0..open.table.schema().fields().len()).collect());
        let schema = Arc::new(open.table.schema().project(&projection)?);
        let filters = Filters::read(filters, open, &self.translations);
        let mode = state
            .config_options()
            .extensions
            .get::<Settings>()
            .map(|s| s.index)
            .unwrap_or_default();
        let wanted = Wanted {
            projection: &projection,
            limit,
            mode,
        };
        let way = choose(open, &filters, &wanted).map_err(external)?;
        let answered = match &way {
            Way::Index { part, .. } => part.answered.clone(),
            Way::Scan { .. } => vec![false; filters.conditions.len()],
        };
        let rest = filters.rest(&answered, segments.len());
        let residual = Residual::plan(rest.expressions, open, state)?;
        let rows = match &way {
            Way::Index { rows, .. } | Way::Scan { rows, .. } => *rows,
        };
        let scan = Arc::new(Scan {
            open: Arc::clone(open),
            projection,
            schema,
            kernels: rest.kernels,
            described: rest.described,
            residual,
            rows,
        });
        let target = state.config().target_partitions().max(1);
        Ok(match way {
            Way::Scan { reason, .. } => {
                let morsels = self.row_morsels();
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
                index,
                part,
                rows,
                reason,
            } => {
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
                let on = describe(&index, &part.predicates, open);
                let executions = Executions::new(morsels);
                let parts = ElfParts {
                    index,
                    on,
                    reason,
                    fetch: limit,
                    executions,
                    partitions,
                };
                Arc::new(ElfScan::new(scan, parts))
            }
        })
    }
}

/// The conditions on an index's dimensions in the values' own words (those of the first segment).
fn describe(
    index: &halocline_elf::TableIndex,
    predicates: &[Vec<CodePredicate>],
    open: &OpenTable,
) -> String {
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
