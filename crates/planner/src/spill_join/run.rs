//! The run of a join: on threads of its own, whose rows all partitions of the output take.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};
use halocline_joins::equi::{Algorithm, EquiJoin, FileSpillSpace, JoinBudget, JoinContext, RowSink};
use halocline_joins::{JoinError, JoinResult};
use halocline_sql::EngineError;
use halocline_sql::error::external;
use tokio::sync::{Notify, mpsc};

use super::array_side::ArraySide;
use super::input::StreamSource;
use super::parts::SideColumns;

/// Threads that write spilled rows at a time.
const WRITERS: usize = 2;

/// A request to end a join.
#[derive(Debug, Default)]
pub(super) struct Cancel {
    pub(super) flag: AtomicBool,
    wake: Notify,
}

impl Cancel {
    /// Requests the end.
    pub(super) fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.wake.notify_waiters();
    }

    /// Waits for the request.
    pub(super) async fn wait(&self) {
        let woken = self.wake.notified();
        if !self.flag.load(Ordering::Relaxed) {
            woken.await;
        }
    }
}

/// Figures of the runs of a join.
#[derive(Debug)]
pub(super) struct JoinMetrics {
    /// Bytes of the temporary file.
    spilled: Gauge,
    /// The most memory that was in use at a time, in bytes.
    memory: Gauge,
    /// From the first row that is read to the last one that is taken.
    time: Time,
}

impl JoinMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        Self {
            spilled: MetricBuilder::new(metrics).global_gauge("spill_file_bytes"),
            memory: MetricBuilder::new(metrics).global_gauge("peak_memory_bytes"),
            time: MetricBuilder::new(metrics).subset_time("run_time", 0),
        }
    }
}

/// A join that is ready to run.
pub(super) struct JoinTask {
    pub(super) join: EquiJoin,
    /// The table that is the build side of an array join, if this is to be one.
    pub(super) array: Option<ArraySide>,
    pub(super) build: StreamSource,
    pub(super) probe: StreamSource,
    pub(super) output: SideColumns,
    pub(super) schema: SchemaRef,
    pub(super) threads: NonZeroUsize,
    pub(super) memory: Arc<JoinBudget>,
    /// For rows that do not fit.
    pub(super) directory: PathBuf,
    pub(super) cancel: Arc<Cancel>,
    pub(super) metrics: JoinMetrics,
}

impl JoinTask {
    /// Runs the join and sends its rows. Blocks.
    ///
    /// # Errors
    /// Those of the inputs and of the join. It is no error if the receiver is gone.
    pub(super) fn run(&self, rows: &mpsc::Sender<RecordBatch>) -> Result<()> {
        let spill = FileSpillSpace::new(&self.directory);
        let context = JoinContext {
            threads: self.threads,
            budget: Arc::clone(&self.memory),
            spill: &spill,
            writers: NonZeroUsize::MIN.saturating_add(WRITERS - 1),
            cancelled: &self.cancel.flag,
        };
        let sink = |batch: RecordBatch| -> JoinResult<()> {
            let arranged = self.output.arrange(&batch, &self.schema);
            let arranged = arranged.map_err(|error| JoinError::Sink(Box::new(error)))?;
            rows.blocking_send(arranged).map_err(|_| JoinError::Interrupted)
        };
        let timer = self.metrics.time.timer();
        let result = self.run_in(&context, &sink);
        timer.done();
        self.metrics
            .spilled
            .add(usize::try_from(spill.len()).unwrap_or(usize::MAX));
        self.metrics.memory.set_max(self.memory.peak());
        match result {
            Err(JoinError::Interrupted) if self.cancel.flag.load(Ordering::Relaxed) || rows.is_closed() => {
                Ok(())
            }
            result => result.map_err(as_datafusion),
        }
    }

    /// Runs the array join, or the hybrid join if there is none, or its keys turn out not to be dense.
    fn run_in(&self, context: &JoinContext<'_>, sink: &RowSink<'_>) -> JoinResult<()> {
        if let Some(array) = &self.array
            && let Some((rows, keys)) = array.dense_rows(&self.memory, &self.cancel)?
        {
            self.build.leave_out();
            return self.join.run_array(&rows, &keys, &self.probe, context, sink);
        }
        self.join
            .run(Algorithm::Hybrid, &self.build, &self.probe, context, sink)
    }
}

/// Returns the error of an input, of the sink or of the join.
fn as_datafusion(error: JoinError) -> DataFusionError {
    match error {
        JoinError::Source(inner) | JoinError::Sink(inner) => match inner.downcast::<DataFusionError>() {
            Ok(inner) => *inner,
            Err(inner) => DataFusionError::External(inner),
        },
        JoinError::Spill { place, source, .. } => external(EngineError::Spill {
            directory: place.into(),
            source,
        }),
        other => external(other),
    }
}
