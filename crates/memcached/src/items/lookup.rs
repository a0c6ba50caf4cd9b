//! Lookups, with what they may change: the time of expiry, and items that are created for one client to fill.

use std::sync::Arc;

use super::change::{Change, ChangeOutcome, Decision, Effect};
use super::{Access, Items};
use crate::error::Result;
use crate::expiry::expires_at;
use crate::item::Item;
use crate::storage::ItemGeneration;

/// Options of a lookup. Times are as clients send them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lookup {
    /// Does not count as a use of the item.
    pub(crate) no_bump: bool,
    /// The access before this one is wanted.
    pub(crate) with_access: bool,
    /// The new time of expiry.
    pub(crate) ttl: Option<i64>,
    /// Creates an empty item with this time of expiry if there is none.
    pub(crate) vivify: Option<i64>,
    /// Tells one client to renew an item that expires before this time.
    pub(crate) recache: Option<i64>,
    /// That is decided before the new time of expiry is set.
    pub(crate) recache_first: bool,
    /// Cas value of an item that is created.
    pub(crate) new_cas: Option<u64>,
}

/// An item that was found or created.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) item: Arc<Item>,
    /// Its time of expiry before the lookup; never if it was created.
    pub(crate) expired_before: Option<u64>,
    /// A copy in DRAM has answered.
    pub(crate) is_copy: bool,
    /// The use before this one.
    pub(crate) access: Access,
    /// This client is to renew the item.
    pub(crate) won: bool,
    /// Another client was told to do so.
    pub(crate) token_sent: bool,
    /// The item was created.
    pub(crate) created: bool,
}

impl Found {
    /// Returns an item that was there.
    fn new(item: Arc<Item>) -> Found {
        Found {
            token_sent: item.token_sent,
            expired_before: item.expires,
            item,
            is_copy: false,
            access: Access::default(),
            won: false,
            created: false,
        }
    }
}

impl Lookup {
    fn may_change(&self) -> bool {
        self.ttl.is_some() || self.vivify.is_some() || self.recache.is_some()
    }
}

impl Items {
    /// Looks an item up.
    pub(crate) fn get(&self, key: &[u8], lookup: &Lookup) -> Result<Option<Found>> {
        if lookup.may_change() {
            return self.get_alone(key, lookup);
        }
        let generation = self.generation()?;
        let Some(loaded) = self.load_hot(&**generation, key)? else {
            return Ok(None);
        };
        if loaded.item.is_stale && !loaded.item.token_sent {
            drop(generation);
            return self.get_alone(key, lookup);
        }
        let mut found = Found::new(loaded.item);
        found.is_copy = loaded.is_copy;
        self.note_use(key, lookup, &mut found);
        Ok(Some(found))
    }

    /// Looks an item up without any change to it, also if it is stale.
    pub(crate) fn peek(&self, key: &[u8], lookup: &Lookup) -> Result<Option<Found>> {
        let generation = self.generation()?;
        let item = self.load(&**generation, key)?;
        Ok(item.map(|item| {
            let mut found = Found::new(Arc::new(item));
            self.note_use(key, lookup, &mut found);
            found
        }))
    }

    /// Looks an item up that may change.
    fn get_alone(&self, key: &[u8], lookup: &Lookup) -> Result<Option<Found>> {
        let lookup = *lookup;
        let mut found = None;
        for outcome in self.commit_alone(&Change::Find { key, lookup }) {
            found = outcome?.into_found();
        }
        Ok(found)
    }

    /// Decides on a lookup that may change the item.
    pub(super) fn decide_lookup(
        &self,
        generation: &dyn ItemGeneration,
        key: &[u8],
        lookup: &Lookup,
    ) -> Result<Decision> {
        let now = self.now();
        let Some(mut item) = self.load(generation, key)? else {
            let Some(exptime) = lookup.vivify else {
                return Ok(Decision::keep(ChangeOutcome::Find(None)));
            };
            let mut item = Item::new(0, expires_at(exptime, now), b"");
            item.cas = lookup.new_cas.map_or_else(|| self.cas.next(), Ok)?;
            item.token_sent = true;
            item.encode();
            let item = Arc::new(item);
            let found = Found {
                won: true,
                token_sent: false,
                expired_before: None,
                created: true,
                ..Found::new(Arc::clone(&item))
            };
            return Ok(Decision {
                effect: Some(Effect::Put(item)),
                outcome: ChangeOutcome::Find(Some(found)),
            });
        };
        let (expires, token_sent) = (item.expires, item.token_sent);
        if let Some(ttl) = lookup.ttl {
            item.expires = expires_at(ttl, now);
        }
        let tested = if lookup.recache_first {
            expires
        } else {
            item.expires
        };
        let ends_before = |time: i64| {
            let before = expires_at(time, now).unwrap_or(0);
            tested.is_some_and(|expires| expires < before)
        };
        let won = !token_sent && (item.is_stale || lookup.recache.is_some_and(ends_before));
        item.token_sent |= won;
        let is_changed = (expires, token_sent) != (item.expires, item.token_sent);
        item.encode();
        let item = Arc::new(item);
        let found = Found {
            won,
            token_sent,
            expired_before: expires,
            ..Found::new(Arc::clone(&item))
        };
        Ok(Decision {
            effect: is_changed.then_some(Effect::Put(item)),
            outcome: ChangeOutcome::Find(Some(found)),
        })
    }

    /// Notes the use of an item that was found or created.
    pub(super) fn note_use(&self, key: &[u8], lookup: &Lookup, found: &mut Found) {
        let now = self.now();
        if found.created {
            return if lookup.no_bump {
                self.accesses.stored(key, now)
            } else {
                self.accesses.hit(key, now)
            };
        }
        if lookup.with_access {
            found.access = self.accesses.get(key, now);
        }
        if !lookup.no_bump {
            self.accesses.hit(key, now);
            if let Some(evictor) = &self.evictor {
                evictor.used(key);
            }
        }
    }
}
