//! The systems that answer, over the same rows.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use halocline_columns::Table;
use halocline_elf::{Estimate, TableIndex};
use halocline_emulator::{Device, EmulatedSpec, Watch};
use halocline_engine::{Database, DatabaseOptions};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::{Conjunction, lineitem_selection_columns};
use rayon::prelude::*;
use tokio::runtime::Runtime;

use super::prepare::{INDEX, LEADS, Prepared, TABLE};
use super::translate;
use crate::BenchError;

/// Who answers what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SelectionSystem {
    /// One Elf over all columns through its own API, one thread: count.
    Elf,
    /// Several Elfs through their API, one thread: count by that one whose first column selects most.
    ElfSet,
    /// Our scan kernels, all threads: count.
    Scan,
    /// SQL on the pool, the engine choosing between index and scan: count.
    Sql,
    /// The same: sum.
    SqlSum,
    /// Plain DataFusion over a MemTable, all threads: count.
    DataFusion,
    /// The same: sum.
    DataFusionSum,
}

impl SelectionSystem {
    pub(super) const ALL: [Self; 7] = [
        Self::Elf,
        Self::ElfSet,
        Self::Scan,
        Self::Sql,
        Self::SqlSum,
        Self::DataFusion,
        Self::DataFusionSum,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Elf => "elf",
            Self::ElfSet => "elf-set",
            Self::Scan => "scan",
            Self::Sql | Self::SqlSum => "sql",
            Self::DataFusion | Self::DataFusionSum => "datafusion",
        }
    }

    /// Returns true if the rows are in DRAM, not in the pool.
    pub(super) fn is_in_memory(self) -> bool {
        matches!(self, Self::DataFusion | Self::DataFusionSum)
    }

    pub(super) fn metric(self) -> &'static str {
        match self {
            Self::SqlSum | Self::DataFusionSum => "sum",
            Self::Elf | Self::ElfSet | Self::Scan | Self::Sql | Self::DataFusion => "count",
        }
    }
}

/// An answer and the time it took.
pub(super) struct Answer {
    /// Selected rows.
    pub(super) rows: u64,
    pub(super) milliseconds: f64,
}

/// All systems, open.
pub(super) struct SelectionSystems {
    runtime: Runtime,
    threads: rayon::ThreadPool,
    /// Which table and indexes lie on; the database has one of its own.
    device: Option<Arc<Device>>,
    table: Table,
    /// The one over all columns first.
    indexes: Vec<TableIndex>,
    database: Database,
    datafusion: SessionContext,
}

impl SelectionSystems {
    /// Opens all, on the emulated medium if there is one.
    pub(super) fn open(
        prepared: &Prepared,
        threads: usize,
        medium: Option<&EmulatedSpec>,
    ) -> Result<Self, BenchError> {
        let setup = |error: &dyn std::fmt::Display| BenchError::Setup(error.to_string());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?;
        let read_only = PoolOptions::default().with_read_only(true);
        let device = medium.map(Device::new).transpose()?;
        let pool = match &device {
            None => Pool::open(&prepared.pool, &read_only)?,
            Some(device) => Pool::open_wrapped(&prepared.pool, &read_only, |medium| device.emulate(medium))?,
        };
        let snapshot = pool.snapshot()?;
        let options = DatabaseOptions::default()
            .with_read_only(true)
            .with_threads(Some(threads))
            .with_medium(medium.cloned());
        Ok(Self {
            device,
            threads: rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|error| setup(&error))?,
            table: Table::open(&snapshot, TABLE)?,
            indexes: std::iter::once(INDEX.to_owned())
                .chain(LEADS.map(|lead| format!("{INDEX}_{lead}")))
                .map(|name| TableIndex::open(&snapshot, &name))
                .collect::<Result<_, _>>()?,
            database: Database::open(&prepared.pool, &options)?,
            datafusion: runtime.block_on(in_memory(&prepared.parquet, threads))?,
            runtime,
        })
    }

    /// Returns the number of rows in the table.
    pub(super) fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Returns the description of the database's storage.
    pub(super) fn medium(&self) -> Result<String, BenchError> {
        Ok(self.database.info()?.pool.medium)
    }

    /// Returns the device of the database, or `None` if it is not emulated.
    pub(super) fn device(&self) -> Option<&Arc<Device>> {
        self.database.device()
    }

    /// Asks one system.
    pub(super) fn ask(&self, system: SelectionSystem, selection: &Conjunction) -> Result<Answer, BenchError> {
        let count_sql = selection.count_sql(TABLE);
        let sum_sql = count_sql.replacen("count(*) AS n", "count(*) AS n, sum(l_extendedprice) AS s", 1);
        let watch = Watch::start(match system {
            SelectionSystem::Elf | SelectionSystem::ElfSet | SelectionSystem::Scan => self.device.as_ref(),
            SelectionSystem::Sql | SelectionSystem::SqlSum => self.database.device(),
            SelectionSystem::DataFusion | SelectionSystem::DataFusionSum => None,
        });
        let rows = match system {
            SelectionSystem::Elf => translate::count_by_index(&self.table, &self.indexes[0], selection)?,
            SelectionSystem::ElfSet => translate::count_by_best_index(&self.table, &self.indexes, selection)?,
            SelectionSystem::Scan => self.scan(selection)?,
            SelectionSystem::Sql => self.sql(&count_sql)?,
            SelectionSystem::SqlSum => self.sql(&sum_sql)?,
            SelectionSystem::DataFusion => self.plain(&count_sql)?,
            SelectionSystem::DataFusionSum => self.plain(&sum_sql)?,
        };
        Ok(Answer {
            rows,
            milliseconds: watch.elapsed().as_secs_f64() * 1e3,
        })
    }

    /// Returns the estimate of the single index.
    pub(super) fn estimate(&self, selection: &Conjunction) -> Result<Estimate, BenchError> {
        translate::estimate(&self.table, &self.indexes[0], selection)
    }

    fn scan(&self, selection: &Conjunction) -> Result<u64, BenchError> {
        /// Rows that one thread takes at a time.
        const MORSEL: usize = 1 << 18;
        let mut rows = 0;
        for segment in self.table.segments() {
            let predicates = translate::for_segment(&self.table, segment, selection)?;
            let counts: Result<Vec<u64>, _> = self.threads.install(|| {
                (0..segment.rows().div_ceil(MORSEL))
                    .into_par_iter()
                    .map(|morsel| {
                        let start = morsel * MORSEL;
                        segment.count(&predicates, start..segment.rows().min(start + MORSEL))
                    })
                    .collect()
            });
            rows += counts?.iter().sum::<u64>();
        }
        Ok(rows)
    }

    fn sql(&self, text: &str) -> Result<u64, BenchError> {
        let batches = self
            .runtime
            .block_on(async { self.database.sql(text).await?.collect().await })?;
        first_count(&batches)
    }

    fn plain(&self, text: &str) -> Result<u64, BenchError> {
        let batches = self
            .runtime
            .block_on(async { self.datafusion.sql(text).await?.collect().await })?;
        first_count(&batches)
    }
}

/// Creates a plain DataFusion session that holds the columns of the index in memory, in one partition per
/// thread.
async fn in_memory(parquet: &Path, threads: usize) -> Result<SessionContext, BenchError> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
    let path = parquet.to_string_lossy();
    let rows = context
        .read_parquet(path.as_ref(), ParquetReadOptions::default())
        .await?
        .select_columns(&lineitem_selection_columns())?;
    let schema = Arc::clone(rows.schema().inner());
    let partitions = rows.collect_partitioned().await?;
    context.register_table(TABLE, Arc::new(MemTable::try_new(schema, partitions)?))?;
    Ok(context)
}

/// Returns the number in the first column of the only row.
fn first_count(batches: &[RecordBatch]) -> Result<u64, BenchError> {
    batches
        .iter()
        .find(|batch| batch.num_rows() == 1)
        .and_then(|batch| batch.column(0).as_primitive_opt::<Int64Type>())
        .map(|counts| counts.value(0) as u64)
        .ok_or_else(|| BenchError::Setup("a count gave no number".to_owned()))
}
