//! The ends of the groups of peers of a partition, which its second pass needs before it reads them.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::TryStreamExt;
use halocline_catalog::spill_writer::SpillWriter;

use crate::key_runs::KeyRuns;

/// Ends that are written at once.
const WRITE_ENDS: usize = 4096;

/// The numbers of rows up to the end of each group, in a file.
pub(super) struct PeerEnds {
    order_by: Vec<Arc<dyn PhysicalExpr>>,
    peers: Option<KeyRuns>,
    rows: u64,
    schema: SchemaRef,
    spills: SpillManager,
    writer: SpillWriter,
    pending: Vec<u64>,
}

/// The ends in their order.
pub(super) struct EndsInOrder {
    stream: Option<SendableRecordBatchStream>,
    ahead: VecDeque<u64>,
}

impl PeerEnds {
    /// Creates it for rows that are sorted by `order_by`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn new(runtime: &Arc<RuntimeEnv>, order_by: Vec<Arc<dyn PhysicalExpr>>) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![Field::new("end", DataType::UInt64, false)]));
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spills = SpillManager::new(Arc::clone(runtime), metrics, Arc::clone(&schema));
        Ok(Self {
            order_by,
            peers: None,
            rows: 0,
            schema,
            writer: SpillWriter::new(&spills, "peers of a window")?,
            spills,
            pending: Vec::new(),
        })
    }

    /// Adds the next rows.
    ///
    /// # Errors
    /// The keys cannot be compared; the file cannot be written.
    pub(super) fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let peers = match &mut self.peers {
            Some(peers) => peers,
            None => self
                .peers
                .insert(KeyRuns::new(self.order_by.clone(), &rows.schema())?),
        };
        for run in peers.next(rows)? {
            if run.begins && self.rows + run.rows.start as u64 > 0 {
                self.pending.push(self.rows + run.rows.start as u64);
            }
        }
        self.rows += rows.num_rows() as u64;
        if self.pending.len() >= WRITE_ENDS {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&mut self) -> Result<()> {
        let ends = UInt64Array::from(std::mem::take(&mut self.pending));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(ends)])?;
        self.writer.append(&batch)
    }

    /// Ends the first pass.
    ///
    /// # Errors
    /// The file cannot be written, or read.
    pub(super) fn finish(mut self) -> Result<EndsInOrder> {
        self.pending.push(self.rows);
        self.write()?;
        let file = self.writer.finish()?;
        let stream = file.map(|file| self.spills.read_spill_as_stream(file, None));
        Ok(EndsInOrder {
            stream: stream.transpose()?,
            ahead: VecDeque::new(),
        })
    }
}

impl EndsInOrder {
    /// Reads the ends that the next `rows` rows need at most: one for each.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn read_ahead(&mut self, rows: usize) -> Result<()> {
        while self.ahead.len() < rows
            && let Some(stream) = &mut self.stream
        {
            match stream.try_next().await? {
                Some(batch) => {
                    let ends = batch.column(0).as_primitive::<UInt64Type>().values();
                    self.ahead.extend(ends.iter().copied());
                }
                None => self.stream = None,
            }
        }
        Ok(())
    }

    /// Returns the end of the next group, which was read ahead.
    pub(super) fn next(&mut self) -> u64 {
        self.ahead.pop_front().unwrap_or_default()
    }
}
