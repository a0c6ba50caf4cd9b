//! Range scans in both directions, one leaf at a time, grouped by parent.
//!
//! Leaves are prefetched some steps ahead, but not more of them than will probably be needed. If those of one
//! parent are too few, the next parent is prefetched when the first leaf is read, and read while leaves are
//! still arriving. Links between leaves are not followed, because each link is known only after its leaf has
//! arrived.

use crate::TreeError;
use crate::locks::Backoff;

/// Upper bound of a leaf's entries, reserved in the output in advance.
const MAX_LEAF_ENTRIES: usize = 64;

/// Maximum number of further entries reserved in advance.
const MAX_RESERVED_ENTRIES: usize = 1024;

/// Direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanDirection {
    Ascending,
    Descending,
}

impl ScanDirection {
    /// Returns the index of the leaf that is `steps` further.
    #[inline(always)]
    fn go(self, slot: usize, steps: usize) -> usize {
        match self {
            ScanDirection::Ascending => slot + steps,
            ScanDirection::Descending => slot - steps,
        }
    }

    /// Returns the number of leaves of a parent from one on.
    #[inline(always)]
    fn left(self, (slot, leaves): (usize, usize)) -> usize {
        match self {
            ScanDirection::Ascending => leaves - slot,
            ScanDirection::Descending => slot + 1,
        }
    }

    /// Returns the first key beyond a range of keys.
    #[inline(always)]
    fn beyond(self, (low, high): (u64, u64)) -> Option<u64> {
        match self {
            ScanDirection::Ascending => high.checked_add(1),
            ScanDirection::Descending => low.checked_sub(1),
        }
    }

    /// Arranges the entries of a leaf, appended from `start` on in ascending order, in scan order. Removes
    /// those before `from`.
    #[inline(always)]
    fn arrange(self, from: u64, (low, high): (u64, u64), into: &mut Vec<(u64, u64)>, start: usize) {
        match self {
            ScanDirection::Ascending if low < from => {
                let before = into[start..].partition_point(|(key, _)| *key < from);
                into.drain(start..start + before);
            }
            ScanDirection::Ascending => {}
            ScanDirection::Descending => {
                if from < high {
                    let up_to = into[start..].partition_point(|(key, _)| *key <= from);
                    into.truncate(start + up_to);
                }
                into[start..].reverse();
            }
        }
    }
}

/// A tree that can be scanned.
pub(crate) trait LeafScanner {
    /// A snapshot of the leaves that have the same parent.
    type Snapshot;

    /// Prefetch distance in leaves.
    const AHEAD: usize;

    /// The number of entries that a leaf usually has at least.
    const LIKELY: usize;

    /// Returns the leaves around a key.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn snapshot_of(&self, key: u64) -> Result<Self::Snapshot, TreeError>;

    /// Returns the index of the key's leaf, and the number of leaves.
    fn place(snapshot: &Self::Snapshot, key: u64) -> (usize, usize);

    /// Returns the least and the greatest key of the range of all leaves.
    fn keys(snapshot: &Self::Snapshot) -> (u64, u64);

    /// Prefetches the next parent in the direction of the scan, if it is known.
    fn fetch_beside(&self, snapshot: &Self::Snapshot, direction: ScanDirection);

    /// Prefetches a whole leaf.
    fn fetch_leaf(&self, snapshot: &Self::Snapshot, slot: usize);

    /// Appends all entries of a leaf in ascending order and returns the range of its keys, which contains
    /// `key`. If a concurrent change interferes, returns `None`, and the caller discards what was appended.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn append(
        &self,
        snapshot: &Self::Snapshot,
        slot: usize,
        key: u64,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<Option<(u64, u64)>, TreeError>;
}

/// Appends `count` entries from `from` on, if there are that many, and all others of the leaf with the last
/// one.
pub(crate) fn run<T: LeafScanner>(
    tree: &T,
    direction: ScanDirection,
    from: u64,
    count: usize,
    into: &mut Vec<(u64, u64)>,
) -> Result<(), TreeError> {
    let wanted = into.len().saturating_add(count);
    into.reserve(count.min(MAX_RESERVED_ENTRIES) + MAX_LEAF_ENTRIES);
    let (mut from, mut backoff) = (from, Backoff::default());
    // The next snapshot, and the key for which it was taken.
    let mut next: Option<(u64, T::Snapshot)> = None;
    // Number of leaves of this snapshot and the next that were prefetched.
    let mut asked = 0;
    'snapshot: loop {
        let snapshot = match next.take().filter(|(key, _)| *key == from) {
            Some((_, snapshot)) => snapshot,
            None => {
                asked = 0;
                tree.snapshot_of(from)?
            }
        };
        let place = T::place(&snapshot, from);
        let left = direction.left(place);
        for step in 0..left {
            let due = wanted.saturating_sub(into.len()) / T::LIKELY + 1;
            if step == 0 && due > left {
                tree.fetch_beside(&snapshot, direction);
            }
            while asked < step + due.min(T::AHEAD) {
                if asked < left {
                    tree.fetch_leaf(&snapshot, direction.go(place.0, asked));
                } else {
                    if next.is_none() {
                        // Errors are ignored here, as this parent may not be needed.
                        let key = direction.beyond(T::keys(&snapshot));
                        next = key.and_then(|key| Some((key, tree.snapshot_of(key).ok()?)));
                    }
                    let Some((key, next)) = &next else { break };
                    let place = T::place(next, *key);
                    if asked - left >= direction.left(place) {
                        break;
                    }
                    tree.fetch_leaf(next, direction.go(place.0, asked - left));
                }
                asked += 1;
            }
            let start = into.len();
            let Some(keys) = tree.append(&snapshot, direction.go(place.0, step), from, into)? else {
                into.truncate(start);
                next = None;
                backoff.wait();
                continue 'snapshot;
            };
            direction.arrange(from, keys, into, start);
            match direction.beyond(keys) {
                Some(next) if into.len() < wanted => from = next,
                _ => return Ok(()),
            }
        }
        asked = asked.saturating_sub(left);
    }
}
