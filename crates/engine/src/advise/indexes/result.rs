//! Limits of the advice, and the advice: indexes to build and to drop, and a prediction for each query.

use halocline_emulator::EmulatedSpec;

use crate::Placement;

/// Limits of the proposed indexes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IndexSetOptions {
    /// Bytes of the pool that they may take together, those that exist not counted.
    pub space: u64,
    /// Bytes of DRAM that copies of them may take together; none: they are read from the medium.
    pub dram: Option<u64>,
    /// The medium that the pool is thought to lie on; none: its own.
    pub medium: Option<EmulatedSpec>,
}

impl IndexSetOptions {
    /// Creates options with a limit on the space.
    #[must_use]
    pub fn new(space: u64) -> Self {
        Self {
            space,
            dram: None,
            medium: None,
        }
    }

    /// Sets the DRAM for copies.
    #[must_use]
    pub fn with_dram(mut self, dram: Option<u64>) -> Self {
        self.dram = dram;
        self
    }

    /// Sets the medium.
    #[must_use]
    pub fn with_medium(mut self, medium: Option<EmulatedSpec>) -> Self {
        self.medium = medium;
        self
    }
}

/// Advice on a set of indexes; see [`Database::advise_indexes`](crate::Database::advise_indexes).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IndexSetAdvice {
    /// Indexes to build, the one with the largest gain first.
    pub proposed: Vec<ProposedIndex>,
    /// Indexes that no query uses, or none would use beside the proposed ones.
    pub unused: Vec<UnusedIndex>,
    /// A prediction for each query.
    pub queries: Vec<QueryForecast>,
    /// Seconds of all queries by their weights, as it is.
    pub before: f64,
    /// Seconds of all queries by their weights, with the proposed indexes.
    pub after: f64,
    /// Bytes that the proposed indexes may take.
    pub space: u64,
}

/// An index to build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProposedIndex {
    /// Its name.
    pub name: String,
    /// The table.
    pub table: String,
    /// The columns, in order.
    pub columns: Vec<String>,
    /// Where its lists are to be.
    pub placement: Placement,
    /// Predicted bytes in the pool.
    pub bytes: u64,
    /// Number of queries that are predicted to use it.
    pub queries: usize,
    /// Seconds that these queries gain, by their weights.
    pub gain: f64,
    /// The statement that builds it.
    pub statement: String,
}

/// An index that could be dropped.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UnusedIndex {
    /// Its name.
    pub name: String,
    /// Bytes in the pool.
    pub bytes: u64,
    /// True if queries use it now, and would use the proposed indexes instead.
    pub is_replaced: bool,
    /// The statement that drops it.
    pub statement: String,
}

/// The prediction for a query: the time to locate and read the rows of its tables, on one thread. Joins,
/// aggregates and sorts come on top.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueryForecast {
    /// File and line.
    pub label: String,
    /// Its SQL.
    pub text: String,
    /// How often it runs.
    pub weight: f64,
    /// Seconds as it is.
    pub before: f64,
    /// Seconds with the proposed indexes.
    pub after: f64,
    /// The proposed indexes that it is predicted to use.
    pub indexes: Vec<String>,
    /// For each table reference without one, the reason why no index pays.
    pub reasons: Vec<String>,
}
