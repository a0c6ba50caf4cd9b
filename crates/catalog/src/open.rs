//! A table in one version of the database: its segments, its delta and its indexes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::execution::memory_pool::MemoryReservation;
use halocline_columns::{ColumnsError, Segment, StringPredicate, Table};
use halocline_elf::TableIndex;
use halocline_sql::EngineError;

use super::statistics::table_statistics;
use crate::delta::TableDelta;
use crate::estimate;
use crate::known_keys::KnownKeys;
use crate::placements::{IndexPlacement, Placements};
use crate::tiers::{PoolMemory, TableResidency};

/// A table with its indexes.
pub struct OpenTable {
    /// Its segments, without the rows that the log has deleted.
    pub table: Table,
    /// Its indexes, including those that cannot be read.
    pub indexes: Arc<[OpenIndex]>,
    /// Rows that the log has added.
    pub delta: Option<Arc<TableDelta>>,
    /// The memory of the pool.
    pub memory: Arc<PoolMemory>,
    /// How much of the table and its indexes is in memory; versions of one generation share it.
    pub residency: Arc<TableResidency>,
    /// Knowledge about keys of its stored rows.
    pub known_keys: Arc<KnownKeys>,
    /// Statistics of the segments; versions of one generation share them.
    statistics: Arc<OnceLock<Statistics>>,
    /// The DRAM of the handles; versions of one generation share it.
    handles: Arc<MemoryReservation>,
}

/// About what an open column of a segment, or one of an index, takes.
const HANDLE_BYTES: usize = 512;

/// An index of a version, which may be unusable.
#[derive(Clone)]
pub struct OpenIndex {
    /// Its name.
    pub name: String,
    /// Name of its table, if that can be read.
    pub table: Option<String>,
    /// The stored index, or the reason why it cannot be used.
    pub index: Result<Arc<TableIndex>, String>,
    /// The stored part of an index that cannot be used because it does not cover rows of the open
    /// transaction.
    pub incomplete: Option<Arc<TableIndex>>,
    /// Its copies in DRAM.
    pub placement: IndexPlacement,
}

impl OpenIndex {
    /// Returns the index with its present copies in DRAM; `None` if it cannot be used, or is volatile and not
    /// built.
    pub fn now(&self) -> Option<Arc<TableIndex>> {
        let index = self.index.as_ref().ok()?;
        let now = self.placement.placed().unwrap_or_else(|| Arc::clone(index));
        now.is_complete().then_some(now)
    }

    /// Returns true if only its definition is stored.
    pub fn is_volatile(&self) -> bool {
        self.index.as_ref().is_ok_and(|index| index.is_volatile())
    }

    /// Returns true if it is volatile, includes this column, and is not built as far as it could be. O(1).
    pub fn is_to_be_built(&self, column: usize) -> bool {
        let on_column = |index: &Arc<TableIndex>| index.is_volatile() && index.columns().contains(&column);
        self.index.as_ref().is_ok_and(on_column) && self.is_due()
    }

    /// Returns true if it is not placed yet as it should be. O(1).
    pub fn is_due(&self) -> bool {
        self.index
            .as_ref()
            .is_ok_and(|index| self.placement.is_due(index))
    }

    /// Makes the missing copies in DRAM and returns the index with them; see [`IndexPlacement::place`].
    /// `None` if it cannot be used even then.
    pub fn place(&self, table: &Table, wait: bool, cancel: &Arc<AtomicBool>) -> Option<Arc<TableIndex>> {
        let index = self.index.as_ref().ok()?;
        let placed = self.placement.place(index, table, wait, cancel);
        placed.is_complete().then_some(placed)
    }

    /// Does the same as [`place`](Self::place), waiting for other threads; the trees of a volatile index are
    /// not built.
    pub fn place_again(&self, table: &Table) {
        match &self.index {
            Ok(index) if index.is_volatile() => drop(self.placement.attach(index, table)),
            Ok(index) => drop(self.placement.place(index, table, true, &Arc::default())),
            Err(_) => {}
        }
    }

    /// Returns the reason why it cannot be used if it is volatile and not built.
    pub fn not_built(&self) -> Option<String> {
        if !self.is_volatile() || self.now().is_some() {
            return None;
        }
        let reason = match self.placement.failed() {
            Some(reason) => reason,
            None => "it is volatile, and its trees are not in DRAM yet".into(),
        };
        Some(format!("index {}: {reason}", self.name))
    }

    /// Drops its copies, and returns true if there were some.
    pub fn forget(&self) -> bool {
        self.placement.forget()
    }
}

impl std::fmt::Debug for OpenTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenTable")
            .field("name", &self.table.name())
            .finish_non_exhaustive()
    }
}

impl OpenTable {
    /// Counts what it takes in the memory of the queries.
    pub fn new(table: Table, indexes: Arc<[OpenIndex]>, placements: &Placements) -> Self {
        let columns = table.segments().len() * table.schema().fields().len();
        let of_index = |index: Arc<TableIndex>| index.segments().len() * index.columns().len();
        let dimensions: usize = indexes.iter().filter_map(OpenIndex::now).map(of_index).sum();
        Self {
            handles: Arc::new(placements.count_handles((columns + dimensions) * HANDLE_BYTES)),
            memory: Arc::clone(placements.memory()),
            table,
            indexes,
            residency: Arc::default(),
            delta: None,
            known_keys: Arc::default(),
            statistics: Arc::default(),
        }
    }

    /// Applies the changes of the log to the table.
    ///
    /// # Errors
    /// The deleted rows of a segment cannot be read, or the log speaks of rows that are not there.
    pub fn with_delta(&self, delta: &Arc<TableDelta>) -> Result<Self, EngineError> {
        let table = match delta.deleted() {
            deleted if deleted.is_empty() => self.table.clone(),
            deleted => without(&self.table, deleted)?,
        };
        Ok(Self {
            table,
            indexes: Arc::clone(&self.indexes),
            delta: Some(Arc::clone(delta)),
            memory: Arc::clone(&self.memory),
            residency: Arc::clone(&self.residency),
            known_keys: if delta.deleted().is_empty() {
                Arc::clone(&self.known_keys)
            } else {
                Arc::default()
            },
            statistics: Arc::clone(&self.statistics),
            handles: Arc::clone(&self.handles),
        })
    }

    /// Adds conditions on strings to the segments, of each its own.
    ///
    /// # Errors
    /// A segment is damaged.
    pub fn with_string_conditions(
        &self,
        conditions: &[Vec<(usize, StringPredicate)>],
    ) -> Result<Self, EngineError> {
        let segments = self.table.segments().iter().zip(conditions);
        let segments = segments.map(|(segment, conditions)| segment.with_string_conditions(conditions));
        Ok(Self {
            table: self.table.with_segments(segments.collect::<Result<_, _>>()?),
            indexes: Arc::clone(&self.indexes),
            delta: self.delta.clone(),
            memory: Arc::clone(&self.memory),
            residency: Arc::clone(&self.residency),
            known_keys: Arc::clone(&self.known_keys),
            statistics: Arc::clone(&self.statistics),
            handles: Arc::clone(&self.handles),
        })
    }

    /// Returns the DRAM of its handles in bytes. Dictionaries, chunks and lists are read where they lie.
    pub fn handle_bytes(&self) -> usize {
        self.handles.size()
    }

    /// Returns those of the columns that are not in memory as a whole.
    pub fn not_in_memory(&self, mut columns: Vec<usize>) -> Vec<usize> {
        let share = |column| self.residency.column(&self.memory, &self.table, column);
        columns.retain(|column| share(*column).resident < 1.0);
        columns
    }

    /// Returns the number of rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        let added = self.delta.as_ref().map_or(0, |delta| delta.live_rows());
        self.table.live_rows() + added as u64
    }

    /// Returns row and value statistics. The row count is always exact. The others are exact only while no
    /// row is deleted and none is in the log, because DataFusion answers queries from exact statistics. NULLs
    /// and distinct values of a table with deleted rows are those that are probably left.
    ///
    /// # Errors
    /// The zone maps cannot be read.
    pub fn statistics(&self) -> Result<Statistics, EngineError> {
        let stored = match self.statistics.get() {
            Some(known) => known.clone(),
            None => {
                let computed = table_statistics(&self.table)?;
                self.statistics.get_or_init(|| computed).clone()
            }
        };
        let changed = self.delta.is_some() || self.table.live_rows() < self.table.rows();
        let statistics = if changed {
            left(stored.to_inexact(), self.table.live_rows())
        } else {
            stored
        };
        Ok(statistics.with_num_rows(Precision::Exact(self.live_rows() as usize)))
    }
}

/// Scales statistics to `live` of the rows, chosen at random.
fn left(mut statistics: Statistics, live: u64) -> Statistics {
    let mut scaled = estimate::of_statistics(&statistics);
    let share = if scaled.rows > 0.0 {
        live as f64 / scaled.rows
    } else {
        1.0
    };
    scaled.select(live as f64, &[]);
    for (column, scaled) in statistics.column_statistics.iter_mut().zip(&scaled.columns) {
        column.distinct_count = column
            .distinct_count
            .map(|distinct| distinct.min(scaled.distinct.round() as usize));
        column.null_count = column
            .null_count
            .map(|nulls| (nulls as f64 * share).round() as usize);
    }
    statistics
}

fn without(table: &Table, deleted: &BTreeMap<u64, roaring::RoaringBitmap>) -> Result<Table, EngineError> {
    let less = |segment: &Segment| match deleted.get(&segment.id()) {
        Some(rows) => segment.without_rows(rows).map_err(|error| match error {
            ColumnsError::RowsOutOfRange { .. } => EngineError::Log {
                reason: format!("of table {}, {error}", table.name()),
            },
            other => other.into(),
        }),
        None => Ok(segment.clone()),
    };
    let segments = table.segments().iter().map(less);
    let segments = segments.collect::<Result<Vec<_>, EngineError>>()?;
    Ok(table.with_segments(segments))
}
