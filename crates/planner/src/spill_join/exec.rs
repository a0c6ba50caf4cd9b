//! A join that spills as a node of the physical plan.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{NullEquality, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, replace_children_if_necessary,
};
use halocline_catalog::spill_files::SpillFiles;
use halocline_joins::equi::{EquiJoin, JoinSource};
use halocline_sql::size::rounded;

use super::array_side::ArraySide;
use super::choice::PlannedChoice;
use super::estimate::BuildEstimate;
use super::input::StreamSource;
use super::key_bounds::KeyBounds;
use super::memory;
use super::output::JoinRuns;
use super::parts::{SideColumns, kind_of, residual_of};
use super::run::{Cancel, JoinMetrics, JoinTask};

/// A hybrid hash join, whose left side is the build side.
pub struct SpillingJoin {
    /// Describes the join; it is not run. Its mode is the one whose sides need no distribution.
    join: HashJoinExec,
    estimate: BuildEstimate,
    /// The estimates that the algorithm was chosen by, if there are some.
    choice: Option<PlannedChoice>,
    /// True for an array join.
    is_array: bool,
    schema: SchemaRef,
    output: SideColumns,
    runs: JoinRuns,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpillingJoin {
    /// Returns true if there is a join in the place of a hash join.
    pub(super) fn is_offered(join: &HashJoinExec) -> bool {
        !(join.null_aware && join.filter().is_some() || join.fetch().is_some())
    }

    /// Returns the join in the place of a hash join.
    ///
    /// # Errors
    /// The hash join is inconsistent.
    pub(super) fn from_hash_join(
        join: &HashJoinExec,
        estimate: BuildEstimate,
        choice: Option<PlannedChoice>,
        is_array: bool,
    ) -> Result<Self> {
        let join = join.builder().with_partition_mode(PartitionMode::CollectLeft);
        let join = join.reset_state().recompute_properties().build()?;
        Ok(Self::new(join, estimate, choice, is_array))
    }

    fn new(
        join: HashJoinExec,
        estimate: BuildEstimate,
        choice: Option<PlannedChoice>,
        is_array: bool,
    ) -> Self {
        let (left, right) = (join.left().schema(), join.right().schema());
        let (_, columns) = build_join_schema(&left, &right, join.join_type());
        let wanted = match &join.projection {
            Some(projection) => projection.iter().map(|column| columns[*column].clone()).collect(),
            None => columns,
        };
        let schema = join.schema();
        let partitions = join.left().properties().partitioning.partition_count();
        let partitions = partitions.max(join.right().properties().partitioning.partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            output: SideColumns::new(&wanted),
            join,
            estimate,
            choice,
            is_array,
            schema,
            runs: JoinRuns::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns true for an array join, which sets no dynamic filter: it does not read its build side first.
    pub fn is_array(&self) -> bool {
        self.is_array
    }

    /// Returns the description of the join, with its sides and its dynamic filter.
    pub fn description(&self) -> &HashJoinExec {
        &self.join
    }

    /// Returns the join with another description of the same inputs.
    pub fn with_description(&self, join: HashJoinExec) -> Self {
        Self::new(join, self.estimate, self.choice.clone(), self.is_array)
    }

    /// Returns a join that is ready to run.
    fn task(&self, context: &Arc<TaskContext>) -> Result<JoinTask> {
        let cancel = Arc::new(Cancel::default());
        let on = self.join.on();
        let (left, right) = (on.iter().map(|(left, _)| left), on.iter().map(|(_, right)| right));
        let build = StreamSource::start(self.join.left(), left, self.estimate.rows, context, &cancel)?;
        let probe = StreamSource::start(self.join.right(), right, None, context, &cancel)?;
        let optimizer = &context.session_config().options().optimizer;
        let bounds = self.bounds(&build, optimizer.hash_join_inlist_pushdown_max_distinct_values)?;
        let build = build.with_bounds(bounds);
        let join = EquiJoin::new(
            kind_of(*self.join.join_type()),
            build.keys.clone(),
            probe.keys.clone(),
        )
        .with_output(self.output.build.clone(), self.output.probe.clone());
        let join = match self.join.filter() {
            Some(filter) => join.with_residual(residual_of(filter)),
            None => join,
        };
        let join = if self.join.null_aware {
            join.with_null_aware()
        } else {
            join
        };
        let join = match self.join.null_equality() {
            NullEquality::NullEqualsNull => join.with_null_equals_null(),
            NullEquality::NullEqualsNothing => join,
        };
        let on = on.iter().map(|(left, _)| left);
        let array = self.is_array.then(|| ArraySide::from_plan(self.join.left(), on));
        Ok(JoinTask {
            join,
            array: array.flatten(),
            build,
            probe,
            output: self.output.clone(),
            schema: Arc::clone(&self.schema),
            threads: NonZeroUsize::new(context.session_config().target_partitions())
                .unwrap_or(NonZeroUsize::MIN),
            memory: memory::budget([self.join.left(), self.join.right()], context),
            directory: spill_directory(context),
            cancel,
            metrics: JoinMetrics::new(&self.metrics),
        })
    }

    /// Returns what sets the dynamic filter; `None` if there is none, or a NULL could match.
    fn bounds(&self, build: &StreamSource, listed: usize) -> Result<Option<KeyBounds>> {
        let Some(filter) = self.join.dynamic_expressions_produced().pop() else {
            return Ok(None);
        };
        let Ok(filter) = Arc::downcast::<DynamicFilterPhysicalExpr>(filter) else {
            return Ok(None);
        };
        if self.join.null_aware || self.join.null_equality() == NullEquality::NullEqualsNull {
            return Ok(None);
        }
        let probe = self.join.on().iter().map(|(_, right)| right);
        let bounds = KeyBounds::new(
            filter,
            (&build.schema(), &build.keys, build.morsels()),
            (probe, &self.join.right().schema()),
            listed,
        );
        bounds.map(Some)
    }
}

impl fmt::Debug for SpillingJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillingJoin")
            .field("join", &self.join)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SpillingJoin {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = self.join.on().iter();
        let on: Vec<String> = on.map(|(left, right)| format!("({left}, {right})")).collect();
        let (on, join_type) = (on.join(", "), self.join.join_type());
        if format == DisplayFormatType::TreeRender {
            return writeln!(f, "join_type={join_type:?}\non={on}");
        }
        write!(f, "SpillingJoin: join_type={join_type:?}, on=[{on}]")?;
        if let Some(filter) = self.join.filter() {
            write!(f, ", filter={}", filter.expression())?;
        }
        if let Some(bytes) = self.estimate.bytes.filter(|_| !self.is_array) {
            write!(f, ", build={}", rounded(bytes as u64))?;
        }
        let algorithm = if self.is_array { "array" } else { "hybrid" };
        write!(f, ", algorithm={algorithm}")?;
        match &self.choice {
            Some(choice) => write!(f, ", costs=[{choice}]"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for SpillingJoin {
    fn name(&self) -> &'static str {
        "SpillingJoin"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.join.left(), self.join.right()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().recompute_properties();
        let join = join.with_new_children(children)?.build()?;
        Ok(Arc::new(self.with_description(join)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().reset_state().build()?;
        Ok(Arc::new(self.with_description(join)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        let run = self
            .runs
            .join(&context, partition, partitions, || self.task(&context))?;
        let returned = MetricBuilder::new(&self.metrics).output_rows(partition);
        let rows = futures::stream::try_unfold((run, returned), |(run, returned)| async move {
            let next = run.next().await?;
            Ok(next.map(|batch| {
                returned.add(batch.num_rows());
                (batch, (run, returned))
            }))
        });
        let rows = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), Box::pin(rows));
        Ok(Box::pin(cooperative(rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        if self.is_array {
            Vec::new()
        } else {
            self.join.dynamic_expressions_produced()
        }
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, args)
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(plan) = self.join.try_swapping_with_projection(projection)? else {
            return Ok(None);
        };
        let of = |plan: &Arc<dyn ExecutionPlan>| -> Result<Option<Arc<dyn ExecutionPlan>>> {
            let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
                return Ok(None);
            };
            let join = join.builder().build()?;
            Ok(Some(Arc::new(self.with_description(join))))
        };
        if let Some(join) = of(&plan)? {
            return Ok(Some(join));
        }
        match plan.children()[..] {
            [child] => match of(child)? {
                Some(join) => replace_children_if_necessary(plan, vec![join]).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.join
            .gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let result = self.join.handle_child_pushdown_result(phase, result, config)?;
        let updated = match &result.updated_node {
            Some(node) => node.downcast_ref::<HashJoinExec>(),
            None => None,
        };
        let updated = updated.map(|join| join.builder().build()).transpose()?;
        let updated = updated.map(|join| Arc::new(self.with_description(join)) as Arc<dyn ExecutionPlan>);
        Ok(FilterPushdownPropagation {
            filters: result.filters,
            updated_node: updated,
        })
    }
}

/// Returns the directory for rows that do not fit.
fn spill_directory(context: &TaskContext) -> PathBuf {
    match context.session_config().get_extension::<SpillFiles>() {
        Some(files) => files.directory().to_owned(),
        None => std::env::temp_dir(),
    }
}
