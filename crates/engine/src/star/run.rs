//! Execution of a star query: loads the dimensions concurrently, then joins on all threads.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{ExecutionPlan, collect};
use halocline_columns::{CodePredicate, Segment};
use halocline_joins::JoinError;
use halocline_joins::star::{GroupStates, Probe, StarJoin, StarStats};

use super::delta_rows::decoded;
use super::dimension::{LoadedDimension, read};
use super::exec::StarExec;
use super::planner::StarQueryPlanner;
use crate::cancel::CancelOnDrop;
use crate::config::MediumUnit;
use crate::plan::external;

/// An execution of a star query.
pub(super) struct StarExecution {
    exec: StarExec,
    metrics: ExecutionPlanMetricsSet,
    context: Arc<TaskContext>,
}

impl StarExecution {
    pub(super) fn new(exec: StarExec, metrics: ExecutionPlanMetricsSet, context: Arc<TaskContext>) -> Self {
        Self {
            exec,
            metrics,
            context,
        }
    }

    /// Runs the query and returns its result.
    ///
    /// # Errors
    /// A dimension or the fact table cannot be read; the memory pool has not enough left.
    pub(super) async fn batches(self) -> Result<Vec<RecordBatch>> {
        let Some(dimensions) = self.dimensions().await? else {
            return self.replaced().await;
        };
        let (shape, threads) = (
            Arc::clone(&self.exec.shape),
            self.context.session_config().target_partitions(),
        );
        let (mut probes, mut attributes, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        let mut peak = 0;
        for (read, branch) in dimensions.into_iter().zip(&shape.branches) {
            peak += read.peak;
            probes.push(Probe {
                columns: branch.columns.clone(),
                dimension: Arc::new(read.dimension),
            });
            attributes.push(read.attributes);
            memory.push(read.memory);
        }
        let groups: Vec<u32> = probes
            .iter()
            .map(|probe| probe.dimension.groups().max(1))
            .collect();
        let aggregates = &shape.aggregates;
        let unit = self.context.session_config().get_extension::<MediumUnit>();
        let join = match StarJoin::new(probes, aggregates.measured.clone(), aggregates.aggregates.clone()) {
            Ok(join) => join.with_unit(unit.map_or(64, |unit| unit.0)),
            Err(JoinError::TooManyGroups { .. }) => {
                drop(memory);
                return self.replaced().await;
            }
            Err(error) => return Err(external(error)),
        };
        let added = decoded(&self.exec.added, &shape)?;
        let states = MemoryConsumer::new("StarJoin groups").register(self.context.memory_pool());
        states
            .try_grow(threads * join.group_bytes() + added.iter().map(|rows| rows.bytes()).sum::<usize>())?;
        let held: usize = memory.iter().map(|memory| memory.size()).sum();
        let dram_peak = peak.max(held + states.size());
        let interrupt = CancelOnDrop::default();
        let ended = interrupt.flag();
        let joined = tokio::task::spawn_blocking(move || {
            let segments = shape.fact.table.segments().iter().zip(&shape.conditions);
            let segments: Vec<(&Segment, Vec<(usize, CodePredicate)>)> = segments
                .map(|(segment, conditions)| (segment, conditions.clone()))
                .collect();
            join.run(&segments, &added, threads, &ended)
        });
        let (found, stats) = joined
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))?
            .map_err(external)?;
        self.note(&stats, dram_peak);
        Ok(vec![self.answer(&found, &groups, &attributes)?])
    }

    /// Loads the dimensions concurrently; none if the replaced plan must answer the query.
    async fn dimensions(&self) -> Result<Option<Vec<LoadedDimension>>> {
        let branches = self.exec.dimensions.iter().enumerate();
        let reading: Vec<_> = branches
            .map(|(branch, plan)| {
                let (shape, plan) = (Arc::clone(&self.exec.shape), Arc::clone(plan));
                let memory = MemoryConsumer::new("StarJoin dimension").register(self.context.memory_pool());
                let context = Arc::clone(&self.context);
                SpawnedTask::spawn(async move { read(&shape.branches[branch], plan, context, memory).await })
            })
            .collect();
        let mut dimensions = Vec::with_capacity(reading.len());
        for task in reading {
            let read = task
                .join_unwind()
                .await
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
            match read {
                Ok(Some(read)) => dimensions.push(read),
                Ok(None) => return Ok(None),
                Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                    return Err(error);
                }
                // The error may be caused by a row without a match, which the replaced plan would not
                // evaluate.
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(dimensions))
    }

    /// Records the statistics of the join, for EXPLAIN ANALYZE.
    fn note(&self, stats: &StarStats, dram_peak: usize) {
        let count = |name: String, number: u64| {
            MetricBuilder::new(&self.metrics)
                .global_counter(name)
                .add(number as usize);
        };
        count("rows_fact".into(), stats.rows);
        count("rows_selected".into(), stats.selected);
        count("bytes_read".into(), stats.bytes);
        count("units_read".into(), stats.units);
        for (place, (probe, passed)) in stats.order.iter().zip(&stats.passed).enumerate() {
            let branch = &self.exec.shape.branches[*probe];
            count(format!("passed_{}_{}", place + 1, branch.on), *passed);
        }
        MetricBuilder::new(&self.metrics)
            .global_gauge("dram_peak")
            .set(dram_peak);
    }

    /// Returns the groups that have rows, or the only group if there is no GROUP BY.
    fn answer(
        &self,
        states: &GroupStates,
        groups: &[u32],
        attributes: &[Vec<ArrayRef>],
    ) -> Result<RecordBatch> {
        let shape = &self.exec.shape;
        let whole = shape.groups.is_empty();
        let numbers: Vec<usize> = (0..states.len())
            .filter(|group| whole || states.rows(*group) > 0)
            .collect();
        let mut columns = Vec::with_capacity(shape.groups.len() + shape.aggregates.outputs.len());
        for (branch, attribute) in &shape.groups {
            let stride: usize = groups[..*branch].iter().map(|groups| *groups as usize).product();
            let of_branch = |group: &usize| (group / stride % groups[*branch] as usize) as u32;
            let rows: UInt32Array = numbers.iter().map(|group| Some(of_branch(group))).collect();
            let values = match attributes[*branch].get(*attribute) {
                Some(values) => arrow_select::take::take(values, &rows, None)?,
                // The dimension is empty, and so is the result.
                None => arrow_array::new_empty_array(self.exec.schema().field(columns.len()).data_type()),
            };
            columns.push(values);
        }
        for output in &shape.aggregates.outputs {
            columns.push(output.array(states, &numbers)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        Ok(RecordBatch::try_new_with_options(
            self.exec.schema(),
            columns,
            &options,
        )?)
    }

    /// Runs the replaced plan.
    async fn replaced(&self) -> Result<Vec<RecordBatch>> {
        let plan = StarQueryPlanner
            .create_physical_plan(&self.exec.replaced, self.exec.state.as_ref())
            .await?;
        collect(plan, Arc::clone(&self.context)).await
    }
}
