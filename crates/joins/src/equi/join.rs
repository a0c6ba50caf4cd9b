//! The description of a join, and the resources it runs with.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{BooleanArray, RecordBatch};

use super::budget::JoinBudget;
use super::kind::JoinKind;
use super::spill::SpillSpace;
use crate::JoinResult;

/// A condition on pairs of rows: true, false or NULL for each row of a batch.
pub type PairFilter = dyn Fn(&RecordBatch) -> JoinResult<BooleanArray> + Send + Sync;

/// Receives the rows of a join, at most [`OUTPUT_ROWS`] at a time, from several threads.
pub type RowSink<'a> = dyn Fn(RecordBatch) -> JoinResult<()> + Sync + 'a;

/// Most rows of a batch that a join returns.
pub const OUTPUT_ROWS: usize = 8192;

/// A condition that pairs with equal keys must match, too. NULL counts as false.
#[derive(Clone)]
pub struct Residual {
    /// Columns of the build side that the condition reads: the first ones of its batches.
    pub build_columns: Vec<usize>,
    /// Columns of the probe side that it reads.
    pub probe_columns: Vec<usize>,
    /// The condition.
    pub filter: Arc<PairFilter>,
}

impl fmt::Debug for Residual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Residual")
            .field("build_columns", &self.build_columns)
            .field("probe_columns", &self.probe_columns)
            .finish_non_exhaustive()
    }
}

/// An equi-join: which rows of two inputs are partners, and what is returned of them.
///
/// Rows are partners if all of their keys are equal. NULL equals nothing, as a rule; floating-point keys are
/// compared bit by bit. Both sides have the same types of keys, but for the representation of strings and
/// binary values, and dictionaries, which count as their values.
#[derive(Debug, Clone)]
pub struct EquiJoin {
    /// Kind.
    pub kind: JoinKind,
    /// Key columns of the build side.
    pub build_keys: Vec<usize>,
    /// Key columns of the probe side, in the same order.
    pub probe_keys: Vec<usize>,
    /// Columns of the build side to return, if the kind returns any.
    pub build_output: Vec<usize>,
    /// Columns of the probe side to return after them, if the kind returns any.
    pub probe_output: Vec<usize>,
    /// A further condition on pairs.
    pub residual: Option<Residual>,
    /// `NOT IN`: a NULL among the keys of the other side means that no row is returned, and rows whose key
    /// is NULL are returned only if the other side has no row. For anti joins by one key without
    /// residual.
    pub null_aware: bool,
    /// `IS NOT DISTINCT FROM`: NULL equals NULL.
    pub null_equals_null: bool,
}

impl EquiJoin {
    /// Creates a join that returns no columns yet.
    pub fn new(kind: JoinKind, build_keys: Vec<usize>, probe_keys: Vec<usize>) -> EquiJoin {
        EquiJoin {
            kind,
            build_keys,
            probe_keys,
            build_output: Vec::new(),
            probe_output: Vec::new(),
            residual: None,
            null_aware: false,
            null_equals_null: false,
        }
    }

    /// Returns these columns of the build and of the probe side.
    #[must_use]
    pub fn with_output(mut self, build: Vec<usize>, probe: Vec<usize>) -> EquiJoin {
        (self.build_output, self.probe_output) = (build, probe);
        self
    }

    /// Adds a condition on pairs.
    #[must_use]
    pub fn with_residual(mut self, residual: Residual) -> EquiJoin {
        self.residual = Some(residual);
        self
    }

    /// Makes NULL equal to NULL.
    #[must_use]
    pub fn with_null_equals_null(mut self) -> EquiJoin {
        self.null_equals_null = true;
        self
    }

    /// Makes an anti join that of `NOT IN`.
    #[must_use]
    pub fn with_null_aware(mut self) -> EquiJoin {
        self.null_aware = true;
        self
    }
}

/// Resources that a join runs with.
#[derive(Clone)]
pub struct JoinContext<'a> {
    /// Number of threads.
    pub threads: NonZeroUsize,
    /// Memory that the join shares with others.
    pub budget: Arc<JoinBudget>,
    /// Space for rows that do not fit.
    pub spill: &'a dyn SpillSpace,
    /// Threads that write to the spill space at a time: the medium's best number.
    pub writers: NonZeroUsize,
    /// Ends the join with [`JoinError::Interrupted`](crate::JoinError::Interrupted) within milliseconds once
    /// it is true.
    pub cancelled: &'a AtomicBool,
}

impl fmt::Debug for JoinContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinContext")
            .field("threads", &self.threads)
            .field("budget", &self.budget)
            .field("writers", &self.writers)
            .finish_non_exhaustive()
    }
}
