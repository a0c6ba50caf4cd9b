//! The state of a transaction before a statement, so that a failed statement can be undone.

use std::collections::{BTreeMap, BTreeSet};

use halocline_pool::{Object, ObjectKind, Txn};
use halocline_sql::EngineError;

use crate::delta::Delta;
use crate::is_same_object;

/// The state of a transaction at one moment. Bytes that objects had then are still there: a transaction frees
/// nothing before it ends.
pub(super) struct Savepoint {
    pub(super) objects: Vec<Object>,
    pub(super) delta: Delta,
    pub(super) pending: usize,
    pub(super) pending_rows: u64,
    pub(super) pending_bytes: usize,
    pub(super) touched: BTreeSet<u64>,
    pub(super) steps: u64,
}

impl Savepoint {
    /// Returns true if the transaction has other objects now.
    pub(super) fn differs(&self, txn: &Txn) -> bool {
        let now = txn.objects();
        now.len() != self.objects.len() || now.iter().zip(&self.objects).any(|(a, b)| !is_same_object(a, b))
    }

    /// Gives the transaction the objects that it had.
    ///
    /// # Errors
    /// The pool refuses one, which it never does for what it has held before.
    pub(super) fn restore_objects(&self, txn: &Txn) -> Result<(), EngineError> {
        let before: BTreeMap<&str, &Object> = self.objects.iter().map(|o| (o.name(), o)).collect();
        let now = txn.objects();
        for object in &now {
            if !before.contains_key(object.name()) {
                txn.remove(object.name())?;
            }
        }
        let now: BTreeMap<&str, &Object> = now.iter().map(|o| (o.name(), o)).collect();
        for object in &self.objects {
            let same = now
                .get(object.name())
                .is_some_and(|now| is_same_object(now, object));
            // A log is not changed before the transaction commits.
            if !same && object.kind() != ObjectKind::LOG {
                let extents = (0..object.extent_count()).map(|i| object.extent_ref(i)).collect();
                txn.put(object.name(), object.kind(), object.meta(), extents)?;
            }
        }
        Ok(())
    }
}
