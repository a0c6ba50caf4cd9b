//! The memcached protocol: the classic text commands and the meta commands (`doc/protocol.txt` of memcached
//! 1.6).
//!
//! A request is a line and, for commands that store something, a block of data after it. [`parse`] reads a
//! line alone; the [connection](crate::connection) reads the block. Nothing here knows of items.

mod classic;
mod meta;
mod tokens;

pub(crate) use classic::{Retrieval, Storage};
pub(crate) use meta::{Meta, MetaFlag};

/// Longest key in bytes.
pub(crate) const MAX_KEY: usize = 250;

/// A parsed command line. Keys and tokens are those of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(Retrieval<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store(Storage<'a>),
    Delete {
        key: &'a [u8],
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        key: &'a [u8],
        delta: u64,
        decrement: bool,
        noreply: bool,
    },
    Touch {
        key: &'a [u8],
        exptime: i64,
        noreply: bool,
    },
    FlushAll {
        delay: i64,
        noreply: bool,
    },
    Version,
    Verbosity {
        noreply: bool,
    },
    /// `stats`, with its arguments.
    Stats(Vec<&'a [u8]>),
    Shutdown {
        graceful: bool,
    },
    Quit,
    MetaGet(Meta<'a>),
    /// `ms`, with the length of the data block.
    MetaSet(Meta<'a>, u64),
    MetaDelete(Meta<'a>),
    MetaArithmetic(Meta<'a>),
    MetaDebug {
        key: &'a [u8],
        is_base64: bool,
    },
    MetaNoop,
}

/// The block of data after the line of a storage command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataBlock<'a> {
    pub(crate) key: &'a [u8],
    /// Its length without the line end.
    pub(crate) len: u64,
    /// The command stores it whatever is there.
    pub(crate) is_set: bool,
    pub(crate) noreply: bool,
}

impl Command<'_> {
    /// Returns the block of data that follows, if the command stores one.
    pub(crate) fn block(&self) -> Option<DataBlock<'_>> {
        match self {
            Command::Store(storage) => Some(DataBlock {
                key: storage.key,
                len: storage.len,
                is_set: storage.mode == StoreMode::Set,
                noreply: storage.noreply,
            }),
            Command::MetaSet(meta, len) => Some(DataBlock {
                key: &meta.key,
                len: *len,
                is_set: true,
                noreply: false,
            }),
            _ => None,
        }
    }

    /// Returns true if the command may change items, of which it names the keys.
    pub(crate) fn changes_items(&self) -> bool {
        match self {
            Command::Get(retrieval) => retrieval.exptime.is_some(),
            Command::MetaGet(meta) => meta.ttl.is_some() || meta.vivify.is_some() || meta.recache.is_some(),
            Command::Store(_)
            | Command::Delete { .. }
            | Command::Arithmetic { .. }
            | Command::Touch { .. }
            | Command::MetaSet(..)
            | Command::MetaDelete(_)
            | Command::MetaArithmetic(_) => true,
            _ => false,
        }
    }

    /// Returns true if the client wants no reply, also if the command fails.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Command::Store(storage) => storage.noreply,
            Command::Delete { noreply, .. }
            | Command::Arithmetic { noreply, .. }
            | Command::Touch { noreply, .. }
            | Command::FlushAll { noreply, .. }
            | Command::Verbosity { noreply } => *noreply,
            _ => false,
        }
    }

    /// Returns true if the reply has values of items.
    pub(crate) fn returns_values(&self) -> bool {
        matches!(self, Command::Get(_) | Command::MetaGet(_))
    }
}

/// A mode in which a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// A line that is no valid command. Displayed as the reply that memcached sends, without the line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reply}")]
pub(crate) struct BadCommand {
    pub(crate) reply: &'static str,
    /// Length of the data block that follows and is skipped, if the line says it.
    pub(crate) skip: Option<u64>,
    /// The client wants no reply.
    pub(crate) is_silent: bool,
    /// Where the command ends is known. Otherwise a block of data may follow whose length is not.
    pub(crate) has_known_end: bool,
}

impl BadCommand {
    pub(crate) const UNKNOWN: BadCommand = BadCommand::new("ERROR");
    pub(crate) const FORMAT: BadCommand = BadCommand::new("CLIENT_ERROR bad command line format");
    /// A storage command that does not say how long its block is.
    pub(crate) const SHORT_STORE: BadCommand = BadCommand {
        has_known_end: false,
        ..BadCommand::FORMAT
    };
    pub(crate) const EXPTIME: BadCommand = BadCommand::new("CLIENT_ERROR invalid exptime argument");

    pub(crate) const fn new(reply: &'static str) -> BadCommand {
        BadCommand {
            reply,
            skip: None,
            is_silent: false,
            has_known_end: true,
        }
    }

    /// Returns the error with a data block of `data` bytes to skip.
    const fn skipping(self, data: u64) -> BadCommand {
        BadCommand {
            skip: Some(data),
            ..self
        }
    }
}

/// Parses a line without its end.
///
/// # Errors
/// The reply to a line that is no valid command.
pub(crate) fn parse(line: &[u8]) -> Result<Command<'_>, BadCommand> {
    let mut words = tokens::words(line);
    let name = words.next().ok_or(BadCommand::FORMAT)?;
    if line.len() < 2 {
        // As in memcached, where no command is that short.
        return Err(BadCommand::FORMAT);
    }
    let rest: Vec<&[u8]> = words.collect();
    match name {
        b"mg" => Ok(Command::MetaGet(Meta::parse(&rest, 1)?)),
        b"ms" => meta::set(&rest),
        b"md" => Ok(Command::MetaDelete(Meta::parse(&rest, 1)?)),
        b"ma" => meta::arithmetic(&rest),
        b"mn" => Ok(Command::MetaNoop),
        b"me" => meta::debug(&rest),
        _ => classic::parse(name, rest),
    }
}

/// Returns a key that a client may use.
///
/// # Errors
/// [`BadCommand::FORMAT`] if it is too long.
fn key(word: &[u8]) -> Result<&[u8], BadCommand> {
    match word.len() {
        1..=MAX_KEY => Ok(word),
        _ => Err(BadCommand::FORMAT),
    }
}
