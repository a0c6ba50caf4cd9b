//! A star query in the physical plan, with estimates of the order of its probes.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;
use halocline_joins::star::ProbeCost;

use super::node::StarNode;
use super::run::StarExecution;
use super::shape::StarShape;
use crate::plan::DeltaRows;

/// A star query; its children are the dimensions.
#[derive(Debug, Clone)]
pub(super) struct StarExec {
    pub(super) shape: Arc<StarShape>,
    /// Rows of the fact table that are in no segment.
    pub(super) added: Arc<DeltaRows>,
    pub(super) dimensions: Vec<Arc<dyn ExecutionPlan>>,
    /// The plan that the star join replaces.
    pub(super) replaced: Arc<LogicalPlan>,
    pub(super) state: Arc<SessionState>,
    estimates: Arc<ProbeEstimates>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

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
        Ok(Self {
            added: Arc::new(DeltaRows::new(&shape.fact, &shape.filters, state)?),
            estimates: Arc::new(ProbeEstimates::of(&shape, &dimensions)),
            shape,
            dimensions,
            replaced: Arc::clone(&node.replaced),
            state: Arc::new(state.clone()),
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Final,
                Boundedness::Bounded,
            )),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for StarExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StarJoin: fact={}", self.shape.fact.table.name())?;
        write!(f, ", on=[{}]", self.estimates.describe(&self.shape))?;
        self.shape.fmt_filter(f)?;
        match self.added.max_rows() {
            0 => Ok(()),
            rows => write!(f, ", rows_in_log={rows}"),
        }
    }
}

impl ExecutionPlan for StarExec {
    fn name(&self) -> &'static str {
        "StarJoin"
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
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        dimensions: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            dimensions,
            metrics: ExecutionPlanMetricsSet::new(),
            ..(*self).clone()
        }))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = StarExecution::new(self.clone(), self.metrics.clone(), context);
        let batches = futures::stream::once(run.batches())
            .map_ok(|batches| futures::stream::iter(batches.into_iter().map(Ok)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
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
    fn of(shape: &StarShape, dimensions: &[Arc<dyn ExecutionPlan>]) -> Self {
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
            ProbeCost::estimated(&columns.unwrap_or_default(), rows)
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
