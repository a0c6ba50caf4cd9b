//! Runs of entries in order, upward and downward: leaf after leaf, those of one parent side by side.
//!
//! Leaves are asked for some steps before they are read, but only as many as are likely to be needed; where those of one parent
//! will not do, the next parent is asked for when the first is read, and is read itself while leaves are on their way. Links between
//! leaves are not followed: who follows one has to wait for each leaf before it knows the next.

use crate::TreeError;
use crate::locks::Backoff;

/// More entries than a leaf has. Room for them is made at once.
const LEAF: usize = 64;

/// Room is made at once for so many entries at most.
const ROOM: usize = 1024;

/// Which way a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanDirection {
    Ascending,
    Descending,
}

impl ScanDirection {
    /// The leaf that is some steps further.
    #[inline(always)]
    fn go(self, slot: usize, steps: usize) -> usize {
        match self {
            ScanDirection::Ascending => slot + steps,
            ScanDirection::Descending => slot - steps,
        }
    }

    /// How many leaves of a family there are from one on.
    #[inline(always)]
    fn left(self, (slot, leaves): (usize, usize)) -> usize {
        match self {
            ScanDirection::Ascending => leaves - slot,
            ScanDirection::Descending => slot + 1,
        }
    }

    /// The first key beyond others, if there is any.
    #[inline(always)]
    fn beyond(self, (low, high): (u64, u64)) -> Option<u64> {
        match self {
            ScanDirection::Ascending => high.checked_add(1),
            ScanDirection::Descending => low.checked_sub(1),
        }
    }

    /// What a leaf has, which was appended in ascending order, is put into the order of the run; entries before `from` go.
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

/// What runs are read from.
pub(crate) trait LeafScan {
    /// Leaves that have the same parent, as they were at some moment.
    type Snapshot;

    /// How many leaves are asked for ahead of the one that is read.
    const AHEAD: usize;

    /// Entries that a leaf has at least, most likely.
    const LIKELY: usize;

    /// The leaves around a key.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn family_of(&self, key: u64) -> Result<Self::Snapshot, TreeError>;

    /// Which of the leaves the key belongs to, and how many there are.
    fn place(family: &Self::Snapshot, key: u64) -> (usize, usize);

    /// The keys that belong to all of them, from and to.
    fn keys(family: &Self::Snapshot) -> (u64, u64);

    /// Asks for the parent that is next on the way, if it is known.
    fn fetch_beside(&self, family: &Self::Snapshot, way: ScanDirection);

    /// Asks for all of a leaf.
    fn fetch_leaf(&self, family: &Self::Snapshot, slot: usize);

    /// Appends all entries of a leaf, in ascending order, and returns the keys that belong to it, from and to, `key` among them. Nothing
    /// if something has come in between; then what was appended does not count.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn append(
        &self,
        family: &Self::Snapshot,
        slot: usize,
        key: u64,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<Option<(u64, u64)>, TreeError>;
}

/// Appends `count` entries from `from` on, or all there are, and those that are in the same leaf with the last one.
pub(crate) fn run<T: LeafScan>(
    tree: &T,
    way: ScanDirection,
    from: u64,
    count: usize,
    into: &mut Vec<(u64, u64)>,
) -> Result<(), TreeError> {
    let wanted = into.len().saturating_add(count);
    into.reserve(count.min(ROOM) + LEAF);
    let (mut from, mut backoff) = (from, Backoff::default());
    // The next family, and the key for which it was looked for.
    let mut next: Option<(u64, T::Snapshot)> = None;
    // How many leaves of this family and the next were asked for.
    let mut asked = 0;
    'family: loop {
        let family = match next.take().filter(|(key, _)| *key == from) {
            Some((_, family)) => family,
            None => {
                asked = 0;
                tree.family_of(from)?
            }
        };
        let place = T::place(&family, from);
        let left = way.left(place);
        for step in 0..left {
            let due = wanted.saturating_sub(into.len()) / T::LIKELY + 1;
            if step == 0 && due > left {
                tree.fetch_beside(&family, way);
            }
            while asked < step + due.min(T::AHEAD) {
                if asked < left {
                    tree.fetch_leaf(&family, way.go(place.0, asked));
                } else {
                    if next.is_none() {
                        // What cannot be read may not be needed either.
                        let key = way.beyond(T::keys(&family));
                        next = key.and_then(|key| Some((key, tree.family_of(key).ok()?)));
                    }
                    let Some((key, next)) = &next else { break };
                    let place = T::place(next, *key);
                    if asked - left >= way.left(place) {
                        break;
                    }
                    tree.fetch_leaf(next, way.go(place.0, asked - left));
                }
                asked += 1;
            }
            let start = into.len();
            let Some(keys) = tree.append(&family, way.go(place.0, step), from, into)? else {
                into.truncate(start);
                next = None;
                backoff.wait();
                continue 'family;
            };
            way.arrange(from, keys, into, start);
            match way.beyond(keys) {
                Some(next) if into.len() < wanted => from = next,
                _ => return Ok(()),
            }
        }
        asked = asked.saturating_sub(left);
    }
}
