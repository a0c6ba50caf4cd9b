//! Running a star query: dimensions first, then the join on all threads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, collect};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use halocline_columns::{CodePredicate, Segment};
use halocline_joins::JoinError;
use halocline_joins::star::{Groups, Probe, StarJoin, StarStats};

use super::dimension::{Read, read};
use super::node::StarNode;
use super::shape::Shape;
use crate::plan::external;

/// A star query; its children are the dimensions.
#[derive(Debug)]
pub(super) struct StarExec {
    shape: Arc<Shape>,
    dimensions: Vec<Arc<dyn ExecutionPlan>>,
    instead: Arc<LogicalPlan>,
    state: Arc<SessionState>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl StarExec {
    pub(super) fn new(node: &StarNode, dimensions: Vec<Arc<dyn ExecutionPlan>>, state: SessionState) -> Self {
        let schema: SchemaRef = Arc::clone(node.schema.inner());
        Self {
            shape: Arc::clone(&node.shape),
            dimensions,
            instead: Arc::clone(&node.instead),
            state: Arc::new(state),
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Final,
                Boundedness::Bounded,
            )),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn with(&self, dimensions: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        Self {
            shape: Arc::clone(&self.shape),
            dimensions,
            instead: Arc::clone(&self.instead),
            state: Arc::clone(&self.state),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for StarExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StarJoin: {}", self.shape)
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
        Ok(Arc::new(self.with(dimensions)))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = Run {
            exec: Arc::new(self.with(self.dimensions.clone())),
            metrics: self.metrics.clone(),
            context,
        };
        let batches = futures::stream::once(run.batches());
        let batches = futures::TryStreamExt::try_flatten(futures::TryStreamExt::map_ok(batches, |batches| {
            futures::stream::iter(batches.into_iter().map(Ok))
        }));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One execution.
struct Run {
    exec: Arc<StarExec>,
    metrics: ExecutionPlanMetricsSet,
    context: Arc<TaskContext>,
}

/// Tells the join's threads to end when nobody waits for it any more.
struct Interrupt(Arc<AtomicBool>);

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Run {
    async fn batches(self) -> Result<Vec<RecordBatch>> {
        let exec = &self.exec;
        let mut dimensions = Vec::with_capacity(exec.dimensions.len());
        for plan in &exec.dimensions {
            let batches = collect(Arc::clone(plan), Arc::clone(&self.context)).await?;
            match read(&batches)? {
                Some(read) => dimensions.push(read),
                None => return self.instead().await,
            }
        }
        let (probes, attributes): (Vec<_>, Vec<_>) = dimensions
            .into_iter()
            .zip(&exec.shape.arms)
            .map(
                |(
                    Read {
                        dimension,
                        attributes,
                    },
                    arm,
                )| {
                    let probe = Probe {
                        column: arm.column,
                        dimension: Arc::new(dimension),
                    };
                    (probe, attributes)
                },
            )
            .unzip();
        let groups: Vec<u32> = probes
            .iter()
            .map(|probe| probe.dimension.groups().max(1))
            .collect();
        let aggregates = &exec.shape.aggregates;
        let join = match StarJoin::new(probes, aggregates.measured.clone(), aggregates.aggregates.clone()) {
            Ok(join) => join,
            Err(JoinError::TooManyGroups { .. }) => return self.instead().await,
            Err(error) => return Err(external(error)),
        };
        let ended = Arc::new(AtomicBool::new(false));
        let _interrupt = Interrupt(Arc::clone(&ended));
        let shape = Arc::clone(&exec.shape);
        let threads = self.context.session_config().target_partitions();
        let joined = tokio::task::spawn_blocking(move || {
            let segments = shape.fact.table.segments().iter().zip(&shape.conditions);
            let segments: Vec<(&Segment, Vec<(usize, CodePredicate)>)> = segments
                .map(|(segment, conditions)| (segment, conditions.clone()))
                .collect();
            join.run(&segments, threads, &ended)
        });
        let (states, stats) = joined
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))?
            .map_err(external)?;
        self.note(&stats);
        Ok(vec![self.answer(&states, &groups, &attributes)?])
    }

    /// What the join has done, for EXPLAIN ANALYZE.
    fn note(&self, stats: &StarStats) {
        let count = |name: String, number: u64| {
            MetricBuilder::new(&self.metrics)
                .global_counter(name)
                .add(number as usize);
        };
        count("rows_fact".into(), stats.rows);
        count("rows_selected".into(), stats.selected);
        for (place, (probe, passed)) in stats.order.iter().zip(&stats.passed).enumerate() {
            let arm = &self.exec.shape.arms[*probe];
            count(format!("passed_{}_{}", place + 1, arm.on), *passed);
        }
    }

    /// Groups that have rows, or the one of all rows.
    fn answer(&self, states: &Groups, groups: &[u32], attributes: &[Vec<ArrayRef>]) -> Result<RecordBatch> {
        let shape = &self.exec.shape;
        let whole = shape.groups.is_empty();
        let numbers: Vec<usize> = (0..states.len())
            .filter(|group| whole || states.rows(*group) > 0)
            .collect();
        let mut columns = Vec::with_capacity(shape.groups.len() + shape.aggregates.outputs.len());
        for (arm, attribute) in &shape.groups {
            let stride: usize = groups[..*arm].iter().map(|groups| *groups as usize).product();
            let of_arm = |group: &usize| (group / stride % groups[*arm] as usize) as u32;
            let rows: UInt32Array = numbers.iter().map(|group| Some(of_arm(group))).collect();
            let values = match attributes[*arm].get(*attribute) {
                Some(values) => arrow_select::take::take(values, &rows, None)?,
                // The dimension is empty, and so is the answer.
                None => arrow_array::new_empty_array(self.exec.schema().field(columns.len()).data_type()),
            };
            columns.push(values);
        }
        for output in &shape.aggregates.outputs {
            columns.push(output.array(states, &numbers)?);
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        Ok(RecordBatch::try_new_with_options(
            self.exec.schema(),
            columns,
            &options,
        )?)
    }

    /// The answer of the plan that was replaced.
    async fn instead(&self) -> Result<Vec<RecordBatch>> {
        let planner = DefaultPhysicalPlanner::default();
        let plan = planner
            .create_physical_plan(&self.exec.instead, self.exec.state.as_ref())
            .await?;
        collect(plan, Arc::clone(&self.context)).await
    }
}
