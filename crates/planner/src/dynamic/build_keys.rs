//! The plan node that collects the keys of a join's build side.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use datafusion::common::Statistics;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};
use halocline_scan::plan::BuildKeys;

use crate::unary_node::{no_expressions, one_child};

/// Passes the build side of a join on, and collects its keys.
#[derive(Debug)]
pub(super) struct BuildKeysExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<BuildKeys>,
}

impl BuildKeysExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, keys: Arc<BuildKeys>) -> Self {
        Self { input, keys }
    }
}

impl DisplayAs for BuildKeysExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let columns = self.keys.columns();
        let names: Vec<&str> = columns.map(|at| schema.field(at).name().as_str()).collect();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "JoinKeys: columns=[{}]", names.join(", "))
            }
            DisplayFormatType::TreeRender => writeln!(f, "columns={}", names.join(", ")),
        }
    }
}

impl ExecutionPlan for BuildKeysExec {
    fn name(&self) -> &'static str {
        "JoinKeys"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    no_expressions!();

    one_child!(|node, input| Self::new(input, Arc::clone(&node.keys)));

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // Scans have no dynamic filters after a reset, so nothing reads the keys.
        Ok(Arc::clone(&self.input))
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input_stats {
            [statistics] => Ok(Arc::clone(statistics)),
            _ => Err(DataFusionError::Internal("JoinKeys has one child".into())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let schema = input.schema();
        let keys = Arc::clone(&self.keys);
        let batches = input.inspect(move |batch| {
            if let Ok(batch) = batch {
                keys.add(batch, &context);
            }
        });
        let mut end = Some(Arc::clone(&self.keys));
        let finished = stream::poll_fn(move |_| {
            if let Some(keys) = end.take() {
                keys.finish_partition();
            }
            Poll::Ready(None)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            batches.chain(finished),
        )))
    }
}
