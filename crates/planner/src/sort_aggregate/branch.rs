//! The rows of one partition or part, aggregated branch by branch.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef, SortOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;

use super::attempt::{MEMORY_DIVISOR, attempt};
use super::distinct::distinct;
use super::joined::joined;
use super::layout::{Branch, BranchKind, FilteredAggregate, Layout, unexpected};
use super::middle::{MiddleOf, middle};
use super::narrow::{narrowed, widened};
use super::once::OnceExec;
use super::selection::{files_of, selection, selects};
use crate::materialized::Collected;
use crate::string_views::StringsExec;

/// Name of the files in errors.
const FILE: &str = "rows of an aggregation";

/// Returns the groups of rows that have the columns of a layout.
///
/// # Errors
/// That of the rows; a file cannot be written or read.
pub(super) async fn by_sorting(
    rows: SendableRecordBatchStream,
    layout: &Layout,
    output: SchemaRef,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let mut results = Vec::new();
    match &layout.branches[..] {
        [branch] => results.push(branch.run(rows, layout, context).await?),
        branches => {
            let rows = Arc::new(Collected::collect(rows, FILE, context).await?);
            for branch in branches {
                let groups = branch.run(Arc::clone(&rows).read()?, layout, context).await?;
                // One sort at a time takes memory.
                let groups = Collected::collect(groups, FILE, context).await?;
                results.push(Arc::new(groups).read()?);
            }
        }
    }
    Ok(joined(results, layout.keys, layout.places.clone(), output))
}

impl Branch {
    async fn run(
        &self,
        rows: SendableRecordBatchStream,
        layout: &Layout,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let columns: Vec<usize> = (0..layout.keys).chain(self.order.iter().copied()).collect();
        let read = self.columns(layout);
        let rows = narrowed(rows, read.clone())?;
        if let Some(of) = self.middle_of_all(&read, layout)? {
            return Ok(selection(rows, of, files_of(context)?, context));
        }
        if self.kind == BranchKind::Distinct {
            let rows = widened(distinct(rows, context), read, &layout.columns);
            return self.groups_in_any_order(rows, layout, context).await;
        }
        let rows = match self.kind {
            BranchKind::Middle {
                is_distinct: true, ..
            } => distinct(rows, context),
            _ => rows,
        };
        let sorted = match order_of(&columns, &read, layout) {
            Some(order) => sorted(rows, order, layout, context)?,
            None => rows,
        };
        let sorted = widened(sorted, read, &layout.columns);
        if let BranchKind::Middle {
            fraction, is_median, ..
        } = self.kind
        {
            return middle(sorted, self.middle_of(fraction, is_median, layout)?, context);
        }
        let names = self.aggregates.iter().map(|(aggregate, _)| aggregate.name());
        let names = names.collect::<Vec<_>>().join(", ");
        let groups = self.groups(sorted, layout, context)?;
        let schema = groups.schema();
        let groups = groups.map_err(move |error| refused(&names, error));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, groups)))
    }

    /// Aggregates rows in any order: in memory, or by sorting them if the groups do not fit. The groups are
    /// sorted if there are other branches.
    async fn groups_in_any_order(
        &self,
        rows: SendableRecordBatchStream,
        layout: &Layout,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let keys: Vec<usize> = (0..layout.keys).collect();
        let Some(order) = order_of(&keys, &keys, layout) else {
            return self.groups(rows, layout, context);
        };
        let rows = Arc::new(Collected::collect(rows, FILE, context).await?);
        let input = Arc::new(OnceExec::new(Arc::clone(&rows).read()?, None));
        let aggregation: Arc<dyn ExecutionPlan> = Arc::new(layout.aggregation(&self.aggregates, input)?);
        let groups = attempt(&aggregation, usize::MAX, MEMORY_DIVISOR, context).await?;
        match groups.and_then(|mut groups| groups.pop()) {
            Some(groups) if layout.branches.len() > 1 => sorted(groups, order, layout, context),
            Some(groups) => Ok(groups),
            None => self.groups(sorted(rows.read()?, order, layout, context)?, layout, context),
        }
    }

    /// Returns the selection of a branch of middle rows.
    fn middle_of(&self, fraction: f64, is_median: bool, layout: &Layout) -> Result<MiddleOf> {
        let ([(aggregate, _)], [value]) = (&self.aggregates[..], &self.order[..]) else {
            return Err(unexpected("one aggregate selects a row of one column"));
        };
        let keys = layout.columns.fields().iter().take(layout.keys).cloned();
        let result: Field = aggregate.field().as_ref().clone();
        let fields: Vec<_> = keys.chain([Arc::new(result)]).collect();
        Ok(MiddleOf {
            aggregate: Arc::clone(aggregate),
            is_median,
            fraction,
            keys: layout.keys,
            value: *value,
            output: Arc::new(Schema::new(fields)),
        })
    }

    /// Returns the selection from rows that have only the columns `read`, if they need not be sorted for it.
    fn middle_of_all(&self, read: &[usize], layout: &Layout) -> Result<Option<MiddleOf>> {
        let BranchKind::Middle {
            fraction,
            is_median,
            is_distinct: false,
        } = self.kind
        else {
            return Ok(None);
        };
        let mut of = self.middle_of(fraction, is_median, layout)?;
        if layout.keys > 0 || !selects(layout.columns.field(of.value).data_type()) {
            return Ok(None);
        }
        of.value = read.partition_point(|&column| column < of.value);
        Ok(Some(of))
    }

    /// Aggregates rows that are sorted by the keys.
    fn groups(
        &self,
        rows: SendableRecordBatchStream,
        layout: &Layout,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let keys: Vec<usize> = (0..layout.keys).collect();
        let order = order_of(&keys, &keys, layout);
        let rows = Arc::new(OnceExec::new(rows, order));
        layout
            .aggregation(&self.aggregates, rows)?
            .execute(0, Arc::clone(context))
    }
}

impl Layout {
    /// Returns the node that computes aggregates by the keys.
    pub(super) fn aggregation(
        &self,
        aggregates: &[FilteredAggregate],
        rows: Arc<dyn ExecutionPlan>,
    ) -> Result<AggregateExec> {
        let keys = (0..self.keys).map(|key| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(column(key, self));
            (column, self.columns.field(key).name().clone())
        });
        let (aggregates, filters) = aggregates.iter().cloned().unzip();
        AggregateExec::try_new(
            AggregateMode::Single,
            PhysicalGroupBy::new_single(keys.collect()),
            aggregates,
            filters,
            rows,
            Arc::clone(&self.columns),
        )
    }
}

/// Sorts rows: by all threads if there are no keys, since the other partitions have no rows then.
fn sorted(
    rows: SendableRecordBatchStream,
    order: LexOrdering,
    layout: &Layout,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let input = Arc::new(OnceExec::new(rows, None));
    let threads = context.session_config().target_partitions();
    if layout.keys > 0 || threads < 2 {
        return SortExec::new(order, input).execute(0, Arc::clone(context));
    }
    let parts = RepartitionExec::try_new(input, Partitioning::RoundRobinBatch(threads))?;
    let parts = SortExec::new(order.clone(), Arc::new(parts)).with_preserve_partitioning(true);
    // The merge counts all that the texts of a batch share with others.
    let parts = StringsExec::compact(Arc::new(parts));
    SortPreservingMergeExec::new(order, Arc::new(parts)).execute(0, Arc::clone(context))
}

/// Names the aggregates whose results for one group take more memory than there is.
fn refused(names: &str, error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(reason) => DataFusionError::ResourcesExhausted(format!(
            "the values of one group do not fit for {names} ({reason}); set halocline.memory to more, or aggregate \
             fewer rows"
        )),
        _ => error,
    }
}

/// Returns the order by columns of a layout, values that are not keys with NULLs last, for rows that have
/// only the columns `read`, ascending; `None` without columns.
fn order_of(columns: &[usize], read: &[usize], layout: &Layout) -> Option<LexOrdering> {
    let columns = columns.iter().map(|&number| {
        let options = SortOptions {
            descending: false,
            nulls_first: number < layout.keys,
        };
        let name = layout.columns.field(number).name();
        let place = read.partition_point(|&column| column < number);
        PhysicalSortExpr::new(Arc::new(Column::new(name, place)), options)
    });
    LexOrdering::new(columns)
}

fn column(number: usize, layout: &Layout) -> Column {
    Column::new(layout.columns.field(number).name(), number)
}
