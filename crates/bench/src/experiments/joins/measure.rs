//! Runs the algorithms on the tables of a cell.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use halocline_costs::join::{JoinAlgorithm, JoinChoice, JoinSize, choose};
use halocline_costs::machine::CpuCosts;
use halocline_emulator::{Device, Watch};
use halocline_joins::JoinResult;
use halocline_joins::equi::{
    DenseKeyMap, EachBatch, EquiJoin, FileSpillSpace, JoinBudget, JoinContext, JoinKind, JoinSource,
    PoolSpillSpace, SpillRange, SpillSpace, TableRows, TableSource,
};
use halocline_pool::Pool;

use super::grid::{GridCell, KeyOrder};
use super::medium::JoinMedium;
use super::tables::{JoinAnswer, OpenTables};
use crate::{BenchError, Samples};

/// The joins of a cell on a medium.
pub(super) struct CellJoins<'a> {
    pub(super) cell: &'a GridCell,
    pub(super) medium: &'a JoinMedium,
    pub(super) threads: usize,
    pool: Pool,
    join: EquiJoin,
    build: TableSource,
    probe: TableSource,
    /// The rows of an array join; made beforehand, as it takes no time of the join to know that keys are
    /// dense.
    array: Option<(TableRows, DenseKeyMap)>,
}

/// The times of an algorithm.
#[derive(Debug, Clone, Default)]
pub(super) struct MeasuredJoin {
    /// Seconds.
    pub(super) times: Samples,
    /// Bytes that were spilled.
    pub(super) spilled: u64,
    /// Times that the probe side was read.
    pub(super) passes: f64,
}

/// Spill space that counts the bytes written to it.
struct CountedSpill<'a> {
    space: &'a dyn SpillSpace,
    written: AtomicU64,
}

impl SpillSpace for CountedSpill<'_> {
    fn place(&self) -> String {
        self.space.place()
    }

    fn unit(&self) -> usize {
        self.space.unit()
    }

    fn write(&self, bytes: &[u8]) -> JoinResult<SpillRange> {
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.space.write(bytes)
    }

    fn read(&self, range: SpillRange, bytes: &mut Vec<u8>) -> JoinResult<()> {
        self.space.read(range, bytes)
    }

    fn free(&self, range: SpillRange) {
        self.space.free(range);
    }
}

/// A source that counts how often it is read.
struct CountedSource<'a> {
    source: &'a TableSource,
    reads: AtomicU64,
}

impl JoinSource for CountedSource<'_> {
    fn schema(&self) -> SchemaRef {
        self.source.schema()
    }

    fn morsels(&self) -> usize {
        self.source.morsels()
    }

    fn read(&self, morsel: usize, each: &mut EachBatch<'_>) -> JoinResult<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.source.read(morsel, each)
    }

    fn rows_estimate(&self) -> Option<u64> {
        self.source.rows_estimate()
    }
}

impl<'a> CellJoins<'a> {
    pub(super) fn new(
        cell: &'a GridCell,
        medium: &'a JoinMedium,
        pool: Pool,
        threads: usize,
    ) -> Result<CellJoins<'a>, BenchError> {
        let tables = OpenTables::open(&pool)?;
        let array = match cell.keys {
            KeyOrder::Shuffled => None,
            KeyOrder::Dense => {
                let rows = TableRows::new(&tables.build, vec![0, 1])?;
                let keys = DenseKeyMap::detect(&rows, 0, &JoinBudget::new(0))?;
                let keys =
                    keys.ok_or_else(|| BenchError::Setup("dense keys were not detected".to_owned()))?;
                Some((rows, keys))
            }
        };
        Ok(CellJoins {
            cell,
            medium,
            threads,
            pool,
            join: EquiJoin::new(JoinKind::Inner, vec![0], vec![0]).with_output(vec![1], vec![1]),
            build: TableSource::new(&tables.build, vec![0, 1])?,
            probe: TableSource::new(&tables.probe, vec![0, 1])?,
            array,
        })
    }

    /// Estimates all algorithms that can run.
    pub(super) fn choice(&self) -> Result<JoinChoice, BenchError> {
        let (build_row, probe_row) = self.join.row_bytes(&self.build.schema(), &self.probe.schema())?;
        let size = JoinSize {
            build_rows: self.cell.build_rows,
            probe_rows: self.cell.probe_rows,
            build_stored: super::grid::ROW_BYTES as f64,
            probe_stored: super::grid::ROW_BYTES as f64,
            build_row: build_row as f64,
            probe_row: probe_row as f64,
            pairs: self.cell.probe_rows,
            matching: 1.0,
            dense_columns: self.array.as_ref().map(|_| 1),
            rereadable: true,
        };
        let memory = self.cell.memory as usize;
        let cpu = CpuCosts::default();
        Ok(choose(&size, memory, self.threads, &self.medium.costs, &cpu))
    }

    /// Runs each algorithm once per round, in turn. All must return the expected answer.
    ///
    /// # Errors
    /// An algorithm fails or returns something else.
    pub(super) fn measure(
        &self,
        algorithms: &[JoinAlgorithm],
        expected: JoinAnswer,
        rounds: usize,
    ) -> Result<Vec<MeasuredJoin>, BenchError> {
        let mut measured = vec![MeasuredJoin::default(); algorithms.len()];
        for _ in 0..rounds.max(1) {
            for (&algorithm, measured) in algorithms.iter().zip(&mut measured) {
                let probe = CountedSource {
                    source: &self.probe,
                    reads: AtomicU64::new(0),
                };
                let (answer, seconds, spilled) = self.run(algorithm, &probe)?;
                if answer != expected {
                    return Err(BenchError::Disagreement {
                        what: format!("{}, {}", self.medium.label.name, self.cell),
                        left_system: algorithm.to_string(),
                        left: format!("{answer:?}"),
                        right_system: "the generator".to_owned(),
                        right: format!("{expected:?}"),
                    });
                }
                measured.times.push(seconds);
                measured.spilled = spilled;
                measured.passes = probe.reads.into_inner() as f64 / self.probe.morsels().max(1) as f64;
            }
        }
        Ok(measured)
    }

    /// Runs an algorithm. Returns its answer, seconds, and the bytes that were spilled.
    fn run(
        &self,
        algorithm: JoinAlgorithm,
        probe: &dyn JoinSource,
    ) -> Result<(JoinAnswer, f64, u64), BenchError> {
        if let Some(directory) = &self.medium.spill {
            return self.run_with(algorithm, probe, &FileSpillSpace::new(directory));
        }
        let txn = self.pool.begin()?;
        let spill = PoolSpillSpace::new(&txn, self.medium.label.name.as_str());
        self.run_with(algorithm, probe, &spill)
    }

    fn run_with(
        &self,
        algorithm: JoinAlgorithm,
        probe: &dyn JoinSource,
        space: &dyn SpillSpace,
    ) -> Result<(JoinAnswer, f64, u64), BenchError> {
        let spill = CountedSpill {
            space,
            written: AtomicU64::new(0),
        };
        let at_least_one = |threads| NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        let cancelled = AtomicBool::new(false);
        let context = JoinContext {
            threads: at_least_one(self.threads),
            budget: JoinBudget::new(self.cell.memory as usize),
            spill: &spill,
            writers: at_least_one(self.medium.costs.best_writers(self.threads)),
            cancelled: &cancelled,
        };
        let (sum, pairs) = (AtomicI64::new(0), AtomicU64::new(0));
        let sink = |batch: RecordBatch| {
            let column = |column: usize| total(batch.column(column).as_primitive::<Int64Type>());
            sum.fetch_add(column(0).wrapping_add(column(1)), Ordering::Relaxed);
            pairs.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            Ok(())
        };
        let device: Option<&Arc<Device>> = self.medium.label.device.as_ref();
        let watch = Watch::start(device);
        self.join_by(algorithm, probe, &context, &sink)?;
        let seconds = watch.elapsed().as_secs_f64();
        let answer = JoinAnswer {
            pairs: pairs.into_inner(),
            sum: sum.into_inner(),
        };
        Ok((answer, seconds, spill.written.into_inner()))
    }

    fn join_by(
        &self,
        algorithm: JoinAlgorithm,
        probe: &dyn JoinSource,
        context: &JoinContext<'_>,
        sink: &(dyn Fn(RecordBatch) -> JoinResult<()> + Sync),
    ) -> Result<(), BenchError> {
        match (algorithm, &self.array) {
            (JoinAlgorithm::Hashed(algorithm), _) => {
                self.join.run(algorithm, &self.build, probe, context, sink)?;
            }
            (JoinAlgorithm::Array, Some((rows, keys))) => {
                self.join.run_array(rows, keys, probe, context, sink)?;
            }
            (JoinAlgorithm::Array, None) => {
                return Err(BenchError::Setup("an array join needs dense keys".to_owned()));
            }
        }
        Ok(())
    }
}

fn total(values: &Int64Array) -> i64 {
    values
        .values()
        .iter()
        .fold(0, |sum: i64, value| sum.wrapping_add(*value))
}
