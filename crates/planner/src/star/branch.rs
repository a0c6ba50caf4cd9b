//! A dimension of a star query, and whether looking up its keys is expected to pay.

use datafusion::logical_expr::LogicalPlan;
use halocline_catalog::settings::SessionSettings;

use super::key_match::KeyMatch;
use crate::plan_estimate::Estimator;

/// A dimension of a star query.
#[derive(Debug, Clone)]
pub(super) struct Branch {
    /// The columns of the fact table that hold its keys.
    pub(super) columns: Vec<usize>,
    /// Its keys, followed by the grouping attributes and then by the columns that measures read.
    pub(super) plan: LogicalPlan,
    /// True if the key is a string.
    pub(super) has_string_keys: bool,
    /// Number of columns that measures read.
    pub(super) payload: usize,
    pub(super) key_match: KeyMatch,
    /// Number of rows above which a key must repeat.
    pub(super) most_rows: Option<u64>,
    /// The join condition, for EXPLAIN.
    pub(super) on: String,
}

/// Most rows of a dimension with values for measures: one thread builds a dimension, and all threads the
/// table of a hash join.
const MAX_VALUES: f64 = 16_777_216.0;

/// A dimension with values for measures may take one over this of the memory of queries.
const VALUES_MEMORY_DIVISOR: f64 = 4.0;

impl Branch {
    /// Returns true if a semi or anti join with a dimension is expected to look at more keys than the fact
    /// table has rows, so that a hash join had better build its table of the latter; or if a dimension with
    /// values for measures has more rows than rows of the fact table pass the others, or [too
    /// many](MAX_VALUES), or would take [too much](VALUES_MEMORY_DIVISOR) of the memory.
    pub(super) fn exceed(branches: &[Branch], fact: &LogicalPlan, settings: &SessionSettings) -> bool {
        let estimator = Estimator { mode: settings.index };
        let of_fact = estimator.estimate(fact).rows;
        let memory = settings.query_memory.as_ref();
        let memory = memory.map_or(f64::INFINITY, |memory| memory.size() as f64);
        let rows: Vec<f64> = branches
            .iter()
            .map(|branch| estimator.estimate(&branch.plan).rows)
            .collect();
        // The share of the keys of a dimension that pass its own conditions.
        let share = |(branch, rows): (&Branch, &f64)| match (branch.key_match, branch.most_rows) {
            (KeyMatch::Lookup, Some(most)) => (rows / most.max(1) as f64).min(1.0),
            _ => 1.0,
        };
        let passed = of_fact * branches.iter().zip(&rows).map(share).product::<f64>();
        branches
            .iter()
            .zip(&rows)
            .any(|(branch, rows)| match branch.key_match {
                KeyMatch::Lookup if branch.payload == 0 => false,
                KeyMatch::Lookup | KeyMatch::Optional => {
                    // Each value is there twice for a moment.
                    let bytes = size_of::<i64>() * (branch.columns.len() + 2 * branch.payload);
                    *rows > passed.min(MAX_VALUES) || rows * bytes as f64 > memory / VALUES_MEMORY_DIVISOR
                }
                KeyMatch::Exists | KeyMatch::Absent(..) => *rows > of_fact,
            })
    }
}
