//! Appending of the records of a batch, and the state of keys during a commit.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use crate::commit::BatchOp;
use crate::committer::Committer;
use crate::deleted_ranges::DeletedRange;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::key_range::KeyRange;
use crate::layout::{CHUNK, RECORD_CHUNK, RECORD_CHUNKED, RECORD_DELETED};
use crate::limits::check_value;
use crate::record::{NewRecord, chunk_list};
use crate::state::{Located, StoreState, StoresState, chunks_of};

/// A record that was appended and is not in the trees yet.
pub(crate) struct Staged {
    pub(crate) store: Arc<StoreState>,
    pub(crate) key: Vec<u8>,
    pub(crate) record: u64,
    pub(crate) commit: u64,
    /// The record that it supersedes, unless that is of the same group.
    pub(crate) located: Option<Located>,
    pub(crate) after_staged: bool,
}

/// The newest record of a key that is not in the trees yet.
#[derive(Clone)]
pub(crate) struct Overlaid {
    pub(crate) record: u64,
    /// The value, `None` for a deletion.
    pub(crate) value: Option<Vec<u8>>,
}

/// Changes of commits that are not in the trees yet.
#[derive(Default)]
pub(crate) struct Overlay {
    pub(crate) keys: HashMap<(u32, Vec<u8>), Overlaid>,
    /// Deleted ranges with more keys than are deleted at once. Keys that are here have deletions, too.
    pub(crate) ranges: Vec<(Arc<StoreState>, DeletedRange)>,
}

impl Overlay {
    pub(crate) fn extend(&mut self, newer: Self) {
        self.keys.extend(newer.keys);
        self.ranges.extend(newer.ranges);
    }
}

/// The state of a key during a commit.
pub(crate) enum Current {
    Absent,
    Staged(Overlaid),
    Found(Located),
    /// A version that a deleted range hides, and the commit of that.
    Hidden(Located, u64),
}

impl StoresState {
    /// Returns the state of a key as of the commits so far; earlier overlays are newer.
    pub(crate) fn current(&self, overlays: &[&Overlay], store: &StoreState, key: &[u8]) -> Result<Current> {
        if overlays.iter().any(|overlay| !overlay.keys.is_empty()) {
            let wanted = (store.id, key.to_vec());
            let staged = overlays.iter().find_map(|overlay| overlay.keys.get(&wanted));
            if let Some(staged) = staged {
                return Ok(Current::Staged(staged.clone()));
            }
        }
        let trees = store.read();
        let located = trees.locate(&self.pages(), key);
        let Some(located) = located.map_err(|damage| self.damaged(damage))? else {
            return Ok(Current::Absent);
        };
        let ranges = overlays.iter().flat_map(|overlay| &overlay.ranges);
        let hiding = ranges
            .filter(|(of, range)| of.id == store.id && range.hides(key, located.record.commit()))
            .map(|(_, range)| range.commit)
            .chain(trees.hiding(key, &located.record, u64::MAX))
            .min();
        Ok(match hiding {
            Some(commit) => Current::Hidden(located, commit),
            None => Current::Found(located),
        })
    }

    pub(crate) fn current_value(
        &self,
        overlays: &[&Overlay],
        store: &StoreState,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        match self.current(overlays, store, key)? {
            Current::Absent | Current::Hidden(..) => Ok(None),
            Current::Staged(staged) => Ok(staged.value),
            Current::Found(located) => self.value_of(&located.record),
        }
    }
}

/// Writes a version by `push`, after the chunks of its value if that is long. Returns its offset.
///
/// # Errors
/// Those of `push`.
pub(crate) fn push_version<E>(
    version: NewRecord<'_>,
    value: Option<&[u8]>,
    mut push: impl FnMut(&NewRecord<'_>) -> Result<u64, E>,
) -> Result<u64, E> {
    let Some(value) = value else {
        return push(&NewRecord {
            flags: RECORD_DELETED,
            ..version
        });
    };
    if value.len() <= CHUNK {
        return push(&NewRecord { value, ..version });
    }
    let mut offsets = Vec::new();
    for chunk in chunks_of(value) {
        offsets.push(push(&NewRecord {
            flags: RECORD_CHUNK,
            expires: None,
            prev: 0,
            value: chunk,
            ..version
        })?);
    }
    push(&NewRecord {
        flags: RECORD_CHUNKED,
        value: &chunk_list(value.len(), &offsets),
        ..version
    })
}

/// Appends the records of one batch.
pub(crate) struct Appender<'a> {
    pub(crate) state: &'a StoresState,
    pub(crate) committer: &'a mut Committer,
    pub(crate) group: &'a Overlay,
    pub(crate) batch: Overlay,
    pub(crate) staged: &'a mut Vec<Staged>,
    pub(crate) commit: u64,
    pub(crate) needs_values: bool,
    pub(crate) begun: bool,
}

impl Appender<'_> {
    /// Appends the records of an operation.
    pub(crate) fn append(&mut self, op: &BatchOp) -> Result<()> {
        match op {
            BatchOp::Put {
                store,
                key,
                value,
                expires,
            } => self.put(store, key, Some(value), *expires),
            BatchOp::Delete { store, key } => self.put(store, key, None, None),
            BatchOp::Merge { store, key, operand } => {
                let operator = store.merge.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let operator = operator.ok_or_else(|| StoreError::NoMergeOperator {
                    store: store.name.clone(),
                })?;
                let old = self.state.current_value(&[&self.batch, self.group], store, key)?;
                // A panic in the middle of a batch would leave a part of it in the log.
                let merged = catch_unwind(AssertUnwindSafe(|| operator(key, old.as_deref(), operand)));
                let value = merged.map_err(|_| StoreError::MergePanicked {
                    store: store.name.clone(),
                })?;
                check_value(store, &value)?;
                self.put(store, key, Some(&value), None)
            }
            BatchOp::DeleteRange { store, range } => {
                let few = self.state.keys_if_few(store, range)?;
                let is_whole = few.is_some();
                let mut keys = few.unwrap_or_default();
                // A range hides only keys that are in the trees. Those of the same group are not, and are
                // deleted one by one.
                let overlaid = self.batch.keys.keys().chain(self.group.keys.keys());
                let overlaid = overlaid.filter(|(id, key)| *id == store.id && range.contains(key));
                keys.extend(overlaid.map(|(_, key)| key.clone()));
                keys.sort_unstable();
                keys.dedup();
                keys.iter().try_for_each(|key| self.put(store, key, None, None))?;
                if is_whole {
                    Ok(())
                } else {
                    self.delete_range(store, range)
                }
            }
        }
    }

    fn begin(&mut self) {
        if !self.begun {
            self.committer.log.begin(self.commit, false);
            self.begun = true;
        }
    }

    /// Deletes the keys of a range that are in the trees.
    fn delete_range(&mut self, store: &Arc<StoreState>, range: &KeyRange) -> Result<()> {
        store.takes_commits(self.state)?;
        let deleted = DeletedRange {
            commit: self.commit,
            range: range.clone().clamped(),
        };
        self.begin();
        let value = deleted.encode();
        let record = deleted.record(store.id, &value);
        let slab = &self.state.slab;
        self.committer
            .log
            .push(slab, &mut self.state.segments(), &record)?;
        self.batch.ranges.push((Arc::clone(store), deleted));
        Ok(())
    }

    /// Appends the deletion of a key that a deleted range hides.
    fn delete_hidden(
        &mut self,
        store: &Arc<StoreState>,
        key: &[u8],
        located: Located,
        commit: u64,
    ) -> Result<u64> {
        if !injected(StoreFault::DeleteUnsettled) {
            // The deletion has the commit of the range, so settling could not tell later that it is newer.
            self.state.settle_now(store, key)?;
        }
        self.begin();
        let record = NewRecord {
            store: store.id,
            commit,
            flags: RECORD_DELETED,
            expires: None,
            prev: located.record.offset,
            key,
            value: &[],
        };
        let slab = &self.state.slab;
        let record = self
            .committer
            .log
            .push(slab, &mut self.state.segments(), &record)?;
        self.staged.push(Staged {
            store: Arc::clone(store),
            key: key.to_vec(),
            record,
            commit,
            located: Some(located),
            after_staged: false,
        });
        Ok(record)
    }

    fn put(
        &mut self,
        store: &Arc<StoreState>,
        key: &[u8],
        value: Option<&Vec<u8>>,
        expires: Option<u64>,
    ) -> Result<()> {
        store.takes_commits(self.state)?;
        let current = self.state.current(&[&self.batch, self.group], store, key)?;
        let (prev, located, after_staged, is_absent) = match &current {
            Current::Absent => (0, None, false, true),
            Current::Staged(staged) => (staged.record, None, true, staged.value.is_none()),
            Current::Found(located) => (
                located.record.offset,
                Some(*located),
                false,
                located.record.is_deleted(),
            ),
            Current::Hidden(located, _) => (located.record.offset, Some(*located), false, true),
        };
        if value.is_none() && is_absent && !matches!(current, Current::Staged(_)) {
            return Ok(());
        }
        // Snapshots walk back from the newest version. The deletion that a range owes the key must come
        // between the new version and the hidden one.
        let (prev, located, after_staged) = match current {
            Current::Hidden(hidden, commit)
                if !hidden.record.is_deleted() && !injected(StoreFault::OverwriteDeleted) =>
            {
                (self.delete_hidden(store, key, hidden, commit)?, None, true)
            }
            _ => (prev, located, after_staged),
        };
        self.begin();
        let mut segments = self.state.segments();
        let slab = &self.state.slab;
        let version = NewRecord {
            store: store.id,
            commit: self.commit,
            flags: 0,
            expires,
            prev,
            key,
            value: &[],
        };
        let log = &mut self.committer.log;
        let offset = push_version(version, value.map(Vec::as_slice), |record| {
            log.push(slab, &mut segments, record)
        })?;
        drop(segments);
        let overlaid = Overlaid {
            record: offset,
            // An empty value stands for one that nobody in the group asks for.
            value: value.map(|value| {
                if self.needs_values {
                    value.clone()
                } else {
                    Vec::new()
                }
            }),
        };
        self.batch.keys.insert((store.id, key.to_vec()), overlaid);
        self.staged.push(Staged {
            store: Arc::clone(store),
            key: key.to_vec(),
            record: offset,
            commit: self.commit,
            located,
            after_staged,
        });
        Ok(())
    }
}
