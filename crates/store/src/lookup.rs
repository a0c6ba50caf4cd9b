//! Look-ups of keys: the version that a snapshot sees, and its value.

use crate::error::Result;
use crate::record::RecordRef;
use crate::state::{Located, StoreState, StoresState};
use crate::tree::Damage;

impl StoresState {
    /// Returns the value that a key had as of a commit.
    pub(crate) fn get(&self, store: &StoreState, key: &[u8], commit: u64) -> Result<Option<Vec<u8>>> {
        self.find(store, key, commit, |version| self.value_of(version))
    }

    /// Calls `read` with the version that a key had as of a commit, while the tree is locked.
    #[inline]
    pub(crate) fn find<T>(
        &self,
        store: &StoreState,
        key: &[u8],
        commit: u64,
        read: impl Fn(&RecordRef) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.reading(commit, || {
            store.is_one_of(self)?;
            if !store.is_seen_at(commit) {
                return Ok(None);
            }
            let trees = store.read();
            let located = trees.locate(&self.pages(), key);
            let version = located.and_then(|located| match located {
                Some(located) => self.version_of(store, key, &located, commit),
                None => Ok(None),
            });
            match version.map_err(|damage| self.damaged(damage))? {
                Some(version) if trees.hiding(key, &version, commit).is_none() => read(&version),
                _ => Ok(None),
            }
        })
    }

    /// Returns the version of a key that a snapshot of a commit sees.
    #[inline]
    fn version_of(
        &self,
        store: &StoreState,
        key: &[u8],
        newest: &Located,
        commit: u64,
    ) -> Result<Option<RecordRef>, Damage> {
        let Some(version) = self.version_at(newest.record, commit)? else {
            return Ok(None);
        };
        // The key of a record that an entry of a leaf leads to was compared when the entry was found.
        let is_compared = newest.slot.is_some() && version.offset == newest.record.offset;
        if is_compared || version.head.store.get() == store.id && version.is_of(self.medium(), key) {
            return Ok(Some(version));
        }
        // The checksum tells a damaged record from that of another key.
        match version.contents(self.medium()) {
            Some(_) => Err(Damage::version(version.offset)),
            None => Err(Damage::record(version.offset)),
        }
    }

    /// Returns the value of a record, if it is not a deletion and has not expired.
    pub(crate) fn value_of(&self, record: &RecordRef) -> Result<Option<Vec<u8>>> {
        let value = self
            .contents(record)
            .and_then(|contents| contents.map(|contents| self.value(record, contents)).transpose());
        value.map_err(|damage| self.damaged(damage))
    }
}
