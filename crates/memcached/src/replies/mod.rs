//! Commands, executed and answered.
//!
//! Replies are appended to a buffer that the connection sends when no further complete request has arrived.

mod changes;
mod classic;
mod meta;
mod statistics;

use std::time::Instant;

use crate::error::MemcachedError;
use crate::protocol::{DirectCommand, Retrieval};
use crate::server::Shared;

pub(crate) use changes::{ChangeRequest, execute_changes};

/// The version that clients are told. Some choose by it what they send: it begins with that of the memcached
/// whose protocol this is.
const VERSION: &str = concat!("1.6.45-halocline-", env!("CARGO_PKG_VERSION"));

/// The next step of a connection after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    /// The connection is closed.
    Quit,
    /// The server stops.
    Shutdown,
}

/// Executes a command, and appends the reply.
pub(crate) fn execute(shared: &Shared, command: &DirectCommand<'_>, reply: &mut Vec<u8>) -> Next {
    let start = Instant::now();
    let before = reply.len();
    let done = match command {
        DirectCommand::FlushAll { delay, noreply } => classic::flush_all(shared, *delay, *noreply, reply),
        DirectCommand::Version => {
            line(reply, &format!("VERSION {VERSION}"));
            Ok(Next::Continue)
        }
        DirectCommand::Verbosity { noreply } => {
            if !noreply {
                line(reply, "OK");
            }
            Ok(Next::Continue)
        }
        DirectCommand::Stats(arguments) => statistics::write(shared, arguments, reply),
        DirectCommand::Shutdown { .. } if shared.settings.allows_shutdown => Ok(Next::Shutdown),
        DirectCommand::Shutdown { .. } => {
            line(reply, "SERVER_ERROR: shutdown not enabled");
            Ok(Next::Continue)
        }
        DirectCommand::Quit => Ok(Next::Quit),
        DirectCommand::MetaGet(meta) => meta::get(shared, meta, reply),
        DirectCommand::MetaDebug { key, is_base64 } => meta::debug(shared, key, *is_base64, reply),
        DirectCommand::MetaNoop => {
            line(reply, "MN");
            Ok(Next::Continue)
        }
    };
    if matches!(command, DirectCommand::MetaGet(_)) {
        shared.items.counters.reads.add(start.elapsed());
    }
    done.unwrap_or_else(|error| {
        reply.truncate(before);
        failed(shared, &error, command.is_silent(), reply);
        Next::Continue
    })
}

/// Looks up the keys of a retrieval that changes no item, from one on until the reply has `most` bytes, and
/// appends the reply. Returns the number of keys that are done with: all if a lookup failed.
pub(crate) fn execute_get(
    shared: &Shared,
    retrieval: &Retrieval<'_>,
    from: usize,
    most: usize,
    reply: &mut Vec<u8>,
) -> usize {
    let start = Instant::now();
    let before = reply.len();
    let done = classic::get(shared, retrieval, from, most, reply);
    shared.items.counters.reads.add(start.elapsed());
    done.unwrap_or_else(|error| {
        reply.truncate(before);
        failed(shared, &error, false, reply);
        retrieval.keys.len()
    })
}

/// Appends the reply to a command that failed, unless its client wants none. Nothing was acknowledged.
fn failed(shared: &Shared, error: &MemcachedError, is_silent: bool, reply: &mut Vec<u8>) {
    let before = reply.len();
    if error.is_full() {
        if shared.items.counters.store_no_memory.get() == 0 {
            tracing::warn!(%error, "items cannot be stored; later commands that fail so are only counted");
        }
        no_room(shared, reply);
    } else {
        tracing::warn!(%error, "a command failed");
        refused(error, reply);
    }
    if is_silent {
        reply.truncate(before);
    }
}

/// Appends an error.
fn refused(error: &MemcachedError, reply: &mut Vec<u8>) {
    // An error has several lines at times, a reply has one.
    let text = error.to_string().replace(['\r', '\n'], " ");
    reply.extend_from_slice(b"SERVER_ERROR ");
    reply.extend_from_slice(text.as_bytes());
    reply.extend_from_slice(b"\r\n");
}

/// Appends the reply to a command for which there is no room.
fn no_room(shared: &Shared, reply: &mut Vec<u8>) {
    shared.items.counters.store_no_memory.add(1);
    line(reply, "SERVER_ERROR out of memory storing object");
}

/// Appends a line.
fn line(reply: &mut Vec<u8>, text: &str) {
    reply.extend_from_slice(text.as_bytes());
    reply.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal digits.
fn number(reply: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    reply.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        for value in [0, 9, 10, 4_294_967_296, u64::MAX] {
            let mut reply = Vec::new();
            number(&mut reply, value);
            assert_eq!(reply, value.to_string().into_bytes());
        }
    }
}
