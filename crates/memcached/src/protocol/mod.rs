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
    /// `get`, `gets`.
    Get(Retrieval<'a>),
    Change(ChangeCommand<'a>),
    Direct(DirectCommand<'a>),
}

/// A command that may change items, of which it names the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeCommand<'a> {
    /// `gat`, `gats`, with the new time of expiry of each key.
    GetAndTouch {
        retrieval: Retrieval<'a>,
        exptime: i64,
    },
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
    /// `mg` with a flag for which the item may change.
    MetaGet(Meta<'a>),
    /// `ms`, with the length of the data block.
    MetaSet(Meta<'a>, u64),
    MetaDelete(Meta<'a>),
    MetaArithmetic(Meta<'a>),
}

/// A command that is executed apart from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DirectCommand<'a> {
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
    /// `mg` that leaves the item as it is.
    MetaGet(Meta<'a>),
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

impl ChangeCommand<'_> {
    /// Returns the block of data that follows, if the command stores one.
    pub(crate) fn block(&self) -> Option<DataBlock<'_>> {
        match self {
            ChangeCommand::Store(storage) => Some(DataBlock {
                key: storage.key,
                len: storage.len,
                is_set: storage.mode == StoreMode::Set,
                noreply: storage.noreply,
            }),
            ChangeCommand::MetaSet(meta, len) => Some(DataBlock {
                key: &meta.key,
                len: *len,
                is_set: true,
                noreply: false,
            }),
            _ => None,
        }
    }

    /// Returns the number of keys.
    pub(crate) fn keys(&self) -> usize {
        match self {
            ChangeCommand::GetAndTouch { retrieval, .. } => retrieval.keys.len(),
            _ => 1,
        }
    }

    /// Returns true if the client wants no reply, also if the command fails.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            ChangeCommand::Store(storage) => storage.noreply,
            ChangeCommand::Delete { noreply, .. }
            | ChangeCommand::Arithmetic { noreply, .. }
            | ChangeCommand::Touch { noreply, .. } => *noreply,
            _ => false,
        }
    }

    /// Returns true if the reply has values of items.
    pub(crate) fn returns_values(&self) -> bool {
        matches!(
            self,
            ChangeCommand::GetAndTouch { .. } | ChangeCommand::MetaGet(_)
        )
    }
}

impl DirectCommand<'_> {
    /// Returns true if the client wants no reply, also if the command fails.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            DirectCommand::FlushAll { noreply, .. } | DirectCommand::Verbosity { noreply } => *noreply,
            _ => false,
        }
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
        b"mg" => meta::get(&rest),
        b"ms" => meta::set(&rest).map(Command::Change),
        b"md" => Ok(Command::Change(ChangeCommand::MetaDelete(Meta::parse(&rest, 1)?))),
        b"ma" => meta::arithmetic(&rest).map(Command::Change),
        b"mn" => Ok(Command::Direct(DirectCommand::MetaNoop)),
        b"me" => meta::debug(&rest).map(Command::Direct),
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
