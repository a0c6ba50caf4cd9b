//! The rows of one partition of the input, window partition by window partition.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::{concat, concat_batches};
use arrow_select::take::take_record_batch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, SpillManager};
use futures::TryStreamExt;
use halocline_catalog::spill_files::SpillFiles;
use halocline_catalog::spill_writer::SpillWriter;
use halocline_sql::size::rounded;
use halocline_values::sliced_size;

use super::in_frames::FrameFunction;
use super::passes::Passes;
use super::two_pass::is_same_in_partition;
use crate::key_runs::KeyRuns;

/// Memory for each byte of a partition that is collected: its rows, the same in one batch, and the results.
const MEMORY_FACTOR: usize = 3;
/// The memory of functions is measured when a partition has grown by one over this.
const GROWTH_DIVISOR: u64 = 8;

/// Reads the input, and returns its rows with the columns of the windows.
pub(super) struct Windows {
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    windows: Vec<Arc<dyn WindowExpr>>,
    /// Those that are evaluated row by row.
    in_frames: Vec<Option<FrameFunction>>,
    runs: KeyRuns,
    batch_size: usize,
    context: Arc<TaskContext>,
    files: Arc<SpillFiles>,
    spills: SpillManager,
    spilled: Count,
    memory: MemoryReservation,
    /// Rows of a partition in a file after which the memory of its functions is looked at.
    next_look: u64,
    /// Rows of complete partitions, with the number of rows of each, and then those of the partition that is
    /// read.
    rows: Vec<RecordBatch>,
    complete: Vec<usize>,
    current: usize,
    /// The partition that is read, if it does not fit into memory.
    file: Option<(SpillWriter, Passes)>,
    /// A partition from a file that is returned.
    second_pass: Option<(SendableRecordBatchStream, Passes)>,
    ready: VecDeque<RecordBatch>,
    /// Rows that have been read and not looked at, with true for the first of a partition.
    runs_ahead: VecDeque<(RecordBatch, bool)>,
    is_done: bool,
}

impl Windows {
    pub(super) fn new(
        window: &WindowAggExec,
        partition: usize,
        context: &Arc<TaskContext>,
        spilled: Count,
    ) -> Result<Self> {
        let schema = window.input().schema();
        let keys = window.partition_by_sort_keys()?;
        let keys = keys.into_iter().map(|key| key.expr).collect();
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
        // A reservation that can be spilled leaves memory to others.
        let can_spill = Passes::can_run_in_two_passes(window.window_expr(), &schema);
        let by_row = |window| {
            if is_same_in_partition(window) {
                None
            } else {
                FrameFunction::from_window(window, &schema)
            }
        };
        let consumer = MemoryConsumer::new("partition of a window").with_can_spill(can_spill);
        let files = context.session_config().get_extension::<SpillFiles>();
        let files = files.ok_or_else(|| DataFusionError::Internal("a session has temporary files".into()))?;
        Ok(Self {
            in_frames: window.window_expr().iter().map(by_row).collect(),
            files,
            next_look: 0,
            runs: KeyRuns::new(keys, &schema)?,
            context: Arc::clone(context),
            spills: SpillManager::new(context.runtime_env(), metrics, schema),
            memory: consumer.register(context.memory_pool()),
            input: window.input().execute(partition, Arc::clone(context))?,
            schema: window.schema(),
            windows: window.window_expr().to_vec(),
            batch_size: context.session_config().batch_size(),
            spilled,
            rows: Vec::new(),
            complete: Vec::new(),
            current: 0,
            file: None,
            second_pass: None,
            ready: VecDeque::new(),
            runs_ahead: VecDeque::new(),
            is_done: false,
        })
    }

    /// Returns the next rows.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if let Some((rows, passes)) = &mut self.second_pass {
                match rows.try_next().await? {
                    Some(batch) => {
                        passes.read_ahead(batch.num_rows()).await?;
                        let batch = passes.second(&batch, &self.schema)?;
                        reserve(&self.memory, passes)?;
                        return Ok(Some(batch));
                    }
                    None => {
                        self.second_pass = None;
                        self.memory.free();
                    }
                }
            } else if let Some((rows, begins)) = self.runs_ahead.pop_front() {
                if begins && self.file.is_some() {
                    // The rows of the file come before these.
                    self.runs_ahead.push_front((rows, begins));
                    self.end_of_file().await?;
                } else {
                    self.add(rows, begins)?
                }
            } else if self.is_done {
                if self.file.is_some() {
                    self.end_of_file().await?;
                } else if self.rows.is_empty() {
                    return Ok(None);
                } else {
                    self.complete_current();
                    self.evaluate()?;
                }
            } else {
                match self.input.try_next().await? {
                    Some(batch) => {
                        let runs = self.runs.next(&batch)?.into_iter();
                        let runs = runs.map(|run| (batch.slice(run.rows.start, run.rows.len()), run.begins));
                        self.runs_ahead.extend(runs);
                    }
                    None => self.is_done = true,
                }
            }
        }
    }

    /// Adds rows, which are in one partition of the window.
    fn add(&mut self, rows: RecordBatch, begins: bool) -> Result<()> {
        if begins {
            self.complete_current();
            if self.complete.iter().sum::<usize>() >= self.batch_size {
                self.evaluate()?;
            }
        }
        self.push(rows)
    }

    /// Adds rows to the partition that is read.
    fn push(&mut self, rows: RecordBatch) -> Result<()> {
        if let Some((file, passes)) = &mut self.file {
            passes.first(&rows)?;
            file.append(&rows)?;
            if passes.count() >= self.next_look {
                reserve(&self.memory, passes)?;
                self.next_look = passes.count() + passes.count() / GROWTH_DIVISOR;
            }
            return Ok(());
        }
        let bytes = sliced_size::of_batch(&rows)?;
        let mut grown = self.memory.try_grow(bytes * MEMORY_FACTOR);
        if grown.is_err() && !self.complete.is_empty() {
            // What is complete can be returned, which makes room.
            self.evaluate()?;
            grown = self.memory.try_grow(bytes * MEMORY_FACTOR);
        }
        self.current += rows.num_rows();
        self.rows.push(rows);
        match grown {
            Ok(()) => Ok(()),
            Err(error) => self.spill(&error),
        }
    }

    /// Moves the partition that is read to a file.
    fn spill(&mut self, refused: &DataFusionError) -> Result<()> {
        let schema = self.input.schema();
        let passes = Passes::new(&self.windows, &schema, &self.context.runtime_env(), &self.files)?;
        let mut passes = passes.map_err(|window| too_large(&window, self.memory.size(), refused))?;
        let mut file = SpillWriter::new(&self.spills, "rows of a window")?;
        for rows in self.rows.drain(..) {
            passes.first(&rows)?;
            file.append(&rows)?;
        }
        self.memory.free();
        reserve(&self.memory, &passes)?;
        self.next_look = 0;
        self.spilled.add(1);
        self.current = 0;
        self.file = Some((file, passes));
        Ok(())
    }

    /// Ends the partition in a file, if there is one.
    async fn end_of_file(&mut self) -> Result<()> {
        let Some((file, mut passes)) = self.file.take() else {
            return Ok(());
        };
        passes.end_first()?;
        if let Some(file) = file.finish()? {
            let rows = || self.spills.read_spill_as_stream(Arc::clone(&file), None);
            passes.sort_values(rows, &self.context).await?;
            self.second_pass = Some((self.spills.read_spill_as_stream(file, None)?, passes));
        }
        Ok(())
    }

    fn complete_current(&mut self) {
        if self.current > 0 {
            self.complete.push(std::mem::take(&mut self.current));
        }
    }

    /// Computes the windows of all complete partitions.
    fn evaluate(&mut self) -> Result<()> {
        let count: usize = self.complete.iter().sum();
        let Some(first) = self.rows.first() else {
            return Ok(());
        };
        let all = concat_batches(&first.schema(), &self.rows)?;
        self.rows = match all.num_rows() - count {
            0 => Vec::new(),
            rest => vec![all.slice(count, rest)],
        };
        let mut results: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.windows.len()];
        let mut start = 0;
        for rows in self.complete.drain(..) {
            let partition = all.slice(start, rows);
            let windows = self.windows.iter().zip(&self.in_frames);
            for ((window, in_frames), results) in windows.zip(&mut results) {
                match in_frames {
                    None => results.push(window.evaluate(&partition)?),
                    Some(function) => evaluate_by_row(function, &partition, self.batch_size, results)?,
                }
            }
            start += rows;
        }
        let mut columns: Vec<ArrayRef> = all.slice(0, count).columns().to_vec();
        for results in &results {
            let parts: Vec<_> = results.iter().map(AsRef::as_ref).collect();
            columns.push(concat(&parts)?);
        }
        let evaluated = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let mut bytes = 0;
        for rows in &self.rows {
            bytes += sliced_size::of_batch(rows)? * MEMORY_FACTOR;
        }
        self.memory.shrink(self.memory.size().saturating_sub(bytes));
        let mut at = 0;
        while at < count {
            let rows = self.batch_size.min(count - at);
            let slice = evaluated.slice(at, rows);
            // Whoever collects parts of a large batch counts all of it for each of them.
            self.ready.push_back(if count > 2 * self.batch_size {
                copied(&slice)?
            } else {
                slice
            });
            at += rows;
        }
        Ok(())
    }
}

/// Appends the results of a function over a partition, some rows at a time.
fn evaluate_by_row(
    function: &FrameFunction,
    partition: &RecordBatch,
    batch_size: usize,
    results: &mut Vec<ArrayRef>,
) -> Result<()> {
    let rows = partition.num_rows();
    let reads = function.reads().into_iter();
    let values = reads.map(|expr| expr.evaluate(partition)?.into_array(rows));
    let mut in_frames = function.begin(values.collect::<Result<_>>()?, rows)?;
    for _ in 0..rows.div_ceil(batch_size) {
        results.push(in_frames.next(batch_size)?);
    }
    Ok(())
}

/// Reserves what the functions of a partition have in memory.
///
/// # Errors
/// There is not enough memory.
fn reserve(memory: &MemoryReservation, passes: &Passes) -> Result<()> {
    let (size, largest) = passes.size();
    memory
        .try_resize(size)
        .map_err(|error| too_large(largest.unwrap_or("a window"), size, &error))
}

fn too_large(window: &str, held: usize, refused: &DataFusionError) -> DataFusionError {
    let held = rounded(held as u64);
    DataFusionError::ResourcesExhausted(format!(
        "{window} needs the values of a partition of its window in memory, which takes more than {held} \
         ({refused}); divide the rows by PARTITION BY, or set halocline.memory to more"
    ))
}

/// Copies rows, without the buffers that they share with others.
fn copied(rows: &RecordBatch) -> Result<RecordBatch> {
    let all = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
    let copy = take_record_batch(rows, &all)?;
    let columns = copy.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    });
    Ok(RecordBatch::try_new(copy.schema(), columns.collect())?)
}
