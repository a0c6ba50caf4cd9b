//! A star query in the physical plan, with estimates of the order of its probes.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};
use futures::TryStreamExt;
use halocline_costs::join::ProbeCost;
use halocline_joins::star::estimated_probe_cost;
use halocline_scan::plan::{DeltaRows, KeyFilter};
use tokio::sync::OnceCell;

use super::key_filters::KeyFilters;
use super::key_match::KeyMatch;
use super::node::StarNode;
use super::result::StarResult;
use super::run::StarExecution;
use super::shape::StarShape;

/// A star query; its children are the dimensions.
#[derive(Debug, Clone)]
pub struct StarExec {
    pub(super) shape: Arc<StarShape>,
    /// Rows of the fact table that are in no segment.
    pub(super) added: Arc<DeltaRows>,
    pub(super) dimensions: Vec<Arc<dyn ExecutionPlan>>,
    /// The plan that the star join replaces.
    pub(super) replaced: Arc<LogicalPlan>,
    pub(super) state: Arc<SessionState>,
    /// Keys of joins above.
    pub(super) keys: KeyFilters,
    estimates: Arc<ProbeEstimates>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The result, which the partitions of one execution share.
    result: Arc<OnceCell<Arc<StarResult>>>,
}

/// Number of groups from which on the partitions share the work of returning them.
const MANY_GROUPS: u64 = 1 << 16;

impl StarExec {
    /// Creates the node.
    ///
    /// # Errors
    /// DataFusion cannot plan the fact table's conditions.
    pub(super) fn new(
        node: &StarNode,
        dimensions: Vec<Arc<dyn ExecutionPlan>>,
        state: &SessionState,
    ) -> Result<Self> {
        let schema: SchemaRef = Arc::clone(node.schema.inner());
        let shape = Arc::clone(&node.shape);
        let partitions = match shape.estimated_groups() {
            Some(groups) if groups >= MANY_GROUPS => state.config().target_partitions().max(1),
            _ => 1,
        };
        Ok(Self {
            added: Arc::new(DeltaRows::new(&shape.fact, &shape.filters, state)?),
            estimates: Arc::new(ProbeEstimates::new(&shape, &dimensions)),
            shape,
            dimensions,
            keys: KeyFilters::default(),
            replaced: Arc::clone(&node.replaced),
            state: Arc::new(state.clone()),
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema),
                Partitioning::UnknownPartitioning(partitions),
                EmissionType::Final,
                Boundedness::Bounded,
            )),
            metrics: ExecutionPlanMetricsSet::new(),
            result: Arc::default(),
        })
    }

    /// Returns the node with those of the filters that restrict its groups; `None` if no filter does.
    pub fn with_key_filters(&self, filters: Vec<Arc<KeyFilter>>) -> Option<Self> {
        let keys = KeyFilters::for_shape(filters, &self.shape);
        // A clone shares the result, which would be that without these keys.
        let exec = || Self {
            metrics: ExecutionPlanMetricsSet::new(),
            result: Arc::default(),
            keys: keys.clone(),
            ..self.clone()
        };
        (!keys.is_empty()).then(exec)
    }

    /// Returns the result of the query, which the first partition that asks computes.
    async fn result(&self, context: Arc<TaskContext>) -> Result<Arc<StarResult>> {
        let compute = || async move {
            let run = StarExecution::new(self.clone(), self.metrics.clone(), context);
            run.result().await.map(Arc::new)
        };
        self.result.get_or_try_init(compute).await.map(Arc::clone)
    }
}

impl DisplayAs for StarExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.shape.fact.table.name();
        if self.shape.is_single() {
            write!(f, "FusedAggregate: table={table}")?
        } else {
            write!(
                f,
                "StarJoin: fact={table}, on=[{}]",
                self.estimates.describe(&self.shape)
            )?
        }
        self.shape.fmt_groups(f)?;
        self.shape.fmt_filter(f)?;
        if !self.keys.is_empty() {
            write!(f, ", dynamic_filters=[{}]", self.keys.describe(&self.shape))?;
        }
        match self.added.max_rows() {
            0 => Ok(()),
            rows => write!(f, ", rows_in_log={rows}"),
        }
    }
}

impl ExecutionPlan for StarExec {
    fn name(&self) -> &'static str {
        self.shape.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.dimensions.iter().collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.dimensions.len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.keys.expressions().collect::<Vec<_>>(), f)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // A clone shares the result, and the next execution computes it anew.
        Ok(Arc::new(Self {
            metrics: ExecutionPlanMetricsSet::new(),
            result: Arc::default(),
            keys: KeyFilters::default(),
            ..(*self).clone()
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        dimensions: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            dimensions,
            metrics: ExecutionPlanMetricsSet::new(),
            result: Arc::default(),
            ..(*self).clone()
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // The clone shares the result: the first partition that is polled computes it for all.
        let (exec, schema) = (self.clone(), self.schema());
        let partitions = self.properties.output_partitioning().partition_count();
        let batches = futures::stream::once(async move {
            let result = exec.result(Arc::clone(&context)).await?;
            result.batches((partition, partitions), exec.schema(), context)
        });
        let batches = batches.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if args.partition().is_none()
            && let Some(groups) = self.shape.estimated_groups()
        {
            statistics.num_rows = if self.shape.groups.is_empty() {
                Precision::Exact(1)
            } else {
                Precision::Inexact(groups as usize)
            };
        }
        Ok(Arc::new(statistics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The probes in their estimated order, with the share of rows that each is estimated to keep.
#[derive(Debug)]
struct ProbeEstimates(Vec<(usize, Option<f64>)>);

impl ProbeEstimates {
    /// Estimates by the statistics of the dimensions and of the largest segment of the fact table.
    fn new(shape: &StarShape, dimensions: &[Arc<dyn ExecutionPlan>]) -> Self {
        let context = StatisticsContext::new();
        let segments = shape.fact.table.segments();
        let largest = segments.iter().max_by_key(|segment| segment.rows());
        let costs = shape.branches.iter().zip(dimensions).map(|(branch, plan)| {
            let statistics = context.compute(plan.as_ref(), &StatisticsArgs::new());
            let rows = statistics
                .ok()
                .and_then(|known| known.num_rows.get_value().copied());
            let columns: Option<Vec<_>> = largest.map(|segment| {
                branch
                    .columns
                    .iter()
                    .map(|column| segment.column(*column))
                    .collect()
            });
            let cost = estimated_probe_cost(&columns.unwrap_or_default(), rows);
            match branch.key_match {
                KeyMatch::Optional => ProbeCost {
                    share: Some(1.0),
                    ..cost
                },
                _ => cost,
            }
        });
        let costs: Vec<ProbeCost> = costs.collect();
        let order = ProbeCost::order(&costs);
        Self(
            order
                .into_iter()
                .map(|probe| (probe, costs[probe].share))
                .collect(),
        )
    }

    /// Describes the probes. Their final order is decided once the dimensions are loaded.
    fn describe(&self, shape: &StarShape) -> String {
        let probes = self.0.iter().map(|(probe, share)| {
            let on = &shape.branches[*probe].on;
            match share {
                Some(share) => format!("{on} (keeps about {:.3}%)", share * 100.0),
                None => format!("{on} (what it keeps shows when it is read)"),
            }
        });
        probes.collect::<Vec<_>>().join(", ")
    }
}
