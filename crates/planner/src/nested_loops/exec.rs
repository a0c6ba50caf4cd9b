//! A nested-loop join that must hold its whole build side.
//!
//! Invariant: the join is executed with a context without temporary files, in which it fails instead of
//! dividing its build side. Its inputs are executed with the context of the whole plan, which the other one
//! carries as an extension ([`OuterContext`]).

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};

use crate::unary_node::{no_expressions, one_child};

/// A nested-loop join that fails if its build side does not fit into memory.
#[derive(Debug)]
pub struct WholeBuildSideExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    /// The join of [`OuterContextExec`]s over both.
    join: Arc<NestedLoopJoinExec>,
}

impl WholeBuildSideExec {
    /// Creates a node that returns the rows of `join`.
    ///
    /// # Errors
    /// The join cannot be made of these inputs.
    pub fn try_new(join: &NestedLoopJoinExec) -> Result<Self> {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        Self::of_inputs(join, left, right)
    }

    fn of_inputs(
        join: &NestedLoopJoinExec,
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
    ) -> Result<Self> {
        let outer = |input: &Arc<dyn ExecutionPlan>| {
            let input = Arc::clone(input);
            Arc::new(OuterContextExec { input }) as Arc<dyn ExecutionPlan>
        };
        let join = Arc::new(over(join, outer(&left), outer(&right))?);
        Ok(Self { left, right, join })
    }
}

/// Returns a join like `join` of other inputs with the same columns.
pub(super) fn over(
    join: &NestedLoopJoinExec,
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
) -> Result<NestedLoopJoinExec> {
    let projection = join.projection().as_ref().map(|columns| columns.to_vec());
    NestedLoopJoinExec::try_new(left, right, join.filter().cloned(), join.join_type(), projection)
}

impl DisplayAs for WholeBuildSideExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.join.fmt_as(format, f)
    }
}

impl ExecutionPlan for WholeBuildSideExec {
    fn name(&self) -> &'static str {
        "NestedLoopJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![
            Distribution::SinglePartition,
            Distribution::UnspecifiedDistribution,
        ])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        ExecutionPlan::maintains_input_order(self.join.as_ref())
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
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
        let [left, right] = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children)
            .map_err(|_| DataFusionError::Internal("a join has two children".into()))?;
        Ok(Arc::new(Self::of_inputs(&self.join, left, right)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.join.execute(partition, without_files(context)?)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.join.metrics()
    }
}

/// The context of the whole plan.
struct OuterContext(Arc<TaskContext>);

/// Returns a context like `outer`, but without temporary files.
fn without_files(outer: Arc<TaskContext>) -> Result<Arc<TaskContext>> {
    let no_files = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::from_runtime_env(&outer.runtime_env())
        .with_disk_manager_builder(no_files)
        .build_arc()?;
    let config = outer
        .session_config()
        .clone()
        .with_extension(Arc::new(OuterContext(Arc::clone(&outer))));
    let context = TaskContext::new(
        outer.task_id(),
        outer.session_id(),
        config,
        outer.scalar_functions().clone(),
        outer.higher_order_functions().clone(),
        outer.aggregate_functions().clone(),
        outer.window_functions().clone(),
        runtime,
    );
    Ok(Arc::new(context))
}

/// An input of the join, executed with the context of the whole plan.
#[derive(Debug)]
struct OuterContextExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for OuterContextExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OuterContextExec")
    }
}

impl ExecutionPlan for OuterContextExec {
    fn name(&self) -> &'static str {
        "OuterContextExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    no_expressions!();

    one_child!(|_node, input| Self { input });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let outer = context.session_config().get_extension::<OuterContext>();
        let context = outer.map_or(context, |outer| Arc::clone(&outer.0));
        self.input.execute(partition, context)
    }
}
