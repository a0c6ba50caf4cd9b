//! The requests of a connection, one after the other, from the bytes that have arrived.
//!
//! A session knows nothing of sockets: [`Session::serve`] gets what was received and not yet consumed.
//! Neither a line nor a block is executed before it is complete. Commands that change items and follow each
//! other are executed together, so that one fence makes them durable. Nothing else is executed or answered
//! between them.

use std::sync::Arc;

use memchr::memchr;

use crate::auth::Users;
use crate::protocol::{BadCommand, ChangeCommand, Command, DataBlock, Retrieval, StoreMode, parse};
use crate::receiving::FREE;
use crate::replies::{ChangeRequest, Next, execute, execute_changes, execute_get};
use crate::server::Shared;

const TOO_LONG: &[u8] = b"CLIENT_ERROR line too long\r\n";
const NO_MEMORY_TO_READ: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
const NO_MEMORY_TO_STORE: &str = "SERVER_ERROR out of memory storing object";

/// Longest line that is no retrieval of many keys.
const MAX_LINE: usize = 16 << 10;
/// Longest beginning of such a line whose end a client may take its time to send. memcached ends connections
/// that send more without an end, and executes or refuses what has arrived as a whole.
const PATIENT_LINE: usize = 2048;
/// Longest line at all.
const MAX_KEYS_LINE: usize = 1 << 18;
/// First byte of a request in the binary protocol.
const BINARY: u8 = 0x80;
/// Longest data of a request to authenticate.
const MAX_AUTH_BYTES: u64 = 128;
/// Bytes of replies after which they are sent although more requests have arrived.
const MAX_REPLIES_BYTES: usize = 256 << 10;
/// Most commands that are executed together, and bytes of data, stored and returned, from which on no other
/// one is.
const MAX_COMMANDS_TOGETHER: usize = 128;
const BYTES_TOGETHER: usize = 256 << 10;
/// Bytes that count for a value that is returned, whose size is not known yet.
const ASSUMED_VALUE_BYTES: usize = 16 << 10;
/// Most keys of a retrieval that changes items which are looked up together.
const MAX_TOUCHED_KEYS: usize = BYTES_TOGETHER / ASSUMED_VALUE_BYTES;

/// The result of executing what has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// Bytes that are done with.
    pub(crate) consumed: usize,
    pub(crate) next: Next,
    /// Bytes that are needed to go on, with those that are not done with. `None` if it stopped to send
    /// replies.
    pub(crate) needs: Option<usize>,
    /// The connection ends unless they arrive soon.
    pub(crate) is_impatient: bool,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The first `consumed` bytes are done with.
    Done { consumed: usize, next: Next },
    /// The replies so far are sent before the rest of the request is executed.
    Unfinished,
    /// At least this many bytes are needed.
    Needs(usize),
}

/// Changes that wait to be executed together.
#[derive(Debug, Default)]
struct WaitingChanges<'a> {
    requests: Vec<ChangeRequest<'a>>,
    bytes: usize,
}

impl<'a> WaitingChanges<'a> {
    fn push(&mut self, request: ChangeRequest<'a>) {
        self.bytes += request.data.len();
        if request.command.returns_values() {
            self.bytes += ASSUMED_VALUE_BYTES * request.command.keys();
        }
        self.requests.push(request);
    }

    fn is_full(&self) -> bool {
        self.requests.len() >= MAX_COMMANDS_TOGETHER || self.bytes >= BYTES_TOGETHER
    }

    /// Executes the commands, and appends their replies.
    fn execute(&mut self, shared: &Shared, reply: &mut Vec<u8>) {
        if !self.requests.is_empty() {
            execute_changes(shared, &self.requests, reply);
            self.requests.clear();
            self.bytes = 0;
        }
    }
}

/// The state of a connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Bytes to skip: the block of a command that was refused.
    skip: u64,
    /// Bytes taken for a request that has not arrived completely.
    taken: u64,
    /// Keys of the retrieval at the beginning of the input whose values were sent.
    retrieved: usize,
    is_impatient: bool,
    is_authenticated: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Session {
        let is_authenticated = shared.users.is_none();
        Session {
            shared,
            skip: 0,
            taken: 0,
            retrieved: 0,
            is_impatient: false,
            is_authenticated,
        }
    }

    /// Executes all complete requests of `input`, and appends their replies.
    pub(crate) fn serve(&mut self, input: &[u8], reply: &mut Vec<u8>) -> Served {
        let mut changes = WaitingChanges::default();
        let mut consumed = 0;
        self.is_impatient = false;
        let (next, needs) = loop {
            if reply.len() >= MAX_REPLIES_BYTES {
                break (Next::Continue, None);
            }
            match self.step(&input[consumed..], &mut changes, reply) {
                Step::Needs(bytes) => break (Next::Continue, Some(bytes)),
                Step::Unfinished => {}
                Step::Done { consumed: more, next } => {
                    consumed += more;
                    self.give_back();
                    if next != Next::Continue {
                        break (next, None);
                    }
                }
            }
            if changes.is_full() {
                changes.execute(&self.shared, reply);
            }
        };
        changes.execute(&self.shared, reply);
        Served {
            consumed,
            next,
            needs,
            is_impatient: self.is_impatient,
        }
    }

    /// Takes memory for a request of this length, if it needs some.
    fn take(&mut self, bytes: usize) -> bool {
        let more = (bytes as u64).saturating_sub(self.taken);
        if bytes <= FREE || more == 0 {
            return true;
        }
        let is_taken = self.shared.receiving.try_take(more);
        self.taken += if is_taken { more } else { 0 };
        is_taken
    }

    fn give_back(&mut self) {
        if self.taken > 0 {
            self.shared.receiving.give_back(std::mem::take(&mut self.taken));
        }
    }

    /// Executes the first request of `input`, and appends its reply. A command that changes items is added to
    /// `changes` instead.
    fn step<'a>(&mut self, input: &'a [u8], changes: &mut WaitingChanges<'a>, reply: &mut Vec<u8>) -> Step {
        if self.skip > 0 {
            let consumed = self.skip.min(input.len() as u64);
            self.skip -= consumed;
            return match consumed {
                0 => Step::Needs(1),
                consumed => done(consumed as usize),
            };
        }
        if input.first() == Some(&BINARY) {
            changes.execute(&self.shared, reply);
            reply.extend_from_slice(
                b"CLIENT_ERROR the binary protocol is not supported, use the text protocol\r\n",
            );
            return quit(input.len());
        }
        let most = if input.starts_with(b"get") || input.starts_with(b"gat") {
            MAX_KEYS_LINE
        } else {
            MAX_LINE
        };
        // A line that is too long is one, whether or not its end has arrived.
        let Some(end) = memchr(b'\n', &input[..input.len().min(most + 1)]) else {
            let refused = match () {
                () if input.len() > most => TOO_LONG,
                () if self.take(input.len()) => {
                    self.is_impatient = input.len() > PATIENT_LINE && most == MAX_LINE;
                    return Step::Needs(input.len() + 1);
                }
                () => {
                    self.shared.items.counters.read_buf_oom.add(1);
                    NO_MEMORY_TO_READ
                }
            };
            changes.execute(&self.shared, reply);
            reply.extend_from_slice(refused);
            return quit(input.len());
        };
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        let rest = &input[end + 1..];
        match parse(line) {
            Ok(command) if !self.is_authenticated => self.authenticate(&command, end + 1, rest, reply),
            Ok(command) => self.run(command, end + 1, rest, changes, reply),
            Err(BadCommand::UNKNOWN) if is_http(line) => quit(input.len()),
            Err(bad) => {
                changes.execute(&self.shared, reply);
                self.refuse(bad, bad.is_silent, end + 1, reply)
            }
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

    fn run<'a>(
        &mut self,
        command: Command<'a>,
        consumed: usize,
        rest: &'a [u8],
        changes: &mut WaitingChanges<'a>,
        reply: &mut Vec<u8>,
    ) -> Step {
        let command = match command {
            Command::Get(retrieval) => {
                changes.execute(&self.shared, reply);
                return self.retrieve(&retrieval, consumed, reply);
            }
            Command::Change(ChangeCommand::GetAndTouch { retrieval, exptime })
                if retrieval.keys.len() > MAX_TOUCHED_KEYS =>
            {
                changes.execute(&self.shared, reply);
                return self.retrieve_and_touch(&retrieval, exptime, consumed, reply);
            }
            Command::Change(command) => command,
            Command::Direct(command) => {
                changes.execute(&self.shared, reply);
                let next = execute(&self.shared, &command, reply);
                return Step::Done { consumed, next };
            }
        };
        let Some(block) = command.block() else {
            changes.push(ChangeRequest { command, data: b"" });
            return done(consumed);
        };
        if block.len > self.shared.settings.most_data(block.key) {
            changes.execute(&self.shared, reply);
            self.shared.items.counters.store_too_large.add(1);
            return self.not_stored(block, "SERVER_ERROR object too large for cache", consumed, reply);
        }
        let len = block.len as usize;
        let Some(data) = rest.get(..len + 2) else {
            if self.take(consumed + len + 2) {
                return Step::Needs(consumed + len + 2);
            }
            changes.execute(&self.shared, reply);
            self.shared.items.counters.store_no_memory.add(1);
            return self.not_stored(block, NO_MEMORY_TO_STORE, consumed, reply);
        };
        let (data, end) = data.split_at(len);
        match end {
            b"\r\n" => changes.push(ChangeRequest { command, data }),
            _ if block.noreply => {}
            _ => {
                changes.execute(&self.shared, reply);
                reply.extend_from_slice(b"CLIENT_ERROR bad data chunk\r\n");
            }
        }
        done(consumed + len + 2)
    }

    /// Executes a retrieval, of which many values are returned in parts: their replies are sent before the
    /// next part is read, so that they do not take memory all at once.
    fn retrieve(&mut self, retrieval: &Retrieval<'_>, consumed: usize, reply: &mut Vec<u8>) -> Step {
        self.retrieved = execute_get(&self.shared, retrieval, self.retrieved, MAX_REPLIES_BYTES, reply);
        self.end_part(retrieval, consumed)
    }

    /// Executes a retrieval that sets a time of expiry, in parts as [`retrieve`](Self::retrieve) does.
    fn retrieve_and_touch(
        &mut self,
        retrieval: &Retrieval<'_>,
        exptime: i64,
        consumed: usize,
        reply: &mut Vec<u8>,
    ) -> Step {
        let keys = retrieval.keys.len();
        while self.retrieved < keys && reply.len() < MAX_REPLIES_BYTES {
            let end = keys.min(self.retrieved + MAX_TOUCHED_KEYS);
            let retrieval = retrieval.part(self.retrieved..end);
            let command = ChangeCommand::GetAndTouch { retrieval, exptime };
            let all_found_out = execute_changes(&self.shared, &[ChangeRequest { command, data: b"" }], reply);
            self.retrieved = if all_found_out { end } else { keys };
        }
        self.end_part(retrieval, consumed)
    }

    /// Ends a part of a retrieval.
    fn end_part(&mut self, retrieval: &Retrieval<'_>, consumed: usize) -> Step {
        if self.retrieved < retrieval.keys.len() {
            return Step::Unfinished;
        }
        self.retrieved = 0;
        done(consumed)
    }

    /// Answers a command whose block is not read but skipped.
    fn not_stored(
        &mut self,
        block: DataBlock<'_>,
        text: &'static str,
        consumed: usize,
        reply: &mut Vec<u8>,
    ) -> Step {
        // A value that could not be replaced is not what a client should read.
        if block.is_set
            && let Err(error) = self.shared.items.drop_outdated(block.key)
        {
            tracing::warn!(%error, "an outdated item could not be removed");
        }
        let bad = BadCommand {
            skip: Some(block.len),
            ..BadCommand::new(text)
        };
        self.refuse(bad, block.noreply, consumed, reply)
    }

    /// Handles the first command of a connection to a server with users: a `set` whose data is a name and a
    /// password.
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
        let Command::Change(ChangeCommand::Store(storage)) = command else {
            let skip = match command {
                Command::Change(ChangeCommand::MetaSet(_, len)) => Some(*len),
                _ => None,
            };
            return self.refuse(bad("CLIENT_ERROR unauthenticated", skip), false, consumed, reply);
        };
        if storage.mode != StoreMode::Set {
            let unauthenticated = bad("CLIENT_ERROR unauthenticated", Some(storage.len));
            return self.refuse(unauthenticated, false, consumed, reply);
        }
        if storage.len > MAX_AUTH_BYTES {
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
