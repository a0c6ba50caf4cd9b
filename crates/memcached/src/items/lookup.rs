//! Lookups, with what they may change: the time of expiry, and items that are created for one client to fill.

use std::sync::Arc;

use super::{Access, Items};
use crate::error::Result;
use crate::expiry::expires_at;
use crate::item::Item;

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
    /// Cas value of an item that is created.
    pub(crate) new_cas: Option<u64>,
}

/// An item that was found or created.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) item: Arc<Item>,
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

impl Lookup {
    fn may_change(&self) -> bool {
        self.ttl.is_some() || self.vivify.is_some() || self.recache.is_some()
    }
}

impl Items {
    /// Looks an item up.
    pub(crate) fn get(&self, key: &[u8], lookup: &Lookup) -> Result<Option<Found>> {
        if lookup.may_change() {
            return self.get_locked(key, lookup);
        }
        let generation = self.generation()?;
        let Some(loaded) = self.load_hot(&**generation, key)? else {
            return Ok(None);
        };
        if loaded.item.is_stale && !loaded.item.token_sent {
            drop(generation);
            return self.get_locked(key, lookup);
        }
        let mut found = self.found(key, loaded.item, lookup);
        found.is_copy = loaded.is_copy;
        Ok(Some(found))
    }

    /// Looks an item up without any change to it, also if it is stale.
    pub(crate) fn peek(&self, key: &[u8], lookup: &Lookup) -> Result<Option<Found>> {
        let generation = self.generation()?;
        let item = self.load(&**generation, key)?;
        Ok(item.map(|item| self.found(key, Arc::new(item), lookup)))
    }

    fn get_locked(&self, key: &[u8], lookup: &Lookup) -> Result<Option<Found>> {
        let generation = self.generation()?;
        let _lock = self.lock(key);
        let now = self.now();
        let Some(mut item) = self.load(&**generation, key)? else {
            let Some(exptime) = lookup.vivify else {
                return Ok(None);
            };
            let mut item = Item::new(0, expires_at(exptime, now), b"");
            item.cas = lookup.new_cas.map_or_else(|| self.cas.next(), Ok)?;
            item.token_sent = true;
            self.save(&**generation, key, &mut item)?;
            self.accesses.stored(key, now);
            return Ok(Some(Found {
                item: Arc::new(item),
                is_copy: false,
                access: Access::default(),
                won: true,
                token_sent: false,
                created: true,
            }));
        };
        let (expires, token_sent) = (item.expires, item.token_sent);
        if let Some(ttl) = lookup.ttl {
            item.expires = expires_at(ttl, now);
        }
        let ends_before = |time: i64| {
            let before = expires_at(time, now).unwrap_or(0);
            item.expires.is_some_and(|expires| expires < before)
        };
        let won = !token_sent && (item.is_stale || lookup.recache.is_some_and(ends_before));
        item.token_sent |= won;
        if (expires, token_sent) != (item.expires, item.token_sent) {
            self.save(&**generation, key, &mut item)?;
        }
        let found = self.found(key, Arc::new(item), lookup);
        Ok(Some(Found {
            won,
            token_sent,
            ..found
        }))
    }

    /// Notes the use of an item that was found.
    fn found(&self, key: &[u8], item: Arc<Item>, lookup: &Lookup) -> Found {
        let now = self.now();
        let access = match lookup.with_access {
            true => self.accesses.get(key, now),
            false => Access::default(),
        };
        if !lookup.no_bump {
            self.accesses.hit(key, now);
            if let Some(evictor) = &self.evictor {
                evictor.used(key);
            }
        }
        Found {
            token_sent: item.token_sent,
            item,
            is_copy: false,
            access,
            won: false,
            created: false,
        }
    }

    /// Sets the time of expiry of an item. Returns false if there is none.
    pub(crate) fn touch(&self, key: &[u8], exptime: i64) -> Result<bool> {
        let lookup = Lookup {
            ttl: Some(exptime),
            ..Lookup::default()
        };
        Ok(self.get_locked(key, &lookup)?.is_some())
    }
}
