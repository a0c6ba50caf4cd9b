//! One step of a check: a leaf with the branches above it, and the records of its range.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::branch::Children;
use crate::key_range::KeyRange;
use crate::leaf::{fingerprint, slice_of};
use crate::memtable::{MemEntry, MemTable};
use crate::record::{RecordContents, RecordRef};
use crate::scan::STEP_ENTRIES;
use crate::state::{StoreTrees, StoresState};
use crate::tree::{Damage, load_leaf};

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

/// A leaf and the bounds of its keys.
#[derive(Default)]
struct LeafBounds {
    leaf: Option<u64>,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
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
        let bounds = self.check_branches(state, from, path, &mut step);
        let mut newest = NewestRecords::new();
        if let Some(leaf) = bounds.leaf {
            let is_new = path.get(step.path.len()) != Some(&leaf);
            step.path.push(leaf);
            step.leaves += u64::from(is_new);
            let before = step.problems.len();
            check_leaf(state, store, leaf, &bounds, &mut step, &mut newest);
            if !is_new {
                step.problems.truncate(before);
            }
        }
        step.next = self.cut(from, bounds.to);
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
        for (key, found) in newest {
            if step.bytes >= STEP_BYTES {
                // Nothing of this key has been counted or reported, except by its leaf.
                step.next = Some(key);
                break;
            }
            // The value of a record may be in chunks, which are read here.
            let value = found.and_then(|found| match found {
                Some((record, contents)) if !record.is_deleted() => {
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

    /// Checks the branches that lead to a key.
    fn check_branches(
        &self,
        state: &StoresState,
        key: &[u8],
        path: &[u64],
        step: &mut CheckedStep,
    ) -> LeafBounds {
        let mut bounds = LeafBounds::default();
        let mut level = None;
        let mut at = self.tree.root.as_deref();
        while let Some(branch_ref) = at {
            let page = branch_ref.page;
            let is_new = path.get(step.path.len()) != Some(&page);
            step.path.push(page);
            step.branches += u64::from(is_new);
            if is_new && !branch_ref.is_stored(state.medium()) {
                step.problems.push(Damage::branch(page).into());
            }
            // A branch that DRAM has leads on though its page is damaged.
            let Some(branch) = branch_ref.get(state.medium()) else {
                return bounds;
            };
            if level.is_some_and(|above| branch.level() + 1 != above) {
                step.problem(page, "a branch is on a wrong level");
                return bounds;
            }
            level = Some(branch.level());
            let separators = &branch.separators;
            if let Some(last) = separators.len().checked_sub(1)
                && is_new
                && (separators.get(0) < bounds.from
                    || bounds.to.as_ref().is_some_and(|to| separators.get(last) > *to))
            {
                step.problem(page, "a branch has separators outside of its range");
            }
            let child = separators.child_of(key);
            if let Some(before) = child.checked_sub(1) {
                bounds.from = separators.get(before);
            }
            if child < separators.len() {
                bounds.to = Some(separators.get(child));
            }
            at = match &branch.children {
                Children::Branches(branches) => Some(&branches[child]),
                Children::Leaves(leaves) => {
                    bounds.leaf = Some(leaves[child]);
                    None
                }
            };
        }
        bounds
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
    offset: u64,
    bounds: &LeafBounds,
    step: &mut CheckedStep,
    newest: &mut NewestRecords,
) {
    let medium = state.medium();
    let leaf = match load_leaf(medium, offset) {
        Ok(leaf) => leaf,
        Err(damage) => return step.problems.push(damage.into()),
    };
    leaf.entries()
        .for_each(|(_, _, record)| medium.prefetch_lines(record, 2));
    for (slot, slice, record) in leaf.entries() {
        let (head, contents) = match check_record(state, store, record) {
            Ok(found) => found,
            Err(problem) => {
                step.problems.push(problem);
                continue;
            }
        };
        let key = contents.key();
        let is_in_range = key >= &bounds.from && bounds.to.as_deref().is_none_or(|to| key < to);
        let is_of_entry = leaf.matches(fingerprint(key)).any(|found| found.0 == slot)
            && key.starts_with(leaf.prefix())
            && slice_of(key, leaf.prefix().len()) == slice;
        if !is_of_entry {
            step.problem(offset, "an entry of a leaf leads to a record of another key");
        } else if !is_in_range {
            step.problem(offset, "a leaf has a key outside of its range");
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
    let what = match () {
        () if record.head.store.get() != store => "a record is of another store",
        () if record.is_chunk() => "a record is only a part of a value",
        () => return Ok((record, contents)),
    };
    Err(StepProblem { offset, what })
}
