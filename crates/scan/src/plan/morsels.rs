//! The morsels of one execution, handed out to its partitions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use halocline_columns::{CodePredicate, RowSelection, ScanAhead};

/// A unit of work of a scan: a range of rows, or a part of a selection through an index.
#[derive(Debug, Clone)]
pub enum ScanMorsel {
    /// Rows of a segment.
    Rows {
        /// The segment.
        segment: usize,
        /// Its rows.
        rows: Range<usize>,
    },
    /// Those rows of a range of a segment that an index finds, which is searched once for all ranges.
    Found {
        /// The segment.
        segment: usize,
        /// The range.
        rows: Range<usize>,
    },
    /// A selection on a segment's Elf.
    Select {
        /// The segment.
        segment: usize,
        /// The predicates, one per dimension.
        predicates: Vec<CodePredicate>,
    },
    /// Rows of the delta, which are in no segment yet.
    Delta {
        /// The batch of the delta.
        batch: usize,
        /// Its rows.
        rows: Range<usize>,
    },
}

/// The morsels of one execution, which its partitions take one by one, and the number of rows that it still
/// has to return.
#[derive(Debug)]
pub(super) struct MorselQueue {
    morsels: Arc<[ScanMorsel]>,
    next: AtomicUsize,
    missing_rows: AtomicUsize,
    /// The rows that the index found, by segment.
    found: Mutex<BTreeMap<usize, Arc<RowSelection>>>,
    ahead: OnceLock<Option<ScanAhead>>,
}

impl MorselQueue {
    fn new(morsels: Arc<[ScanMorsel]>, fetch: Option<usize>) -> Self {
        Self {
            morsels,
            next: AtomicUsize::new(0),
            missing_rows: AtomicUsize::new(fetch.unwrap_or(usize::MAX)),
            found: Mutex::default(),
            ahead: OnceLock::new(),
        }
    }

    /// Returns the read-ahead that the partitions share, made by the first one that asks; `None` if there is
    /// nothing to read ahead.
    pub(super) fn ahead(&self, make: impl FnOnce() -> Option<ScanAhead>) -> Option<&ScanAhead> {
        self.ahead.get_or_init(make).as_ref()
    }

    /// Returns the rows of a segment that the index finds. The first partition that asks searches it; others
    /// wait for that.
    ///
    /// # Errors
    /// Those of `search`.
    pub(super) fn found(
        &self,
        segment: usize,
        search: impl FnOnce() -> Result<RowSelection>,
    ) -> Result<Arc<RowSelection>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = found.get(&segment) {
            return Ok(Arc::clone(rows));
        }
        let rows = Arc::new(search()?);
        found.insert(segment, Arc::clone(&rows));
        Ok(rows)
    }

    /// Takes the next morsel; `None` when all are taken or no more rows are needed.
    pub(super) fn take(&self) -> Option<&ScanMorsel> {
        // A partition that sees an old number locates rows in vain, but `claim` lets it return none of them.
        if self.missing_rows.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.morsels.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns true if the execution stops after some number of rows.
    pub(super) fn is_limited(&self) -> bool {
        self.missing_rows.load(Ordering::Relaxed) != usize::MAX
    }

    /// Claims up to `rows` of the rows that are still needed, and returns their number.
    pub(super) fn claim(&self, rows: usize) -> usize {
        let mut claimed = 0;
        // The closure always returns a value, so the update cannot fail.
        let _ = self
            .missing_rows
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |missing| {
                claimed = rows.min(missing);
                Some(match missing {
                    // There is no limit.
                    usize::MAX => missing,
                    missing => missing - claimed,
                })
            });
        claimed
    }
}

/// The executions of a plan, each with its own [`MorselQueue`]. An execution is identified by its task
/// context; a partition that starts a second time in the same context starts a new execution.
#[derive(Debug)]
pub(super) struct Executions {
    morsels: Arc<[ScanMorsel]>,
    open: Mutex<Vec<Execution>>,
}

/// An execution that some partitions have not joined yet.
#[derive(Debug)]
struct Execution {
    context: Arc<TaskContext>,
    queue: Arc<MorselQueue>,
    joined: Vec<bool>,
}

impl Executions {
    pub(super) fn new(morsels: Vec<ScanMorsel>) -> Self {
        Self {
            morsels: morsels.into(),
            open: Mutex::default(),
        }
    }

    /// Returns the same morsels without any execution.
    pub(super) fn fresh(&self) -> Self {
        Self {
            morsels: Arc::clone(&self.morsels),
            open: Mutex::default(),
        }
    }

    /// Returns the morsels in the order in which they are handed out.
    pub(super) fn morsels(&self) -> &[ScanMorsel] {
        &self.morsels
    }

    /// Returns the queue of the execution that `partition` of `partitions` joins.
    pub(super) fn join(
        &self,
        context: &Arc<TaskContext>,
        partition: usize,
        partitions: usize,
        fetch: Option<usize>,
    ) -> Arc<MorselQueue> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waits =
            |execution: &Execution| Arc::ptr_eq(&execution.context, context) && !execution.joined[partition];
        let at = open.iter().position(waits).unwrap_or_else(|| {
            let queue = Arc::new(MorselQueue::new(Arc::clone(&self.morsels), fetch));
            open.push(Execution {
                context: Arc::clone(context),
                queue,
                joined: vec![false; partitions],
            });
            open.len() - 1
        });
        open[at].joined[partition] = true;
        let queue = Arc::clone(&open[at].queue);
        if open[at].joined.iter().all(|joined| *joined) {
            open.swap_remove(at);
        }
        queue
    }
}

/// Splits a selection into about `parts` disjoint selections whose union is the original: along the first
/// dimension that is not restricted to one code.
pub(super) fn split(
    predicates: &[CodePredicate],
    max_codes: &[u64],
    parts: usize,
) -> Vec<Vec<CodePredicate>> {
    let splits = |predicate: &CodePredicate| predicate.bounds().is_some_and(|(lo, hi)| lo < hi);
    let Some(dimension) = predicates.iter().position(splits).filter(|_| parts > 1) else {
        return vec![predicates.to_vec()];
    };
    let with = |part: CodePredicate| {
        let mut all = predicates.to_vec();
        all[dimension] = part;
        all
    };
    let ranges = |lo: u64, hi: u64| {
        let step = ((hi - lo) / parts as u64).saturating_add(1);
        let starts = std::iter::successors(Some(lo), |at| at.checked_add(step).filter(|next| *next <= hi));
        starts
            .map(|from| with(CodePredicate::range(from, hi.min(from.saturating_add(step - 1)))))
            .collect()
    };
    match &predicates[dimension] {
        CodePredicate::Any => ranges(0, max_codes[dimension]),
        CodePredicate::Range { lo, hi } => ranges(*lo, *hi),
        CodePredicate::Set(codes) => {
            let size = codes.len().div_ceil(parts).max(1);
            codes
                .chunks(size)
                .map(|part| with(CodePredicate::set(part.to_vec())))
                .collect()
        }
        CodePredicate::Nothing => vec![predicates.to_vec()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_select_the_same_once() {
        let cases = [
            vec![CodePredicate::equal(3), CodePredicate::Range { lo: 5, hi: 27 }],
            vec![CodePredicate::Any, CodePredicate::equal(1)],
            vec![CodePredicate::Set(vec![1, 4, 9, 16, 25]), CodePredicate::Any],
            vec![CodePredicate::equal(3), CodePredicate::equal(4)],
            vec![CodePredicate::Nothing, CodePredicate::Any],
        ];
        for predicates in cases {
            for parts in [1, 2, 3, 8, 100] {
                let split = split(&predicates, &[30, 30], parts);
                assert!(
                    split.len() <= parts.max(1) + 1,
                    "{} parts of {parts}",
                    split.len()
                );
                for (a, b) in (0..=30).flat_map(|a| (0..=30).map(move |b| (a, b))) {
                    let matches = |p: &[CodePredicate]| usize::from(p[0].matches(a) && p[1].matches(b));
                    let hits: usize = split.iter().map(|p| matches(p)).sum();
                    assert_eq!(hits, matches(&predicates), "{predicates:?} in {parts} at {a} {b}");
                }
            }
        }
        assert_eq!(split(&[CodePredicate::Any], &[u64::MAX], 4).len(), 4);
    }

    #[test]
    fn executions_do_not_share_their_morsels() {
        let executions = Executions::new(vec![ScanMorsel::Rows {
            segment: 0,
            rows: 0..10,
        }]);
        let contexts = [Arc::new(TaskContext::default()), Arc::new(TaskContext::default())];
        let first = executions.join(&contexts[0], 0, 2, Some(5));
        let other = executions.join(&contexts[1], 0, 2, Some(5));
        assert!(Arc::ptr_eq(&first, &executions.join(&contexts[0], 1, 2, Some(5))));
        assert!(Arc::ptr_eq(&other, &executions.join(&contexts[1], 1, 2, Some(5))));
        assert!(first.take().is_some() && first.take().is_none());
        assert_eq!((first.claim(3), first.claim(3), first.claim(3)), (3, 2, 0));
        let third = executions.join(&contexts[0], 0, 2, None);
        assert!(third.take().is_some());
        assert_eq!(third.claim(usize::MAX - 1), usize::MAX - 1);
    }
}
