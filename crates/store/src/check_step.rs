//! One step of a check: a leaf with the branches above it, and the records of its range.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::branch::{BranchSeparators, Children};
use crate::key_range::KeyRange;
use crate::memtable::{MemEntry, MemTable};
use crate::record::{RecordContents, RecordRef};
use crate::scan::STEP_ENTRIES;
use crate::segments::SegmentKind;
use crate::state::{StoreTrees, StoresState};
use crate::tree::{Damage, LeafRange, load_leaf};

/// Bytes of keys and values after which a step ends, so that a check can be cancelled soon.
const STEP_BYTES: u64 = 8 << 20;

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepProblem {
    pub(crate) offset: u64,
    pub(crate) what: &'static str,
}

impl From<Damage> for StepProblem {
    fn from(Damage { offset, what }: Damage) -> Self {
        Self { offset, what }
    }
}

/// The findings of a step.
#[derive(Debug, Default)]
pub(crate) struct CheckedStep {
    /// Number of branches and leaves that the step before did not have.
    pub(crate) branches: u64,
    pub(crate) leaves: u64,
    /// Number of keys with a value, and bytes of these.
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) problems: Vec<StepProblem>,
    /// Offsets of the pages from the root to the leaf.
    pub(crate) path: Vec<u64>,
    /// The key from which on the next step has to check.
    pub(crate) next: Option<Vec<u8>>,
}

impl CheckedStep {
    fn problem(&mut self, offset: u64, what: &'static str) {
        self.problems.push(StepProblem { offset, what });
    }
}

/// The newest records of a range: `None` for a key that has none any more, the defect if it is damaged.
type NewestRecords = BTreeMap<Vec<u8>, Result<Option<(RecordRef, RecordContents)>, StepProblem>>;

impl StoreTrees {
    /// Checks the part of a store that begins at a key and ends with a leaf, or earlier if there are many
    /// entries in memtables or many bytes. `path` is that of the step before: its pages are not checked
    /// again. Reads at most twice [`STEP_BYTES`] and one value, apart from pages.
    pub(crate) fn check_step(
        &self,
        state: &StoresState,
        store: u32,
        from: &[u8],
        path: &[u64],
    ) -> CheckedStep {
        let mut step = CheckedStep::default();
        let (range, to) = self.check_branches(state, from, path, &mut step);
        let mut newest = NewestRecords::new();
        if let Some(range) = range {
            let is_new = path.get(step.path.len()) != Some(&range.leaf);
            step.path.push(range.leaf);
            step.leaves += u64::from(is_new);
            let before = step.problems.len();
            check_leaf(state, store, &range, &mut step, &mut newest);
            if !is_new {
                step.problems.truncate(before);
            }
        }
        step.next = self.cut(from, to);
        let here = KeyRange {
            from: Bound::Included(from.to_vec()),
            to: step.next.clone().map_or(Bound::Unbounded, Bound::Excluded),
        };
        newest.retain(|key, _| here.contains(key));
        let tables = self.frozen.as_deref().into_iter().chain([&self.active]);
        for (key, entry) in tables.flat_map(|table| table.range(&here)) {
            let found = match entry {
                MemEntry::Purged => Ok(None),
                MemEntry::Record(offset) => match check_record(state, store, offset) {
                    Ok((_, contents)) if contents.key() != key => Err(StepProblem {
                        offset,
                        what: "a record in DRAM is of another key",
                    }),
                    found => found.map(Some),
                },
            };
            newest.insert(key.to_vec(), found);
        }
        // A reader does not count what deleted ranges hide. A writer does until it is deleted.
        let is_reader = state.observer.is_some();
        let is_hidden =
            |key: &[u8], record: &RecordRef| is_reader && self.hiding(key, record, u64::MAX).is_some();
        for (key, found) in newest {
            if step.bytes >= STEP_BYTES {
                // Nothing of this key has been counted or reported, except by its leaf.
                step.next = Some(key);
                break;
            }
            // The value of a record may be in chunks, which are read here.
            let value = found.and_then(|found| match found {
                Some((record, contents)) if !record.is_deleted() && !is_hidden(&key, &record) => {
                    let value = state.value(&record, contents);
                    value.map(Some).map_err(StepProblem::from)
                }
                _ => Ok(None),
            });
            match value {
                Ok(Some(value)) => {
                    step.keys += 1;
                    step.bytes += (key.len() + value.len()) as u64;
                }
                Ok(None) => {}
                Err(problem) => step.problems.push(problem),
            }
        }
        step
    }

    /// Checks the branches that lead to a key. Returns the leaf, if they lead to one, and the end of the
    /// range that they tell.
    fn check_branches(
        &self,
        state: &StoresState,
        key: &[u8],
        path: &[u64],
        step: &mut CheckedStep,
    ) -> (Option<LeafRange>, Option<Vec<u8>>) {
        let pages = state.pages();
        let bound = |(separators, at): (&BranchSeparators, usize)| separators.get(at);
        let mut expected = self.tree.expected_root();
        let mut at = self.tree.root.as_deref();
        while let Some(branch_ref) = at {
            let page = branch_ref.page;
            let is_new = path.get(step.path.len()) != Some(&page);
            step.path.push(page);
            step.branches += u64::from(is_new);
            let branch = match branch_ref.get(&pages, &expected) {
                Ok(branch) => branch,
                Err(damage) => {
                    if is_new {
                        step.problems.push(damage.into());
                    }
                    break;
                }
            };
            // A branch that DRAM has leads on though its page is damaged.
            if is_new && !branch_ref.is_stored(state.medium(), branch) {
                step.problems.push(Damage::branch(page).into());
            }
            let child = branch.separators.child_of(key);
            expected = expected.child(branch, child);
            at = match &branch.children {
                Children::Branches(branches) => Some(&branches[child]),
                Children::Leaves(leaves) => {
                    let range = LeafRange {
                        leaf: leaves[child],
                        from: expected.from.map(bound),
                        to: expected.to.map(bound),
                    };
                    let to = range.to.clone();
                    return (Some(range), to);
                }
            };
        }
        (None, expected.to.map(bound))
    }

    /// Returns the end of a step: that of the leaf, or before if the memtables have many entries.
    fn cut(&self, from: &[u8], to: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let range = KeyRange {
            from: Bound::Included(from.to_vec()),
            to: to.clone().map_or(Bound::Unbounded, Bound::Excluded),
        };
        let after = |table: &MemTable| {
            let key = table.range(&range).nth(STEP_ENTRIES);
            key.map(|(key, _)| key.to_vec())
        };
        let frozen = self.frozen.as_deref().and_then(after);
        [to, frozen, after(&self.active)].into_iter().flatten().min()
    }
}

/// Checks a leaf and the records of its entries, and adds these to `newest`.
fn check_leaf(
    state: &StoresState,
    store: u32,
    range: &LeafRange,
    step: &mut CheckedStep,
    newest: &mut NewestRecords,
) {
    let (medium, pages, offset) = (state.medium(), state.pages(), range.leaf);
    let loaded = pages.check(offset, SegmentKind::Leaves);
    let leaf = match loaded.and_then(|()| load_leaf(medium, range.place(store))) {
        Ok(leaf) => leaf,
        Err(damage) => return step.problems.push(damage.into()),
    };
    leaf.entries()
        .for_each(|(_, _, record)| medium.prefetch_lines(record, 2));
    for (slot, _, record) in leaf.entries() {
        let (head, contents) = match check_record(state, store, record) {
            Ok(found) => found,
            Err(problem) => {
                step.problems.push(problem);
                continue;
            }
        };
        let key = contents.key();
        if !leaf.is_entry_of(slot, key) {
            step.problems.push(Damage::entry(offset).into());
        } else if !range.contains(key) {
            if !pages.is_newer(head.commit()) {
                step.problems.push(Damage::bounds(offset).into());
            }
        } else if newest.insert(key.to_vec(), Ok(Some((head, contents)))).is_some() {
            step.problem(offset, "a leaf has a key twice");
        }
    }
}

/// Loads the record of a key and verifies it, without its chunks.
fn check_record(
    state: &StoresState,
    store: u32,
    offset: u64,
) -> Result<(RecordRef, RecordContents), StepProblem> {
    let record = RecordRef::load(state.medium(), offset).ok_or_else(|| Damage::record(offset))?;
    let contents = record
        .contents(state.medium())
        .ok_or_else(|| Damage::record(offset))?;
    let segments = state.segments();
    let is_in_log = segments.has_record(offset);
    drop(segments);
    let what = match () {
        // A writer beside a reader adds segments.
        () if !is_in_log && state.observer.is_none() => "a record is in no segment of the log",
        () if record.head.store.get() != store => return Err(Damage::store(offset).into()),
        () if record.is_chunk() => "a record is only a part of a value",
        () => return Ok((record, contents)),
    };
    Err(StepProblem { offset, what })
}
