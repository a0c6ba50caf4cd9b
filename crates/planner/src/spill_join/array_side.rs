//! The build side of an array join: a whole table whose single key says where each row is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use halocline_catalog::OpenTable;
use halocline_catalog::known_keys::KeyOrder;
use halocline_costs::join::array;
use halocline_costs::machine::{CpuCosts, MediumCosts};
use halocline_joins::equi::{DenseKeyMap, JoinBudget, RandomRows, TableRows};
use halocline_joins::{JoinError, JoinResult};
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::PoolScan;

use super::run::Cancel;

/// A table that a plan reads as a whole, and the column of its output that is the key.
#[derive(Debug, Clone)]
pub(super) struct ArraySide {
    open: Arc<OpenTable>,
    /// The stored columns that are the output of the plan.
    columns: Vec<usize>,
    /// The position of the key among them.
    key: usize,
}

impl ArraySide {
    /// Returns the table that a plan reads, if it reads all rows of one and is joined by one of its columns.
    pub(super) fn from_plan<'a>(
        plan: &Arc<dyn ExecutionPlan>,
        mut keys: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
    ) -> Option<Self> {
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return None;
        };
        let key = key.downcast_ref::<Column>()?.index();
        let (scan, columns) = whole_table(plan)?;
        let open = Arc::clone(scan.table());
        let is_stored = open.delta.as_ref().is_none_or(|delta| delta.live_rows() == 0);
        (is_stored && u32::try_from(open.table.rows()).is_ok()).then_some(Self { open, columns, key })
    }

    /// Returns true if the keys are likely to be dense, by the statistics of the table.
    pub(super) fn is_likely(&self) -> bool {
        let rows = self.rows() as f64;
        if let Some(KeyOrder::NotDense) = self.open.known_keys.get(self.stored_key()) {
            return false;
        }
        let distinct = self
            .statistics()
            .and_then(|column| column.distinct_count.get_value().copied());
        let distinct = distinct.map(|distinct| distinct as f64);
        self.range()
            .is_some_and(|range| array::are_likely_dense(rows, range, distinct))
    }

    /// Returns the statistics of the key.
    fn statistics(&self) -> Option<ColumnStatistics> {
        let mut statistics = self.open.statistics().ok()?.column_statistics;
        let key = self.stored_key();
        (key < statistics.len()).then(|| statistics.swap_remove(key))
    }

    /// Returns the number of numbers from the smallest key to the largest one.
    fn range(&self) -> Option<f64> {
        let number = |value: &Precision<ScalarValue>| match value.get_value()?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        };
        let column = self.statistics()?;
        let (least, most) = (number(&column.min_value)?, number(&column.max_value)?);
        Some(most.abs_diff(least) as f64 + 1.0)
    }

    /// Estimates the seconds that it takes to find the order of the keys or to make their map, for which the
    /// key column is read once or twice by one thread.
    pub(super) fn preparation(&self, cpu: &CpuCosts, costs: &MediumCosts) -> f64 {
        let rows = self.rows() as f64;
        match self.open.known_keys.get(self.stored_key()) {
            Some(KeyOrder::Sequence(_)) => 0.0,
            None if self.range().is_some_and(|range| range <= rows) => array::find_order(rows, cpu),
            _ => array::map_keys(rows, cpu, costs),
        }
    }

    fn stored_key(&self) -> usize {
        self.columns[self.key]
    }

    /// Returns the number of rows that are not deleted.
    pub(super) fn rows(&self) -> u64 {
        self.open.table.live_rows()
    }

    /// Returns the rows and the map of their keys; `None` if these are not dense, or there is no memory for
    /// the map. Reads the key column twice at most.
    ///
    /// # Errors
    /// The table is damaged; [`JoinError::Interrupted`].
    pub(super) fn dense_rows(
        &self,
        budget: &Arc<JoinBudget>,
        cancel: &Arc<Cancel>,
    ) -> JoinResult<Option<(InterruptibleRows, DenseKeyMap)>> {
        let rows = InterruptibleRows {
            rows: TableRows::new(&self.open.table, self.columns.clone())?,
            cancel: Arc::clone(cancel),
        };
        let (known, column) = (&self.open.known_keys, self.stored_key());
        match known.get(column) {
            Some(KeyOrder::Sequence(keys)) => {
                return Ok(keys.sequence_of(self.key).map(|keys| (rows, keys)));
            }
            Some(KeyOrder::NotDense) => return Ok(None),
            Some(KeyOrder::Mapped) | None => {}
        }
        let available = budget.available();
        let keys = DenseKeyMap::detect(&rows, self.key, budget)?;
        match &keys {
            Some(keys) => known.set(
                column,
                match keys.sequence_of(self.key) {
                    Some(keys) => KeyOrder::Sequence(Arc::new(keys)),
                    None => KeyOrder::Mapped,
                },
            ),
            // Without memory for a map it is not known that there is none.
            None if available >= array::max_map_bytes(self.open.table.rows() as f64) as usize => {
                known.set(column, KeyOrder::NotDense);
            }
            None => {}
        }
        Ok(keys.map(|keys| (rows, keys)))
    }
}

/// Returns the scan of a table that a plan outputs as a whole, in any order, and the stored columns that are
/// the columns of the output.
fn whole_table(plan: &Arc<dyn ExecutionPlan>) -> Option<(&PoolScan, Vec<usize>)> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
        let columns = scan.whole_columns()?;
        return Some((scan, columns));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let (scan, columns) = whole_table(projection.input())?;
        let column = |expr: &Arc<dyn PhysicalExpr>| Some(columns[expr.downcast_ref::<Column>()?.index()]);
        let columns = projection.expr().iter().map(|projected| column(&projected.expr));
        return Some((scan, columns.collect::<Option<_>>()?));
    }
    let passes_rows =
        plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>() || plan.is::<RepartitionExec>();
    match plan.children()[..] {
        [child] if passes_rows => whole_table(child),
        _ => None,
    }
}

/// Rows that are no longer read once a join is to end.
pub(super) struct InterruptibleRows {
    rows: TableRows,
    cancel: Arc<Cancel>,
}

impl RandomRows for InterruptibleRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn rows(&self) -> usize {
        self.rows.rows()
    }

    fn take(&self, rows: &[u32], columns: &[usize]) -> JoinResult<Vec<ArrayRef>> {
        if self.cancel.flag.load(Ordering::Relaxed) {
            Err(JoinError::Interrupted)
        } else {
            self.rows.take(rows, columns)
        }
    }

    fn retain_live(&self, rows: &mut Vec<u32>) -> JoinResult<()> {
        self.rows.retain_live(rows)
    }
}
