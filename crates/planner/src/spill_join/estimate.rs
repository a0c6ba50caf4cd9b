//! The size of the build side of a join: as estimated, and at most.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use halocline_costs::join;

/// The size of a build side; what is not known is none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BuildEstimate {
    /// Estimated rows.
    pub(super) rows: Option<u64>,
    /// Estimated bytes in memory.
    pub(super) bytes: Option<f64>,
    /// Bytes that it takes at most, but for long strings.
    pub(super) most_bytes: Option<f64>,
}

impl BuildEstimate {
    /// Returns that of the left side of a join.
    pub(super) fn for_join(join: &HashJoinExec) -> Self {
        let build = join.left();
        let width = join::table_row_bytes(row_bytes(&build.schema()));
        let rows = likely_rows(build);
        Self {
            rows: rows.map(|rows| rows as u64),
            bytes: rows.map(|rows| rows as f64 * width),
            most_bytes: most_rows(build).map(|rows| rows as f64 * width),
        }
    }
}

/// Returns the rows of a plan by its statistics.
pub(super) fn rows(plan: &dyn ExecutionPlan) -> Option<Precision<usize>> {
    let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
    Some(statistics.ok()?.num_rows)
}

/// Returns the estimated rows of a plan; where nothing is known of a join, those of its larger side.
pub(super) fn likely_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let known = rows(plan.as_ref()).and_then(|rows| rows.get_value().copied());
    known.or_else(|| plan.children().into_iter().filter_map(likely_rows).max())
}

/// Returns a number of rows that a plan does not exceed, as far as it only drops rows, or groups them, of a
/// plan that knows how many it has.
fn most_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(Precision::Exact(rows)) = rows(plan.as_ref()) {
        return Some(rows);
    }
    // Each of several grouping sets has a group for each row at most.
    let sets = match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => aggregate.group_expr().groups().len().max(1),
        None => 1,
    };
    let drops_only = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<AggregateExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortExec>();
    match plan.children()[..] {
        [child] if drops_only => most_rows(child).map(|rows| rows.saturating_mul(sets)),
        _ => None,
    }
}

/// Returns the bytes of a row in DRAM.
pub(super) fn row_bytes(schema: &Schema) -> f64 {
    let width = |data_type: &DataType| match data_type {
        DataType::Boolean => Some(1.0 / 8.0),
        other => other.primitive_width().map(|width| width as f64),
    };
    let fields = schema.fields().iter();
    join::row_bytes(fields.map(|field| width(field.data_type())))
}
