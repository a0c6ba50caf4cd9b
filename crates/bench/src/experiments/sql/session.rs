//! A session on a pool, with a runtime of its own.

use arrow_array::RecordBatch;
use halocline_emulator::Watch;
use halocline_engine::Database;
use tokio::runtime::Runtime;

use crate::BenchError;

/// A session on a pool that queries are asked of.
pub(in crate::experiments) struct SqlSession {
    session: Database,
    runtime: Runtime,
}

/// The answer to a query, and what it took.
pub(in crate::experiments) struct SqlAnswer {
    /// From the text to the last row, without the cost of an emulation.
    pub(in crate::experiments) milliseconds: f64,
    pub(in crate::experiments) batches: Vec<RecordBatch>,
    /// Lines that the emulated medium of the pool served.
    pub(in crate::experiments) lines: u64,
}

impl SqlSession {
    /// Opens a session in which queries run on `threads` threads, after these statements.
    pub(in crate::experiments) fn new(
        database: &Database,
        threads: usize,
        statements: &[String],
    ) -> Result<Self, BenchError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?;
        let session = database.session();
        let partitions = format!("SET datafusion.execution.target_partitions = {threads}");
        runtime.block_on(async {
            for statement in statements.iter().chain([&partitions]) {
                session.sql(statement).await?;
            }
            Ok::<_, BenchError>(())
        })?;
        Ok(Self { session, runtime })
    }

    /// Asks a query and fetches all rows.
    pub(in crate::experiments) fn ask(&self, sql: &str) -> Result<SqlAnswer, BenchError> {
        let watch = Watch::start(self.session.device());
        let batches = self
            .runtime
            .block_on(async { self.session.sql(sql).await?.collect().await })?;
        let lap = watch.lap();
        Ok(SqlAnswer {
            milliseconds: lap.time.as_secs_f64() * 1e3,
            batches,
            lines: lap.counts.lines,
        })
    }
}
