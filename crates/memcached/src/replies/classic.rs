//! The classic text commands.

use super::{Next, VERSION, line, number};
use crate::error::Result;
use crate::items::{
    Arithmetic, Calculated, Change, Found, Lookup, Removal, RemoveOutcome, Write, WriteOutcome,
};
use crate::protocol::{Command, Retrieval, Storage, StoreMode};
use crate::server::Shared;
use crate::stats::Counters;

pub(super) fn execute(shared: &Shared, command: &Command<'_>, reply: &mut Vec<u8>) -> Result<Next> {
    let (text, noreply) = match command {
        Command::FlushAll { delay, noreply } => {
            shared.items.counters.cmd_flush.add(1);
            if shared.settings.allows_flush {
                shared.flush(*delay)?;
                ("OK", *noreply)
            } else {
                ("CLIENT_ERROR flush_all not allowed", *noreply)
            }
        }
        Command::Verbosity { noreply } => ("OK", *noreply),
        Command::Version => {
            line(reply, &format!("VERSION {VERSION}"));
            return Ok(Next::Continue);
        }
        Command::Shutdown { .. } if shared.settings.allows_shutdown => return Ok(Next::Shutdown),
        Command::Shutdown { .. } => ("SERVER_ERROR: shutdown not enabled", false),
        Command::Quit => return Ok(Next::Quit),
        _ => unreachable!("answered elsewhere"),
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

/// Returns the lookups of `gat` and `gats`.
pub(super) fn lookups<'a>(retrieval: &'a Retrieval<'_>) -> impl Iterator<Item = Change<'a>> {
    let keys = retrieval.keys.iter();
    keys.map(|key| lookup(key, retrieval.exptime))
}

/// Returns a lookup that sets a time of expiry.
pub(super) fn lookup(key: &[u8], ttl: Option<i64>) -> Change<'_> {
    let lookup = Lookup {
        ttl,
        ..Lookup::default()
    };
    Change::Find { key, lookup }
}

/// Appends the reply to `gat` and `gats`.
pub(super) fn found(
    shared: &Shared,
    retrieval: &Retrieval<'_>,
    items: impl Iterator<Item = Option<Found>>,
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

/// Appends the reply to a storage command.
pub(super) fn stored(shared: &Shared, storage: &Storage<'_>, stored: WriteOutcome, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    if storage.cas.is_some() {
        compared(counters, stored);
    }
    let text = match stored {
        WriteOutcome::Stored { .. } => "STORED",
        WriteOutcome::NotStored => "NOT_STORED",
        WriteOutcome::Exists => "EXISTS",
        WriteOutcome::NotFound => "NOT_FOUND",
        // As in memcached, which cannot allocate the longer item.
        WriteOutcome::TooLarge if matches!(storage.mode, StoreMode::Append | StoreMode::Prepend) => {
            "NOT_STORED"
        }
        WriteOutcome::TooLarge => "SERVER_ERROR object too large for cache",
        WriteOutcome::NoRoom => {
            counters.store_no_memory.add(1);
            "SERVER_ERROR out of memory storing object"
        }
    };
    if !storage.noreply {
        line(reply, text);
    }
}

/// Counts a write that was to replace an item with a certain cas value.
pub(super) fn compared(counters: &Counters, stored: WriteOutcome) {
    match stored {
        WriteOutcome::Stored { .. } => counters.cas_hits.add(1),
        WriteOutcome::Exists => counters.cas_badval.add(1),
        WriteOutcome::NotFound => counters.cas_misses.add(1),
        WriteOutcome::NotStored | WriteOutcome::TooLarge | WriteOutcome::NoRoom => {}
    }
}

/// Returns the change of `delete`.
pub(super) fn removal(key: &[u8]) -> Change<'_> {
    let removal = Removal::default();
    Change::Remove { key, removal }
}

/// Appends the reply to `delete`.
pub(super) fn deleted(shared: &Shared, outcome: RemoveOutcome, noreply: bool, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    let text = match outcome {
        RemoveOutcome::Removed => {
            counters.delete_hits.add(1);
            "DELETED"
        }
        _ => {
            counters.delete_misses.add(1);
            "NOT_FOUND"
        }
    };
    if !noreply {
        line(reply, text);
    }
}

/// Appends the reply to `touch`.
pub(super) fn touched(shared: &Shared, is_there: bool, noreply: bool, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    counters.cmd_touch.add(1);
    let text = if is_there {
        counters.touch_hits.add(1);
        "TOUCHED"
    } else {
        counters.touch_misses.add(1);
        "NOT_FOUND"
    };
    if !noreply {
        line(reply, text);
    }
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
pub(super) fn calculated(
    shared: &Shared,
    decrement: bool,
    calculated: Calculated,
    noreply: bool,
    reply: &mut Vec<u8>,
) {
    let counters = &shared.items.counters;
    let (hits, misses) = if decrement {
        (&counters.decr_hits, &counters.decr_misses)
    } else {
        (&counters.incr_hits, &counters.incr_misses)
    };
    let before = reply.len();
    match calculated {
        Calculated::Number { value, .. } => {
            hits.add(1);
            number(reply, value);
            reply.extend_from_slice(b"\r\n");
        }
        Calculated::NotFound | Calculated::Exists => {
            misses.add(1);
            line(reply, "NOT_FOUND");
        }
        Calculated::NotNumeric => line(reply, NOT_NUMERIC),
    }
    if noreply {
        reply.truncate(before);
    }
}

pub(super) const NOT_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
