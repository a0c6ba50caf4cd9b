//! Execution of a star query: loads the dimensions concurrently, then joins on all threads.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::optimizer::OptimizerRule;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use halocline_catalog::settings::MediumUnit;
use halocline_joins::JoinError;
use halocline_joins::star::{Probe, SegmentRows, StarJoin, StarStats};
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::error::external;

use super::delta_rows::{added_rows, decoded};
use super::dimension::{LoadedDimension, read};
use super::exec::StarExec;
use super::group_domain::GroupDomain;
use super::planner::StarQueryPlanner;
use super::result::{StarGroups, StarResult};
use super::shape::StarShape;
use crate::join_order::JoinOrderRule;

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
    /// A dimension or the fact table cannot be read; the memory pool has not enough left for a dimension.
    pub(super) async fn result(self) -> Result<StarResult> {
        let Some(dimensions) = self.dimensions().await? else {
            return self.replaced().await;
        };
        let shape = Arc::clone(&self.exec.shape);
        let threads = self.context.session_config().target_partitions();
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
        let added = added_rows(&self.exec.added)?;
        // Added rows have no columns but those of the branches.
        if added.iter().all(|batch| batch.num_rows() == 0) {
            probes.extend(self.exec.keys.probes(&shape));
        }
        let sizes = probes.iter().map(|probe| probe.dimension.groups().max(1));
        let branch_groups: Vec<u64> = sizes.map(u64::from).collect();
        let states = MemoryConsumer::new(format!("{} groups", shape.name()));
        let states = states.register(self.context.memory_pool());
        let Some((domains, numbers)) = domains(&shape, &added, self.exec.state.as_ref())? else {
            // The plan that runs instead gets the memory.
            drop(memory);
            return self.replaced().await;
        };
        let added = decoded(&added, &shape, &probes, &numbers, self.exec.state.as_ref())?;
        let rows: usize = added.iter().map(|rows| rows.bytes()).sum();
        let listed: usize = domains.iter().map(GroupDomain::bytes).sum();
        if states.try_grow(rows + listed).is_err() {
            drop(memory);
            return self.replaced().await;
        }
        let aggregates = &shape.aggregates;
        let unit = self.context.session_config().get_extension::<MediumUnit>();
        let join = StarJoin::new(probes, aggregates.measured.clone(), aggregates.aggregates.clone())
            .and_then(|join| join.group_by(domains.iter().map(|domain| domain.group.clone()).collect()));
        let join = match join {
            Ok(join) => join
                .filter(
                    aggregates
                        .filters
                        .iter()
                        .map(|filter| filter.codes.clone())
                        .collect(),
                )
                .with_unit(unit.map_or(64, |unit| unit.0))
                .with_read_ahead(shape.columns_ahead()),
            Err(JoinError::TooManyGroups { .. }) => {
                drop((memory, states));
                return self.replaced().await;
            }
            Err(error) => return Err(external(error)),
        };
        // Dropping the future does not stop the blocking task, so the join polls a flag that is set then.
        let interrupt = CancelOnDrop::default();
        let ended = interrupt.flag();
        let of_join = Arc::clone(&shape);
        let joined = tokio::task::spawn_blocking(move || {
            let segments = of_join.fact.table.segments().iter().zip(&of_join.conditions);
            let segments: Vec<SegmentRows<'_>> = segments
                .map(|(segment, conditions)| (segment, conditions.clone()))
                .collect();
            let reserve = |bytes: usize| states.try_grow(bytes).is_ok();
            let found = join.run_within(&segments, &added, threads, &ended, &reserve);
            (found, states)
        });
        let (found, states) = joined
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let (groups, stats) = match found {
            Ok(found) => found,
            // DataFusion's aggregate spills.
            Err(JoinError::Memory { .. }) => {
                drop((memory, states));
                return self.replaced().await;
            }
            Err(error) => return Err(external(error)),
        };
        let held: usize = memory.iter().map(|memory| memory.size()).sum();
        self.note(&stats, peak.max(held + states.size()));
        memory.push(states);
        Ok(StarResult::Groups(Arc::new(StarGroups {
            shape,
            groups,
            branch_groups,
            attributes,
            domains,
            _memory: memory,
        })))
    }

    /// Loads the dimensions concurrently; `None` if the replaced plan must answer the query.
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
            let branch = self.exec.shape.branches.get(*probe);
            let on = branch.map_or("dynamic filter", |branch| &branch.on);
            count(format!("passed_{}_{on}", place + 1), *passed);
        }
        MetricBuilder::new(&self.metrics)
            .global_gauge("dram_peak")
            .set(dram_peak);
    }

    /// Plans what the join replaces. Its joins are still in the order of the query.
    async fn replaced(&self) -> Result<StarResult> {
        let state = self.exec.state.as_ref();
        let order = |rule: &&Arc<dyn OptimizerRule + Send + Sync>| rule.name() == JoinOrderRule.name();
        let mut plan = self.exec.replaced.as_ref().clone();
        if let Some(rule) = state.optimizers().iter().find(order) {
            plan = rule.rewrite(plan, state)?.data;
        }
        let plan = StarQueryPlanner.create_physical_plan(&plan, state).await?;
        Ok(StarResult::Replaced(plan))
    }
}

/// The values of the group columns, and the numbers of those in added rows, for each column batch by batch.
type Domains = (Vec<GroupDomain>, Vec<Vec<Vec<u64>>>);

/// Assigns numbers to the values of the group columns; returns `None` if [`GroupDomain::build`] does for one
/// of them, as when 64 bits cannot number its values.
///
/// # Errors
/// A dictionary cannot be read.
fn domains(shape: &StarShape, added: &[RecordBatch], state: &dyn Session) -> Result<Option<Domains>> {
    let (mut domains, mut numbers) = (Vec::new(), Vec::new());
    for group in &shape.fact_groups {
        let Some((domain, of_added)) = GroupDomain::build(&shape.fact, group, added, state)? else {
            return Ok(None);
        };
        domains.push(domain);
        numbers.push(of_added);
    }
    Ok(Some((domains, numbers)))
}
