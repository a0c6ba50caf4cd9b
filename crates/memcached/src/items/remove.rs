//! Removing items, or marking them as out of date.

use super::Items;
use super::change::{ChangeOutcome, Decision, Effect};
use crate::error::Result;
use crate::expiry::expires_at;
use crate::item::Item;
use crate::storage::ItemGeneration;

/// How an item is removed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Removal {
    /// The cas value that the item must have.
    pub(crate) cas: Option<u64>,
    /// The cas value that it gets if it stays.
    pub(crate) new_cas: Option<u64>,
    /// Marks it as stale instead, with a new time of expiry.
    pub(crate) invalidate: bool,
    pub(crate) ttl: Option<i64>,
    /// Removes its value instead, and gives it these client flags.
    pub(crate) remove_value: bool,
    pub(crate) client_flags: u32,
}

/// The outcome of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoveOutcome {
    Removed,
    NotFound,
    /// The item has another cas value.
    Exists,
}

impl Items {
    /// Decides on the removal or invalidation of an item.
    pub(super) fn decide_removal(
        &self,
        generation: &dyn ItemGeneration,
        key: &[u8],
        removal: &Removal,
    ) -> Result<Decision> {
        let Some(mut item) = self.load(generation, key)? else {
            return Ok(Decision::keep(ChangeOutcome::Remove(RemoveOutcome::NotFound)));
        };
        if removal.cas.is_some_and(|cas| cas != item.cas) {
            return Ok(Decision::keep(ChangeOutcome::Remove(RemoveOutcome::Exists)));
        }
        let outcome = ChangeOutcome::Remove(RemoveOutcome::Removed);
        if !removal.invalidate && !removal.remove_value {
            return Ok(Decision {
                effect: Some(Effect::Delete),
                outcome,
            });
        }
        if removal.remove_value {
            // As in memcached, an item of its own: neither stale nor waiting for a client, and without the
            // time of expiry. It keeps the cas value unless it is stale.
            let cas = item.cas;
            item = Item::new(removal.client_flags, None, b"");
            item.cas = cas;
        }
        if let Some(ttl) = removal.ttl {
            item.expires = expires_at(ttl, self.now());
        }
        if removal.invalidate {
            (item.is_stale, item.token_sent) = (true, false);
            item.cas = self.cas.next()?;
        }
        item.cas = removal.new_cas.unwrap_or(item.cas);
        Ok(Decision::put(item, outcome))
    }
}
