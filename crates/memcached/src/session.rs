//! The requests of a connection, one after the other, from the bytes that have arrived.
//!
//! A session knows nothing of sockets: [`Session::step`] gets what was received and not yet consumed. Neither
//! a line nor a block is executed before it is complete.

use std::sync::Arc;

use memchr::memchr;

use crate::auth::Users;
use crate::protocol::{BadCommand, Command, StoreMode, parse};
use crate::replies::{Next, execute};
use crate::server::Shared;

/// Longest line that is no retrieval of many keys, as in memcached.
const MOST_LINE: usize = 2048;
/// Longest line at all.
const MOST_KEYS_LINE: usize = 1 << 18;
/// First byte of a request in the binary protocol.
const BINARY: u8 = 0x80;
/// Longest data of a request to authenticate.
const MOST_AUTH: u64 = 128;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes are done with.
    Done { consumed: usize, next: Next },
    /// So many bytes at least are needed.
    Needs(usize),
}

/// The state of a connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Bytes to skip: the block of a command that was refused.
    skip: u64,
    is_authenticated: bool,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Session {
        let is_authenticated = shared.users.is_none();
        Session {
            shared,
            skip: 0,
            is_authenticated,
        }
    }

    /// Executes the first request of `input`, and appends its reply.
    pub(crate) fn step(&mut self, input: &[u8], reply: &mut Vec<u8>) -> Step {
        if self.skip > 0 {
            let consumed = self.skip.min(input.len() as u64);
            self.skip -= consumed;
            return match consumed {
                0 => Step::Needs(1),
                consumed => done(consumed as usize),
            };
        }
        if input.first() == Some(&BINARY) {
            reply.extend_from_slice(
                b"CLIENT_ERROR the binary protocol is not supported, use the text protocol\r\n",
            );
            return quit(input.len());
        }
        let Some(end) = memchr(b'\n', input) else {
            let most = match input.starts_with(b"get") || input.starts_with(b"gat") {
                true => MOST_KEYS_LINE,
                false => MOST_LINE,
            };
            if input.len() > most {
                return quit(input.len());
            }
            return Step::Needs(input.len() + 1);
        };
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        let rest = &input[end + 1..];
        match parse(line) {
            Ok(command) if !self.is_authenticated => self.authenticate(&command, end + 1, rest, reply),
            Ok(command) => self.run(&command, end + 1, rest, reply),
            Err(BadCommand::UNKNOWN) if is_http(line) => quit(input.len()),
            Err(bad) => self.refuse(bad, bad.is_silent, end + 1, reply),
        }
    }

    /// Answers a command that is not executed, and skips its block.
    fn refuse(&mut self, bad: BadCommand, noreply: bool, consumed: usize, reply: &mut Vec<u8>) -> Step {
        if !noreply {
            reply.extend_from_slice(bad.reply.as_bytes());
            reply.extend_from_slice(b"\r\n");
        }
        self.skip = bad.skip.map_or(0, |data| data + 2);
        done(consumed)
    }

    fn run(&mut self, command: &Command<'_>, consumed: usize, rest: &[u8], reply: &mut Vec<u8>) -> Step {
        let (key, len, mode, noreply) = match command {
            Command::Store(storage) => (storage.key, storage.len, storage.mode, storage.noreply),
            Command::MetaSet(meta, len) => (&meta.key[..], *len, StoreMode::Set, false),
            _ => {
                let next = execute(&self.shared, command, b"", reply);
                return Step::Done { consumed, next };
            }
        };
        if len > self.shared.settings.most_data(key) {
            return self.too_large(key, len, (mode, noreply), consumed, reply);
        }
        let len = len as usize;
        let Some(block) = rest.get(..len + 2) else {
            return Step::Needs(consumed + len + 2);
        };
        let (data, end) = block.split_at(len);
        let next = match end {
            b"\r\n" => execute(&self.shared, command, data, reply),
            _ => {
                reply.extend_from_slice(b"CLIENT_ERROR bad data chunk\r\n");
                Next::Continue
            }
        };
        Step::Done {
            consumed: consumed + len + 2,
            next,
        }
    }

    fn too_large(
        &mut self,
        key: &[u8],
        len: u64,
        (mode, noreply): (StoreMode, bool),
        consumed: usize,
        reply: &mut Vec<u8>,
    ) -> Step {
        self.shared.items.counters.store_too_large.add(1);
        // A value that could not be replaced is not what a client should read.
        if mode == StoreMode::Set
            && let Err(error) = self.shared.items.drop_outdated(key)
        {
            tracing::warn!(%error, "an outdated item could not be removed");
        }
        let bad = BadCommand {
            skip: Some(len),
            ..BadCommand::new("SERVER_ERROR object too large for cache")
        };
        self.refuse(bad, noreply, consumed, reply)
    }

    /// The first command of a connection to a server with users: `set`, whose data is a name and a password.
    fn authenticate(
        &mut self,
        command: &Command<'_>,
        consumed: usize,
        rest: &[u8],
        reply: &mut Vec<u8>,
    ) -> Step {
        let counters = &self.shared.items.counters;
        let bad = |reply, skip| BadCommand {
            skip,
            ..BadCommand::new(reply)
        };
        let Command::Store(storage) = command else {
            let skip = match command {
                Command::MetaSet(_, len) => Some(*len),
                _ => None,
            };
            return self.refuse(bad("CLIENT_ERROR unauthenticated", skip), false, consumed, reply);
        };
        if storage.mode != StoreMode::Set {
            let unauthenticated = bad("CLIENT_ERROR unauthenticated", Some(storage.len));
            return self.refuse(unauthenticated, false, consumed, reply);
        }
        if storage.len > MOST_AUTH {
            return self.refuse(
                bad("CLIENT_ERROR auth token too long", None),
                false,
                consumed,
                reply,
            );
        }
        let len = storage.len as usize;
        let Some(block) = rest.get(..len + 2) else {
            return Step::Needs(consumed + len + 2);
        };
        counters.auth_cmds.add(1);
        let (token, end) = block.split_at(len);
        let is_known = self
            .shared
            .users
            .as_ref()
            .is_some_and(|users: &Users| users.knows(token));
        let text = match (end, token.contains(&b' '), is_known) {
            (b"\r\n", _, true) => "STORED",
            (b"\r\n", true, _) => "CLIENT_ERROR authentication failure",
            (b"\r\n", ..) => "CLIENT_ERROR bad authentication token format",
            _ => "CLIENT_ERROR bad command line termination",
        };
        self.is_authenticated = text == "STORED";
        if !self.is_authenticated {
            counters.auth_errors.add(1);
        }
        self.refuse(BadCommand::new(text), false, consumed + len + 2, reply)
    }
}

/// Returns true if a line is a request of HTTP, whose sender is not to send commands in what follows.
fn is_http(line: &[u8]) -> bool {
    line.ends_with(b" HTTP/1.0") || line.ends_with(b" HTTP/1.1")
}

fn done(consumed: usize) -> Step {
    Step::Done {
        consumed,
        next: Next::Continue,
    }
}

fn quit(consumed: usize) -> Step {
    Step::Done {
        consumed,
        next: Next::Quit,
    }
}
