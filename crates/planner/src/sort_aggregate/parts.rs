//! Rows divided by the hash of their keys into parts, each of which has all rows of its groups (Graefe, ACM
//! Computing Surveys 25(2), 1993, section 4.3).
//!
//! A part is aggregated in memory, where sorted rows would be merged from many files: that compares each row
//! once for every doubling of the files, and reads and writes it once for every level of merges. A part that
//! does not fit is sorted, as all rows would be.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use datafusion::common::hash_utils::{QualityRandomState, create_hashes};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::TryStreamExt;
use halocline_catalog::spill_writer::SpillWriter;
use halocline_values::sliced_size;

/// Bits of the hash that choose the part.
const BITS: u32 = 5;
/// Times that rows can be divided: a part of one level into parts of the next one.
pub(super) const LEVELS: u32 = 4;
/// Different from that of exchanges, which have divided the rows before.
const HASH: QualityRandomState = QualityRandomState::with_seed(0x9a17);

/// The rows of one part.
pub(super) struct Part {
    spills: SpillManager,
    file: Arc<dyn SpillFile>,
}

impl Part {
    /// Returns the rows.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read(&self) -> Result<SendableRecordBatchStream> {
        self.spills.read_spill_as_stream(Arc::clone(&self.file), None)
    }
}

/// The rows of one part: those in the file, and those that are not written yet.
#[derive(Default)]
struct WrittenPart {
    batches: Vec<RecordBatch>,
    writer: Option<SpillWriter>,
}

/// The rows of all parts.
struct Parts {
    schema: SchemaRef,
    keys: usize,
    level: u32,
    parts: Vec<WrittenPart>,
    /// Rows of a batch, about.
    batch_size: usize,
    spills: SpillManager,
    memory: MemoryReservation,
    hashes: Vec<u64>,
}

/// Divides all rows of a stream by its first `keys` columns, and returns the rows of each part. The rows of a
/// part of a level are divided further by a higher one, below [`LEVELS`].
///
/// # Errors
/// That of the rows; a file cannot be written.
pub(super) async fn divided(
    mut rows: SendableRecordBatchStream,
    keys: usize,
    level: u32,
    context: &TaskContext,
) -> Result<Vec<Part>> {
    let schema = rows.schema();
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let consumer = MemoryConsumer::new("rows of an aggregation").with_can_spill(true);
    let mut parts = Parts {
        keys,
        level,
        parts: std::iter::repeat_with(WrittenPart::default)
            .take(1 << BITS)
            .collect(),
        batch_size: context.session_config().batch_size(),
        spills: SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema)),
        memory: consumer.register(context.memory_pool()),
        hashes: Vec::new(),
        schema,
    };
    while let Some(batch) = rows.try_next().await? {
        parts.add(&batch)?;
    }
    parts.finish()
}

impl Parts {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.hashes.clear();
        self.hashes.resize(batch.num_rows(), 0);
        let keys = &batch.columns()[..self.keys];
        create_hashes(keys, &HASH, &mut self.hashes)?;
        let shift = u64::BITS - BITS * (self.level + 1);
        let part_of = |hash: &u64| (hash >> shift) as usize % (1 << BITS);
        let mut ends = [0_usize; 1 << BITS];
        for hash in &self.hashes {
            ends[part_of(hash)] += 1;
        }
        let mut start = 0;
        let starts = ends.map(|count| {
            start += count;
            start - count
        });
        let mut next = starts;
        let mut order = vec![0_u32; batch.num_rows()];
        for (row, hash) in (0_u32..).zip(&self.hashes) {
            let place = &mut next[part_of(hash)];
            order[*place] = row;
            *place += 1;
        }
        let ordered = take_record_batch(batch, &UInt32Array::from(order))?;
        let fits = self.memory.try_grow(sliced_size::of_batch(&ordered)?).is_ok();
        for (part, (start, end)) in self.parts.iter_mut().zip(starts.into_iter().zip(next)) {
            if start < end {
                part.batches.push(ordered.slice(start, end - start));
            }
        }
        if fits { Ok(()) } else { self.write() }
    }

    /// Writes the rows of all parts.
    fn write(&mut self) -> Result<()> {
        for part in &mut self.parts {
            if part.batches.is_empty() {
                continue;
            }
            let writer = match &mut part.writer {
                Some(writer) => writer,
                none => none.insert(SpillWriter::new(&self.spills, "rows of an aggregation")?),
            };
            for batch in joined(&self.schema, std::mem::take(&mut part.batches), self.batch_size) {
                writer.append(&batch?)?;
            }
        }
        self.memory.free();
        Ok(())
    }

    /// Returns the rows of each part. All are in files: aggregation needs the memory.
    fn finish(mut self) -> Result<Vec<Part>> {
        self.write()?;
        let writers = self.parts.into_iter().filter_map(|part| part.writer);
        let files = writers.filter_map(|writer| writer.finish().transpose());
        let parts = files.map(|file| {
            let spills = self.spills.clone();
            Ok(Part { spills, file: file? })
        });
        parts.collect()
    }
}

/// Returns the rows of batches, which may have few, as batches of at most `rows` rows, and about as many: a
/// sort has to have room for two of them.
fn joined(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
    let (schema, mut left) = (Arc::clone(schema), batches.into_iter().peekable());
    std::iter::from_fn(move || {
        let mut group = vec![left.next()?];
        let mut count = group[0].num_rows();
        while let Some(batch) = left.next_if(|batch| count + batch.num_rows() <= rows) {
            count += batch.num_rows();
            group.push(batch);
        }
        Some(concat_batches(&schema, &group).map_err(DataFusionError::from))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::{DataType, Field, Schema};
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{StreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn each_group_is_in_one_part_in_the_order_of_its_rows() {
        let columns = vec![
            Field::new("k", DataType::Int64, true),
            Field::new("x", DataType::Int64, false),
        ];
        let schema: SchemaRef = Arc::new(Schema::new(columns));
        let batches = (0..50_i64).map(|number| {
            let rows = || number * 100..number * 100 + 100;
            let keys = Int64Array::from_iter(rows().map(|x| (x % 7 > 0).then_some(x * x % 113)));
            let columns: Vec<arrow_array::ArrayRef> =
                vec![Arc::new(keys), Arc::new(Int64Array::from_iter_values(rows()))];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        });
        let batches: Vec<_> = batches.collect();
        for (memory, level) in [(20_000, 0), (usize::MAX, 0), (20_000, LEVELS - 1)] {
            let pool = Arc::new(GreedyMemoryPool::new(memory));
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc();
            let context = Arc::new(TaskContext::default().with_runtime(runtime.unwrap()));
            let rows = stream::iter(batches.clone()).map(Ok);
            let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows));
            let parts = divided(rows, 1, level, &context).await.unwrap();
            let mut seen = BTreeSet::new();
            let mut count = 0;
            for part in parts {
                let mut groups: BTreeMap<Option<i64>, i64> = BTreeMap::new();
                let rows: Vec<RecordBatch> = part.read().unwrap().try_collect().await.unwrap();
                for batch in rows {
                    let (keys, values) = (batch.column(0), batch.column(1));
                    let keys = keys.as_primitive::<Int64Type>().iter();
                    for (key, value) in keys.zip(values.as_primitive::<Int64Type>().values()) {
                        let last = groups.insert(key, *value);
                        assert!(last.is_none_or(|last| last < *value));
                        count += 1;
                    }
                }
                for key in groups.into_keys() {
                    assert!(seen.insert(key), "{key:?} is in two parts");
                }
            }
            assert_eq!(count, 5000);
            assert_eq!(context.memory_pool().reserved(), 0);
        }
    }
}
