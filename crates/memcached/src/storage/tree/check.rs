//! Verification of the items that a pool has in trees: [`check_items`].

use std::fmt;
use std::ops::ControlFlow;

use halocline_ordered::{OrderedIndex, TreeError, open_tree_read_only};
use halocline_pool::{Pool, PoolError};
use xxhash_rust::xxh3::xxh3_64;

use super::generation::SCAN_ENTRIES;
use super::shared::{LinkSteps, load_head_of};
use super::slabs::RecordSlabs;
use super::{CURRENT, NUMBERS, name};
use crate::error::Result;

/// A record of an item that is damaged, with the items after it that have the same hash.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ItemProblem {
    /// Offset of the record in the pool.
    pub offset: u64,
    /// Description of the damage.
    pub what: &'static str,
}

impl fmt::Display for ItemProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the record of a memcached item at {} is damaged: {}; the item is lost, store it again",
            self.offset, self.what
        )
    }
}

/// The result of [`check_items`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ItemsCheckReport {
    /// Number of intact items.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// All damaged records, not only the first.
    pub problems: Vec<ItemProblem>,
    /// True if the check was cancelled, so that the rest is not verified.
    pub cancelled: bool,
}

/// Reads the records of all items that a memcached server has stored in trees of a pool, and verifies their
/// checksums, keys and links. The pool may be open read-only, but no server may have it open. `progress` is
/// called with the number of items so far, and cancels the check by [`ControlFlow::Break`]. A pool without
/// such items has nothing to verify. O(bytes).
///
/// # Errors
/// The trees cannot be opened or read: they are damaged, another handle has them open, or a change that a
/// crash interrupted has to be finished first, which opening them for writing does.
pub fn check_items(
    pool: &Pool,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ItemsCheckReport> {
    let mut report = ItemsCheckReport::default();
    let Some(numbers) = open(pool, NUMBERS)? else {
        return Ok(report);
    };
    let number = numbers.get(CURRENT)?.unwrap_or(0);
    let Some(tree) = open(pool, &name(number))? else {
        return Ok(report);
    };
    let Some(slabs) = RecordSlabs::open_read_only(pool)? else {
        return Ok(report);
    };
    let mut from = Some(0);
    while let Some(first) = from {
        let mut entries = Vec::new();
        tree.scan(first, SCAN_ENTRIES, &mut entries)?;
        from = entries.last().and_then(|(hash, _)| hash.checked_add(1));
        for (hash, record) in entries {
            check_records(&slabs, hash, record, &mut report);
        }
        if progress(report.items).is_break() {
            report.cancelled = true;
            break;
        }
    }
    Ok(report)
}

fn open(pool: &Pool, name: &str) -> Result<Option<Box<dyn OrderedIndex>>> {
    match open_tree_read_only(pool, name) {
        Ok(tree) => Ok(Some(tree)),
        Err(TreeError::Pool(PoolError::NoSuchObject { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Verifies the records of a hash.
fn check_records(slabs: &RecordSlabs, hash: u64, first: u64, report: &mut ItemsCheckReport) {
    let (mut steps, mut next) = (LinkSteps::default(), Some(first));
    while let Some(offset) = next {
        let mut problem = |what| report.problems.push(ItemProblem { offset, what });
        let head = match load_head_of(slabs.medium(), xxh3_64, &mut steps, hash, offset) {
            Ok(head) => head,
            Err(what) => return problem(what),
        };
        match head.load(slabs.medium()) {
            Ok(_) if !slabs.has_nodes(&head) => problem("it is in no node of its size"),
            Ok(_) => {
                report.items += 1;
                report.bytes += head.bytes();
            }
            Err(what) => problem(what),
        }
        next = head.next;
    }
}
