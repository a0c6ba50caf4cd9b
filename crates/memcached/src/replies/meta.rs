//! The meta commands.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::classic::NOT_NUMERIC;
use super::{Next, line, no_room, number};
use crate::error::Result;
use crate::expiry::{expires_at, remaining};
use crate::items::{
    Access, Arithmetic, Calculated, Change, ChangeOutcome, Found, Lookup, Removal, RemoveOutcome, Write,
    WriteOutcome,
};
use crate::protocol::{Meta, MetaFlag, StoreMode};
use crate::server::Shared;

/// Values for the flags of a reply, as far as there is an item.
#[derive(Debug, Clone, Copy, Default)]
struct Returned {
    cas: Option<u64>,
    client_flags: Option<u32>,
    size: Option<u64>,
    /// Remaining seconds; `Some(None)` for ever.
    ttl: Option<Option<u64>>,
    access: Option<Access>,
}

/// Appends the flags that a command asks for and the line end.
fn flags(meta: &Meta<'_>, returned: &Returned, reply: &mut Vec<u8>) {
    let numbered = |reply: &mut Vec<u8>, letter: u8, value: Option<u64>| {
        if let Some(value) = value {
            reply.extend_from_slice(&[b' ', letter]);
            number(reply, value);
        }
    };
    for flag in &meta.returned {
        match flag {
            MetaFlag::Key => {
                reply.extend_from_slice(b" k");
                reply.extend_from_slice(meta.sent_key);
                if meta.is_base64 {
                    reply.extend_from_slice(b" b");
                }
            }
            MetaFlag::Opaque(token) => {
                reply.extend_from_slice(b" O");
                reply.extend_from_slice(token);
            }
            MetaFlag::Cas => numbered(reply, b'c', returned.cas),
            MetaFlag::ClientFlags => numbered(reply, b'f', returned.client_flags.map(u64::from)),
            MetaFlag::Size => numbered(reply, b's', returned.size),
            MetaFlag::Hit => numbered(
                reply,
                b'h',
                returned.access.map(|access| u64::from(access.was_hit)),
            ),
            MetaFlag::LastAccess => numbered(reply, b'l', returned.access.map(|access| access.idle_seconds)),
            MetaFlag::Ttl => match returned.ttl {
                Some(None) => reply.extend_from_slice(b" t-1"),
                Some(seconds) => numbered(reply, b't', seconds),
                None => {}
            },
        }
    }
}

/// Appends a reply without a value.
fn status(code: &str, meta: &Meta<'_>, returned: &Returned, reply: &mut Vec<u8>) {
    reply.extend_from_slice(code.as_bytes());
    flags(meta, returned, reply);
    reply.extend_from_slice(b"\r\n");
}

/// Appends the reply to an `mg` that changes no item.
pub(super) fn get(shared: &Shared, meta: &Meta<'_>, reply: &mut Vec<u8>) -> Result<Next> {
    let item = shared.items.get(&meta.key, &lookup(meta))?;
    found(shared, meta, item, reply);
    Ok(Next::Continue)
}

/// Returns the lookup that `mg` asks for.
pub(super) fn lookup(meta: &Meta<'_>) -> Lookup {
    let is_of_access = |flag: &MetaFlag<'_>| matches!(flag, MetaFlag::Hit | MetaFlag::LastAccess);
    Lookup {
        no_bump: meta.no_bump,
        with_access: meta.returned.iter().any(is_of_access),
        ttl: meta.ttl,
        vivify: meta.vivified(),
        recache: meta.recache,
        recache_first: meta.order.ttl_after_recache,
        new_cas: meta.new_cas,
    }
}

/// Returns the time of expiry that `t` returns of an item that was created, or had one before and has one
/// after the command.
fn reported(
    meta: &Meta<'_>,
    created: bool,
    before: Option<u64>,
    after: Option<u64>,
    now: u64,
) -> Option<u64> {
    match (created, meta.order.ttl_after_report) {
        (true, _) => expires_at(meta.reported_of_created().unwrap_or(0), now),
        (false, true) => before,
        (false, false) => after,
    }
}

/// Appends the reply to a command with a block of `len` bytes.
pub(super) fn answer(
    shared: &Shared,
    meta: &Meta<'_>,
    len: usize,
    outcome: ChangeOutcome,
    reply: &mut Vec<u8>,
) {
    match outcome {
        ChangeOutcome::Write(outcome) => stored(shared, meta, len as u64, outcome, reply),
        ChangeOutcome::Remove(outcome) => deleted(shared, meta, outcome, reply),
        ChangeOutcome::Calculate(outcome) => calculated(shared, meta, outcome, reply),
        ChangeOutcome::Find(item) => found(shared, meta, item, reply),
    }
}

/// Appends the reply to `mg`.
fn found(shared: &Shared, meta: &Meta<'_>, found: Option<Found>, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    counters.cmd_meta.add(1);
    let Some(found) = found else {
        counters.cmd_get.add(1);
        counters.get_misses.add(1);
        if !meta.quiet {
            status("EN", meta, &Returned::default(), reply);
        }
        return;
    };
    // As in memcached, a hit with a new time of expiry is no get.
    let (commands, hits) = match meta.ttl {
        Some(_) => (&counters.cmd_touch, &counters.touch_hits),
        None => (&counters.cmd_get, &counters.get_hits),
    };
    commands.add(1);
    hits.add(1);
    counters.hot_hits.add(u64::from(found.is_copy));
    let (item, now) = (&found.item, shared.items.now());
    let size = item.data().len() as u64;
    let returned = Returned {
        cas: Some(item.cas),
        client_flags: Some(item.client_flags),
        size: Some(size),
        ttl: Some(remaining(
            reported(meta, found.created, found.expired_before, item.expires, now),
            now,
        )),
        access: Some(found.access),
    };
    let with_value = meta.value && meta.cas != Some(item.cas);
    if with_value {
        reply.extend_from_slice(b"VA ");
        number(reply, size);
    } else {
        reply.extend_from_slice(b"HD");
    }
    flags(meta, &returned, reply);
    for (is_set, flag) in [
        (found.token_sent, b" Z"),
        (item.is_stale, b" X"),
        (found.won, b" W"),
    ] {
        if is_set {
            reply.extend_from_slice(flag);
        }
    }
    reply.extend_from_slice(b"\r\n");
    if with_value {
        reply.extend_from_slice(item.data());
        reply.extend_from_slice(b"\r\n");
    }
}

/// Returns the write that `ms` asks for, and counts it.
pub(super) fn write_of<'a>(shared: &Shared, meta: &'a Meta<'_>, data: &'a [u8]) -> Write<'a> {
    let counters = &shared.items.counters;
    counters.cmd_meta.add(1);
    counters.cmd_set.add(1);
    Write {
        key: &meta.key,
        // It was found to be valid.
        mode: meta.store_mode().unwrap_or(StoreMode::Set),
        client_flags: meta.client_flags,
        exptime: meta.ttl.unwrap_or(0),
        cas: meta.cas,
        new_cas: meta.new_cas,
        invalidate: meta.invalidate,
        vivify: meta.vivify,
        data,
        most: shared.settings.most_data(&meta.key),
    }
}

/// Appends the reply to `ms` with a block of `len` bytes.
fn stored(shared: &Shared, meta: &Meta<'_>, len: u64, stored: WriteOutcome, reply: &mut Vec<u8>) {
    let code = match stored {
        WriteOutcome::Stored { cas, size } => {
            let returned = Returned {
                cas: Some(cas),
                size: Some(size),
                ..Returned::default()
            };
            if !meta.quiet {
                status("HD", meta, &returned, reply);
            }
            return;
        }
        WriteOutcome::NotStored => "NS",
        WriteOutcome::TooLarge => return line(reply, "SERVER_ERROR object too large for cache"),
        WriteOutcome::NoRoom => return no_room(shared, reply),
        WriteOutcome::Exists => "EX",
        WriteOutcome::NotFound => "NF",
    };
    let returned = Returned {
        cas: Some(0),
        size: Some(len),
        ..Returned::default()
    };
    status(code, meta, &returned, reply);
}

/// Returns the change that `md` asks for.
pub(super) fn removal<'a>(meta: &'a Meta<'_>) -> Change<'a> {
    let removal = Removal {
        cas: meta.cas,
        new_cas: meta.new_cas,
        invalidate: meta.invalidate,
        ttl: meta.ttl,
        remove_value: meta.remove_value,
        client_flags: meta.client_flags,
    };
    Change::Remove {
        key: &meta.key,
        removal,
    }
}

/// Appends the reply to `md`.
fn deleted(shared: &Shared, meta: &Meta<'_>, outcome: RemoveOutcome, reply: &mut Vec<u8>) {
    let counters = &shared.items.counters;
    counters.cmd_meta.add(1);
    let code = match outcome {
        RemoveOutcome::Removed => {
            counters.delete_hits.add(u64::from(!meta.invalidate));
            "HD"
        }
        RemoveOutcome::NotFound => {
            counters.delete_misses.add(1);
            "NF"
        }
        RemoveOutcome::Exists => {
            counters.delete_misses.add(1);
            "EX"
        }
    };
    if !(meta.quiet && code == "HD") {
        status(code, meta, &Returned::default(), reply);
    }
}

/// Returns the change that `ma` asks for.
pub(super) fn calculation<'a>(meta: &'a Meta<'_>) -> Change<'a> {
    let arithmetic = Arithmetic {
        delta: meta.delta.unwrap_or(1),
        decrement: meta.decrements(),
        cas: meta.cas,
        new_cas: meta.new_cas,
        ttl: meta.ttl,
        vivify: meta.vivified(),
        initial: meta.initial,
    };
    Change::Calculate {
        key: &meta.key,
        arithmetic,
    }
}

/// Appends the reply to `ma`.
fn calculated(shared: &Shared, meta: &Meta<'_>, calculated: Calculated, reply: &mut Vec<u8>) {
    shared.items.counters.cmd_meta.add(1);
    match calculated {
        Calculated::Number {
            value,
            cas,
            expires,
            expired_before,
            created,
            ..
        } => {
            if meta.quiet {
                return;
            }
            let now = shared.items.now();
            let returned = Returned {
                cas: Some(cas),
                ttl: Some(remaining(
                    reported(meta, created, expired_before, expires, now),
                    now,
                )),
                ..Returned::default()
            };
            let text = value.to_string();
            if meta.value {
                reply.extend_from_slice(b"VA ");
                number(reply, text.len() as u64);
            } else {
                reply.extend_from_slice(b"HD");
            }
            flags(meta, &returned, reply);
            reply.extend_from_slice(b"\r\n");
            if meta.value {
                line(reply, &text);
            }
        }
        Calculated::NotFound => status("NF", meta, &Returned::default(), reply),
        Calculated::Exists => status("EX", meta, &Returned::default(), reply),
        Calculated::NotNumeric => line(reply, NOT_NUMERIC),
    }
}

/// Appends the reply to `me`.
pub(super) fn debug(shared: &Shared, sent_key: &[u8], is_base64: bool, reply: &mut Vec<u8>) -> Result<Next> {
    let decoded = if is_base64 {
        STANDARD.decode(sent_key).ok()
    } else {
        Some(sent_key.to_vec())
    };
    let Some(key) = decoded.filter(|key| !key.is_empty()) else {
        line(reply, "CLIENT_ERROR bad command line format");
        return Ok(Next::Continue);
    };
    let lookup = Lookup {
        no_bump: true,
        with_access: true,
        ..Lookup::default()
    };
    let Some(found) = shared.items.peek(&key, &lookup)? else {
        line(reply, "EN");
        return Ok(Next::Continue);
    };
    reply.extend_from_slice(b"ME ");
    reply.extend_from_slice(sent_key);
    let item = &found.item;
    let exp = match remaining(item.expires, shared.items.now()) {
        None => "-1".to_owned(),
        Some(seconds) => seconds.to_string(),
    };
    let size = crate::item::size(key.len(), item.data().len() as u64);
    let fetched = if found.access.was_hit { "yes" } else { "no" };
    let text = format!(
        " exp={exp} la={} cas={} fetch={fetched} cls=1 size={size}",
        found.access.idle_seconds, item.cas
    );
    line(reply, &text);
    Ok(Next::Continue)
}
