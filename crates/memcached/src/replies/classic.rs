//! The classic text commands.

use super::{Next, VERSION, line, number};
use crate::error::Result;
use crate::items::{Arithmetic, Calculated, Found, Lookup, Removal, RemoveOutcome, Write, WriteOutcome};
use crate::protocol::{Command, Retrieval, Storage, StoreMode};
use crate::server::Shared;

pub(super) fn execute(shared: &Shared, command: &Command<'_>, reply: &mut Vec<u8>) -> Result<Next> {
    let (text, noreply) = match command {
        Command::Get(retrieval) => return get(shared, retrieval, reply),
        Command::Delete { key, noreply } => (delete(shared, key)?, *noreply),
        Command::Arithmetic {
            key,
            delta,
            decrement,
            noreply,
        } => return arithmetic(shared, key, *delta, *decrement, *noreply, reply),
        Command::Touch {
            key,
            exptime,
            noreply,
        } => (touch(shared, key, *exptime)?, *noreply),
        Command::FlushAll { delay, noreply } => {
            shared.items.counters.cmd_flush.add(1);
            match shared.settings.allows_flush {
                true => shared.flush(*delay)?,
                false => {
                    line(reply, "CLIENT_ERROR flush_all not allowed");
                    return Ok(Next::Continue);
                }
            }
            ("OK", *noreply)
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

fn get(shared: &Shared, retrieval: &Retrieval<'_>, reply: &mut Vec<u8>) -> Result<Next> {
    let counters = &shared.items.counters;
    let lookup = Lookup {
        ttl: retrieval.exptime,
        ..Lookup::default()
    };
    let (mut hits, mut hot, all) = (0, 0, retrieval.keys.len() as u64);
    for key in &retrieval.keys {
        let Some(Found { item, is_copy, .. }) = shared.items.get(key, &lookup)? else {
            continue;
        };
        hits += 1;
        hot += u64::from(is_copy);
        reply.extend_from_slice(b"VALUE ");
        reply.extend_from_slice(key);
        reply.push(b' ');
        number(reply, u64::from(item.client_flags));
        reply.push(b' ');
        number(reply, item.data().len() as u64);
        if retrieval.with_cas {
            reply.push(b' ');
            number(reply, item.cas);
        }
        reply.extend_from_slice(b"\r\n");
        reply.extend_from_slice(item.data());
        reply.extend_from_slice(b"\r\n");
    }
    line(reply, "END");
    counters.cmd_get.add(all);
    counters.get_hits.add(hits);
    counters.hot_hits.add(hot);
    counters.get_misses.add(all - hits);
    if retrieval.exptime.is_some() {
        counters.cmd_touch.add(all);
        counters.touch_hits.add(hits);
        counters.touch_misses.add(all - hits);
    }
    Ok(Next::Continue)
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
    }
}

/// Appends the reply to a storage command.
pub(super) fn stored(shared: &Shared, storage: &Storage<'_>, stored: WriteOutcome, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    if storage.cas.is_some() {
        match stored {
            WriteOutcome::Stored { .. } => counters.cas_hits.add(1),
            WriteOutcome::Exists => counters.cas_badval.add(1),
            _ => counters.cas_misses.add(1),
        }
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

fn delete(shared: &Shared, key: &[u8]) -> Result<&'static str> {
    let counters = &shared.items.counters;
    Ok(match shared.items.remove(key, &Removal::default())? {
        RemoveOutcome::Removed => {
            counters.delete_hits.add(1);
            "DELETED"
        }
        _ => {
            counters.delete_misses.add(1);
            "NOT_FOUND"
        }
    })
}

fn touch(shared: &Shared, key: &[u8], exptime: i64) -> Result<&'static str> {
    let counters = &shared.items.counters;
    counters.cmd_touch.add(1);
    Ok(match shared.items.touch(key, exptime)? {
        true => {
            counters.touch_hits.add(1);
            "TOUCHED"
        }
        false => {
            counters.touch_misses.add(1);
            "NOT_FOUND"
        }
    })
}

fn arithmetic(
    shared: &Shared,
    key: &[u8],
    delta: u64,
    decrement: bool,
    noreply: bool,
    reply: &mut Vec<u8>,
) -> Result<Next> {
    let counters = &shared.items.counters;
    let (hits, misses) = match decrement {
        true => (&counters.decr_hits, &counters.decr_misses),
        false => (&counters.incr_hits, &counters.incr_misses),
    };
    let change = Arithmetic {
        delta,
        decrement,
        cas: None,
        new_cas: None,
        ttl: None,
        vivify: None,
        initial: 0,
    };
    let calculated = shared.items.calculate(key, &change)?;
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
    Ok(Next::Continue)
}

pub(super) const NOT_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
