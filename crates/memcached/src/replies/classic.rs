//! The classic text commands.

use super::{Next, line, no_room, number};
use crate::error::Result;
use crate::items::{
    Arithmetic, Calculated, Change, ChangeOutcome, Found, Lookup, Removal, RemoveOutcome, Write, WriteOutcome,
};
use crate::protocol::{Retrieval, Storage};
use crate::server::Shared;

/// Executes `flush_all`.
pub(super) fn flush_all(shared: &Shared, delay: i64, noreply: bool, reply: &mut Vec<u8>) -> Result<Next> {
    shared.items.counters.cmd_flush.add(1);
    let text = if shared.settings.allows_flush {
        shared.flush(delay)?;
        "OK"
    } else {
        "CLIENT_ERROR flush_all not allowed"
    };
    if !noreply {
        line(reply, text);
    }
    Ok(Next::Continue)
}

/// Appends the reply to `get` or `gets` for the keys from `from` on, until it has `most` bytes. Returns the
/// number of keys that are done, those before `from` included.
pub(super) fn get(
    shared: &Shared,
    retrieval: &Retrieval<'_>,
    from: usize,
    most: usize,
    reply: &mut Vec<u8>,
) -> Result<usize> {
    let mut counts = Retrieved::default();
    let mut done = from;
    for key in &retrieval.keys[from..] {
        if done > from && reply.len() >= most {
            break;
        }
        if let Some(found) = shared.items.get(key, &Lookup::default())? {
            counts.value(key, &found, retrieval.with_cas, reply);
        }
        done += 1;
    }
    if done == retrieval.keys.len() {
        line(reply, "END");
    }
    let counters = &shared.items.counters;
    let Retrieved { hits, hot } = counts;
    let all = (done - from) as u64;
    counters.cmd_get.add(all);
    counters.get_hits.add(hits);
    counters.hot_hits.add(hot);
    counters.get_misses.add(all - hits);
    Ok(done)
}

/// Returns a lookup that sets a time of expiry.
pub(super) fn lookup(key: &[u8], exptime: i64) -> Change<'_> {
    let lookup = Lookup {
        ttl: Some(exptime),
        ..Lookup::default()
    };
    Change::Find { key, lookup }
}

/// Appends the reply to `gat` and `gats`.
pub(super) fn found(
    shared: &Shared,
    retrieval: &Retrieval<'_>,
    items: Vec<Option<Found>>,
    reply: &mut Vec<u8>,
) {
    let mut counts = Retrieved::default();
    for (key, found) in retrieval.keys.iter().zip(items) {
        if let Some(found) = found {
            counts.value(key, &found, retrieval.with_cas, reply);
        }
    }
    if retrieval.ends {
        line(reply, "END");
    }
    // As in memcached, these are no gets.
    let counters = &shared.items.counters;
    let all = retrieval.keys.len() as u64;
    counters.cmd_touch.add(all);
    counters.touch_hits.add(counts.hits);
    counters.touch_misses.add(all - counts.hits);
}

/// Counts of the items of a retrieval.
#[derive(Debug, Default)]
struct Retrieved {
    hits: u64,
    /// Hits that copies in DRAM have answered.
    hot: u64,
}

impl Retrieved {
    /// Appends an item to the reply.
    fn value(&mut self, key: &[u8], found: &Found, with_cas: bool, reply: &mut Vec<u8>) {
        let item = &found.item;
        self.hits += 1;
        self.hot += u64::from(found.is_copy);
        reply.extend_from_slice(b"VALUE ");
        reply.extend_from_slice(key);
        reply.push(b' ');
        number(reply, u64::from(item.client_flags));
        reply.push(b' ');
        number(reply, item.data().len() as u64);
        if with_cas {
            reply.push(b' ');
            number(reply, item.cas);
        }
        reply.extend_from_slice(b"\r\n");
        reply.extend_from_slice(item.data());
        reply.extend_from_slice(b"\r\n");
    }
}

/// Returns the write that a storage command asks for, and counts it.
pub(super) fn write_of<'a>(shared: &Shared, storage: &Storage<'a>, data: &'a [u8]) -> Write<'a> {
    shared.items.counters.cmd_set.add(1);
    Write {
        key: storage.key,
        mode: storage.mode,
        client_flags: storage.flags,
        exptime: storage.exptime,
        cas: storage.cas,
        new_cas: None,
        invalidate: false,
        vivify: None,
        data,
        most: shared.settings.most_data(storage.key),
    }
}

/// Appends the reply to a command on one key, unless its client wants none.
pub(super) fn answer(shared: &Shared, outcome: ChangeOutcome, noreply: bool, reply: &mut Vec<u8>) {
    let before = reply.len();
    match outcome {
        ChangeOutcome::Write(outcome) => stored(shared, outcome, reply),
        ChangeOutcome::Remove(outcome) => deleted(shared, outcome, reply),
        ChangeOutcome::Calculate(outcome) => calculated(outcome, reply),
        ChangeOutcome::Find(found) => touched(shared, found.is_some(), reply),
    }
    if noreply {
        reply.truncate(before);
    }
}

/// Appends the reply to a storage command.
fn stored(shared: &Shared, stored: WriteOutcome, reply: &mut Vec<u8>) {
    match stored {
        WriteOutcome::Stored { .. } => line(reply, "STORED"),
        WriteOutcome::NotStored => line(reply, "NOT_STORED"),
        WriteOutcome::Exists => line(reply, "EXISTS"),
        WriteOutcome::NotFound => line(reply, "NOT_FOUND"),
        WriteOutcome::TooLarge => line(reply, "SERVER_ERROR object too large for cache"),
        WriteOutcome::NoRoom => no_room(shared, reply),
    }
}

/// Returns the change of `delete`.
pub(super) fn removal(key: &[u8]) -> Change<'_> {
    let removal = Removal::default();
    Change::Remove { key, removal }
}

/// Appends the reply to `delete`.
fn deleted(shared: &Shared, outcome: RemoveOutcome, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    let text = match outcome {
        RemoveOutcome::Removed => {
            counters.delete_hits.add(1);
            "DELETED"
        }
        RemoveOutcome::NotFound | RemoveOutcome::Exists => {
            counters.delete_misses.add(1);
            "NOT_FOUND"
        }
    };
    line(reply, text);
}

/// Appends the reply to `touch`.
fn touched(shared: &Shared, is_there: bool, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    counters.cmd_touch.add(1);
    let text = if is_there {
        counters.touch_hits.add(1);
        "TOUCHED"
    } else {
        counters.touch_misses.add(1);
        "NOT_FOUND"
    };
    line(reply, text);
}

/// Returns the change of `incr` and `decr`.
pub(super) fn calculation(key: &[u8], delta: u64, decrement: bool) -> Change<'_> {
    let arithmetic = Arithmetic {
        delta,
        decrement,
        cas: None,
        new_cas: None,
        ttl: None,
        vivify: None,
        initial: 0,
    };
    Change::Calculate { key, arithmetic }
}

/// Appends the reply to `incr` and `decr`.
fn calculated(calculated: Calculated, reply: &mut Vec<u8>) {
    match calculated {
        Calculated::Number { value, .. } => {
            number(reply, value);
            reply.extend_from_slice(b"\r\n");
        }
        Calculated::NotFound | Calculated::Exists => line(reply, "NOT_FOUND"),
        Calculated::NotNumeric => line(reply, NOT_NUMERIC),
    }
}

pub(super) const NOT_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
