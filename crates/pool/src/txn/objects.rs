//! Objects in a transaction: putting, removing and reading them.
//!
//! Invariants: an object has only extents that the transaction has finished or that a published object
//! names. No slab that anybody has open is removed or replaced.
#![allow(
    unsafe_code,
    reason = "vouches for extents that the transaction has finished or the pool has published"
)]

use std::sync::Arc;

use super::{Txn, TxnState};
use crate::PoolError;
use crate::bytes::ExtentBytes;
use crate::directory::ObjectRecord;
use crate::fault::{PoolFault, injected};
use crate::features::Features;
use crate::layout::{DATA_START, MAX_META, MAX_NAME};
use crate::object::{ExtentRef, ObjectKind};
use crate::snapshot::Object;

impl TxnState {
    /// Creates or extends a slab, which must be the transaction's only change.
    pub(crate) fn put_slab(&mut self, name: &str, record: ObjectRecord) {
        debug_assert!(self.changed.is_empty(), "a transaction of its own");
        let name: Arc<str> = name.into();
        Arc::make_mut(&mut self.objects).insert(Arc::clone(&name), Arc::new(record));
        self.changed.insert(name);
        self.keeps_logs = true;
    }

    /// Replaces the record of an object whose extents have only been relocated.
    pub(crate) fn put_moved(&mut self, name: Arc<str>, record: Arc<ObjectRecord>) {
        if record.extents.iter().any(|extent| extent.sums) {
            self.features = self.features | Features::BLOCK_SUMS;
        }
        Arc::make_mut(&mut self.objects).insert(Arc::clone(&name), record);
        self.changed.insert(name);
    }
}

impl Txn {
    /// Creates or replaces an object. Its extents are any that this transaction has finished or that a
    /// published object names (to keep, share or rename them).
    ///
    /// # Errors
    /// [`PoolError::InvalidName`], [`PoolError::NameTooLong`], [`PoolError::MetaTooLong`],
    /// [`PoolError::UnknownExtent`], [`PoolError::IsALog`] for a log (use [`put_log`](Txn::put_log)),
    /// [`PoolError::IsASlab`] for a slab (use [`Pool::create_slab`](crate::Pool::create_slab)),
    /// [`PoolError::SlabInUse`] if it would replace an open slab. The transaction is unchanged.
    pub fn put(
        &self,
        name: &str,
        kind: ObjectKind,
        meta: &[u8],
        extents: Vec<ExtentRef>,
    ) -> Result<(), PoolError> {
        check_name(name)?;
        if kind == ObjectKind::LOG {
            return Err(PoolError::IsALog {
                path: self.inner.path.to_path_buf(),
                name: name.to_owned(),
            });
        }
        if kind == ObjectKind::SLAB {
            return Err(PoolError::IsASlab {
                path: self.inner.path.to_path_buf(),
                name: name.to_owned(),
            });
        }
        if meta.len() > MAX_META {
            return Err(PoolError::MetaTooLong {
                name: name.to_owned(),
                len: meta.len(),
                max: MAX_META,
            });
        }
        let mut state = self.state();
        for extent in &extents {
            self.check_known(&state, name, extent)?;
        }
        self.lock_slab(&mut state, name)?;
        if extents.iter().any(|extent| extent.sums) {
            state.features = state.features | Features::BLOCK_SUMS;
        }
        let name: Arc<str> = name.into();
        Arc::make_mut(&mut state.objects).insert(
            Arc::clone(&name),
            Arc::new(ObjectRecord::new(kind, meta.into(), extents.into())),
        );
        state.changed.insert(name);
        Ok(())
    }

    /// Removes an object. Snapshots keep it; its space is reused when none of them is left.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`], [`PoolError::SlabInUse`] for an open slab.
    pub fn remove(&self, name: &str) -> Result<(), PoolError> {
        let mut state = self.state();
        self.lock_slab(&mut state, name)?;
        let Some((name, _)) = Arc::make_mut(&mut state.objects).remove_entry(name) else {
            return Err(PoolError::NoSuchObject {
                path: self.inner.path.to_path_buf(),
                name: name.to_owned(),
            });
        };
        state.changed.insert(name);
        Ok(())
    }

    /// Returns the object of this name as this transaction sees it.
    pub fn get(&self, name: &str) -> Option<Object> {
        let state = self.state();
        let (name, record) = state.objects.get_key_value(name)?;
        Some(Object::new(
            Arc::clone(&self.base),
            Arc::clone(name),
            Arc::clone(record),
        ))
    }

    /// Returns all objects as this transaction sees them, in the order of their names.
    pub fn objects(&self) -> Vec<Object> {
        let state = self.state();
        let object = |(name, record): (&Arc<str>, &Arc<ObjectRecord>)| {
            Object::new(Arc::clone(&self.base), Arc::clone(name), Arc::clone(record))
        };
        state.objects.iter().map(object).collect()
    }

    /// Returns the bytes of an extent that this transaction has finished or that is published. They stay
    /// unchanged while the result lives, even if the transaction is rolled back; until then no other
    /// handle can write.
    ///
    /// # Errors
    /// [`PoolError::UnknownExtent`].
    pub fn extent(&self, extent: &ExtentRef) -> Result<ExtentBytes, PoolError> {
        let state = self.state();
        self.check_known(&state, "", extent)?;
        let known = self.base.verification().state(extent);
        // SAFETY: the extent is finished by this transaction, whose end leaves its space alone while the pin
        // is shared, or named by the base generation, which the pin keeps. The state is locked, so it
        // cannot end meanwhile.
        Ok(unsafe { ExtentBytes::new(Arc::clone(&self.base), extent, known) })
    }

    /// Fails unless the transaction has finished the extent, or it is published and does not change.
    fn check_known(&self, state: &TxnState, object: &str, extent: &ExtentRef) -> Result<(), PoolError> {
        let finished = || state.finished.get(&extent.offset) == Some(extent);
        let published = || {
            self.inner
                .writer()
                .space
                .as_ref()
                .is_some_and(|space| space.is_live(extent))
                && !self
                    .base
                    .directory()
                    .mutable()
                    .any(|mutable| mutable.offset == extent.offset)
        };
        if extent.len == 0 && extent.offset == DATA_START || finished() || published() {
            return Ok(());
        }
        Err(PoolError::UnknownExtent {
            object: object.to_owned(),
            offset: extent.offset,
        })
    }

    /// Locks the slab of this name, if there is one, so that nobody has it open until the transaction ends.
    pub(crate) fn lock_slab(&self, state: &mut TxnState, name: &str) -> Result<(), PoolError> {
        let Some(record) = state.objects.get(name) else {
            return Ok(());
        };
        if record.kind != ObjectKind::SLAB || injected(PoolFault::RemoveOpenSlab) {
            return Ok(());
        }
        let head = record.extents[0].offset;
        let lock = self.inner.access.lock_slab(head, false)?;
        let lock = lock.ok_or_else(|| self.inner.access.slab_in_use(head, name))?;
        state.slabs.push(lock);
        Ok(())
    }
}

/// Fails unless an object can have this name.
///
/// # Errors
/// [`PoolError::InvalidName`], [`PoolError::NameTooLong`].
pub(crate) fn check_name(name: &str) -> Result<(), PoolError> {
    let invalid = |reason| {
        Err(PoolError::InvalidName {
            name: name.to_owned(),
            reason,
        })
    };
    if name.is_empty() {
        return invalid("it is empty");
    }
    if name.len() > MAX_NAME {
        return Err(PoolError::NameTooLong {
            name: name.to_owned(),
            len: name.len(),
            max: MAX_NAME,
        });
    }
    if name.chars().any(char::is_control) {
        return invalid("it contains control characters");
    }
    Ok(())
}
