//! Batched lookups through a cache: all its lines are prefetched, and the keys that it does not have are
//! searched in the index side by side.

use std::time::Instant;

use halocline_cache::{PairCache, PairLookup, PairTicket};

use crate::{OrderedIndex, TreeError};

/// Keys that are looked up side by side.
const GROUP: usize = 64;

/// Implements [`OrderedIndex::get_batch`] for an index behind a cache.
pub(super) fn get(
    index: &dyn OrderedIndex,
    cache: &PairCache,
    keys: &[u64],
    values: &mut [Option<u64>],
) -> Result<(), TreeError> {
    assert_eq!(keys.len(), values.len(), "as many values as keys");
    if !cache.is_timed() {
        return get_all(index, cache, keys, values).map(|_| ());
    }
    let start = Instant::now();
    let hits = get_all(index, cache, keys, values)?;
    cache.record_batch(start.elapsed(), keys.len(), hits);
    Ok(())
}

/// Returns the number of hits.
fn get_all(
    index: &dyn OrderedIndex,
    cache: &PairCache,
    keys: &[u64],
    values: &mut [Option<u64>],
) -> Result<usize, TreeError> {
    let mut admitted = keys.iter().map(|key| cache.admits(PairCache::hash(*key)));
    if !admitted.any(|is_admitted| is_admitted) {
        return index.get_batch(keys, values).map(|()| 0);
    }
    let mut hits = 0;
    for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
        hits += group(index, cache, keys, values)?;
    }
    Ok(hits)
}

fn group(
    index: &dyn OrderedIndex,
    cache: &PairCache,
    keys: &[u64],
    values: &mut [Option<u64>],
) -> Result<usize, TreeError> {
    let mut hashes = [0; GROUP];
    for (hash, key) in hashes.iter_mut().zip(keys) {
        *hash = PairCache::hash(*key);
        cache.prefetch(*hash);
    }
    let mut missing = Missing {
        keys: [0; GROUP],
        places: [0; GROUP],
        tickets: [None; GROUP],
        len: 0,
    };
    for (place, (key, hash)) in keys.iter().zip(hashes).enumerate() {
        let found = if cache.admits(hash) {
            cache.get(hash, *key)
        } else {
            PairLookup::Busy
        };
        match found {
            PairLookup::Hit(value) => values[place] = Some(value),
            PairLookup::Miss(ticket) => missing.push(*key, place, Some(ticket)),
            PairLookup::Busy => missing.push(*key, place, None),
        }
    }
    let mut found = [None; GROUP];
    let (missing_keys, found) = (&missing.keys[..missing.len], &mut found[..missing.len]);
    index.get_batch(missing_keys, found)?;
    for (at, value) in found.iter().enumerate() {
        let place = missing.places[at];
        values[place] = *value;
        if let Some((value, ticket)) = value.zip(missing.tickets[at]) {
            cache.offer(hashes[place], keys[place], value, ticket);
        }
    }
    Ok(keys.len() - missing.len)
}

/// Keys of a group that the cache does not have.
struct Missing {
    keys: [u64; GROUP],
    places: [usize; GROUP],
    tickets: [Option<PairTicket>; GROUP],
    len: usize,
}

impl Missing {
    fn push(&mut self, key: u64, place: usize, ticket: Option<PairTicket>) {
        self.keys[self.len] = key;
        self.places[self.len] = place;
        self.tickets[self.len] = ticket;
        self.len += 1;
    }
}
