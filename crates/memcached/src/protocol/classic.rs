//! The classic text commands.

use std::ops::Range;

use super::tokens::number;
use super::{BadCommand, ChangeCommand, Command, DirectCommand, StoreMode, key};

/// `get` and its variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retrieval<'a> {
    pub(crate) keys: Vec<&'a [u8]>,
    /// The reply has the cas values.
    pub(crate) with_cas: bool,
    /// The reply ends with these keys. Otherwise others follow.
    pub(crate) ends: bool,
}

impl<'a> Retrieval<'a> {
    /// Returns the retrieval of some of the keys.
    pub(crate) fn part(&self, keys: Range<usize>) -> Retrieval<'a> {
        Retrieval {
            ends: self.ends && keys.end == self.keys.len(),
            keys: self.keys[keys].to_vec(),
            with_cas: self.with_cas,
        }
    }
}

/// A storage command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storage<'a> {
    pub(crate) mode: StoreMode,
    pub(crate) key: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) exptime: i64,
    /// Length of the data block.
    pub(crate) len: u64,
    /// The value that the item must have, for `cas`.
    pub(crate) cas: Option<u64>,
    pub(crate) noreply: bool,
}

/// Longest data block that a line can announce.
const MAX_BLOCK: u64 = i32::MAX as u64 - 2;

/// Parses a command by its name and its other words.
pub(super) fn parse<'a>(name: &[u8], mut rest: Vec<&'a [u8]>) -> Result<Command<'a>, BadCommand> {
    // A block whose length is not known cannot be skipped: the client has to learn that it is taken for
    // commands.
    let is_silent = rest.last() == Some(&&b"noreply"[..]);
    let silent = |bad: BadCommand| BadCommand {
        is_silent: is_silent && bad.has_known_end,
        ..bad
    };
    let parsed = match name {
        b"get" => get(rest, false),
        b"gets" => get(rest, true),
        b"gat" => get_and_touch(rest, false).map(Command::Change),
        b"gats" => get_and_touch(rest, true).map(Command::Change),
        b"set" => storage(StoreMode::Set, rest).map(Command::Change),
        b"add" => storage(StoreMode::Add, rest).map(Command::Change),
        b"replace" => storage(StoreMode::Replace, rest).map(Command::Change),
        b"append" => storage(StoreMode::Append, rest).map(Command::Change),
        b"prepend" => storage(StoreMode::Prepend, rest).map(Command::Change),
        b"cas" => compare_and_set(rest).map(Command::Change),
        b"delete" => delete(rest).map(Command::Change),
        b"incr" => arithmetic(rest, false).map(Command::Change),
        b"decr" => arithmetic(rest, true).map(Command::Change),
        b"touch" => touch(rest).map(Command::Change),
        b"flush_all" => flush_all(rest),
        b"version" => Ok(Command::Direct(DirectCommand::Version)),
        b"verbosity" => {
            let noreply = takes_noreply(&mut rest);
            match rest.first() {
                Some(level) if number::<u32>(level).is_some() => {
                    Ok(Command::Direct(DirectCommand::Verbosity { noreply }))
                }
                _ => Err(BadCommand::FORMAT),
            }
        }
        b"stats" => Ok(Command::Direct(DirectCommand::Stats(rest))),
        b"shutdown" => match rest[..] {
            [] => Ok(Command::Direct(DirectCommand::Shutdown { graceful: false })),
            [b"graceful"] => Ok(Command::Direct(DirectCommand::Shutdown { graceful: true })),
            _ => Err(BadCommand::new("CLIENT_ERROR invalid shutdown mode")),
        },
        b"quit" => Ok(Command::Direct(DirectCommand::Quit)),
        _ => Err(BadCommand::UNKNOWN),
    };
    parsed.map_err(silent)
}

/// Removes a last word `noreply`.
fn takes_noreply(rest: &mut Vec<&[u8]>) -> bool {
    rest.pop_if(|word| *word == b"noreply").is_some()
}

fn get(keys: Vec<&[u8]>, with_cas: bool) -> Result<Command<'_>, BadCommand> {
    if keys.is_empty() {
        return Err(BadCommand::FORMAT);
    }
    keys.iter().try_for_each(|word| key(word).map(|_| ()))?;
    Ok(Command::Get(Retrieval {
        keys,
        with_cas,
        ends: true,
    }))
}

fn get_and_touch(mut rest: Vec<&[u8]>, with_cas: bool) -> Result<ChangeCommand<'_>, BadCommand> {
    if rest.len() < 2 {
        return Err(BadCommand::FORMAT);
    }
    let exptime = exptime(rest.remove(0)).ok_or(BadCommand::EXPTIME)?;
    rest.iter().try_for_each(|word| key(word).map(|_| ()))?;
    let retrieval = Retrieval {
        keys: rest,
        with_cas,
        ends: true,
    };
    Ok(ChangeCommand::GetAndTouch { retrieval, exptime })
}

/// Parses an expiration time, which clients send as a signed 32-bit integer.
fn exptime(word: &[u8]) -> Option<i64> {
    number::<i32>(word).map(i64::from)
}

fn storage(mode: StoreMode, mut rest: Vec<&[u8]>) -> Result<ChangeCommand<'_>, BadCommand> {
    let noreply = takes_noreply(&mut rest);
    // Further words have no meaning, as in memcached.
    let [name, flags, expires, len, ..] = rest[..] else {
        return Err(BadCommand::SHORT_STORE);
    };
    stored(mode, [name, flags, expires, len], None, noreply)
}

fn compare_and_set(mut rest: Vec<&[u8]>) -> Result<ChangeCommand<'_>, BadCommand> {
    let noreply = takes_noreply(&mut rest);
    let [name, flags, expires, len, ..] = rest[..] else {
        return Err(BadCommand::SHORT_STORE);
    };
    let bad = number(len).map_or(BadCommand::SHORT_STORE, |len| BadCommand::FORMAT.skipping(len));
    let cas = rest.get(4).and_then(|cas| number(cas)).ok_or(bad)?;
    stored(StoreMode::Set, [name, flags, expires, len], Some(cas), noreply)
}

fn stored<'a>(
    mode: StoreMode,
    [name, flags, expires, len]: [&'a [u8]; 4],
    cas: Option<u64>,
    noreply: bool,
) -> Result<ChangeCommand<'a>, BadCommand> {
    let len = number(len)
        .filter(|len| *len <= MAX_BLOCK)
        .ok_or(BadCommand::SHORT_STORE)?;
    // From here on it is known how much to skip, so that data is not taken for commands.
    let bad = BadCommand::FORMAT.skipping(len);
    Ok(ChangeCommand::Store(Storage {
        mode,
        key: key(name).map_err(|_| bad)?,
        flags: number(flags).ok_or(bad)?,
        exptime: exptime(expires).ok_or(bad)?,
        len,
        cas,
        noreply,
    }))
}

fn delete(mut rest: Vec<&[u8]>) -> Result<ChangeCommand<'_>, BadCommand> {
    let noreply = takes_noreply(&mut rest);
    // Old clients send a time of 0, the only one that was ever supported.
    match rest[..] {
        [name] | [name, b"0"] => Ok(ChangeCommand::Delete {
            key: key(name)?,
            noreply,
        }),
        [] => Err(BadCommand::FORMAT),
        _ => Err(BadCommand::new(
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
        )),
    }
}

fn arithmetic(mut rest: Vec<&[u8]>, decrement: bool) -> Result<ChangeCommand<'_>, BadCommand> {
    let noreply = takes_noreply(&mut rest);
    let [name, delta, ..] = rest[..] else {
        return Err(BadCommand::FORMAT);
    };
    Ok(ChangeCommand::Arithmetic {
        key: key(name)?,
        delta: number(delta).ok_or(BadCommand::new("CLIENT_ERROR invalid numeric delta argument"))?,
        decrement,
        noreply,
    })
}

fn touch(mut rest: Vec<&[u8]>) -> Result<ChangeCommand<'_>, BadCommand> {
    let noreply = takes_noreply(&mut rest);
    let [name, expires, ..] = rest[..] else {
        return Err(BadCommand::FORMAT);
    };
    Ok(ChangeCommand::Touch {
        key: key(name)?,
        exptime: exptime(expires).ok_or(BadCommand::EXPTIME)?,
        noreply,
    })
}

fn flush_all(mut rest: Vec<&[u8]>) -> Result<Command<'_>, BadCommand> {
    let noreply = takes_noreply(&mut rest);
    let delay = match rest.first() {
        None => 0,
        Some(delay) => exptime(delay).ok_or(BadCommand::EXPTIME)?,
    };
    Ok(Command::Direct(DirectCommand::FlushAll { delay, noreply }))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn storage_commands_have_a_length() {
        let parsed = parse(b"cas k 1 -1 3 18446744073709551615 noreply").unwrap();
        let expected = Storage {
            mode: StoreMode::Set,
            key: b"k",
            flags: 1,
            exptime: -1,
            len: 3,
            cas: Some(u64::MAX),
            noreply: true,
        };
        assert_eq!(parsed, Command::Change(ChangeCommand::Store(expected)));
        for len in ["-1", "2147483647", "4294967295", "x"] {
            assert_eq!(
                parse(format!("set k 0 0 {len} noreply").as_bytes()),
                Err(BadCommand::SHORT_STORE)
            );
        }
        assert_eq!(parse(b"cas k 0 0 6").unwrap_err().skip, Some(6));
        assert_eq!(parse(b"set k 4294967296 0 5").unwrap_err().skip, Some(5));
        assert!(parse(b"set k 0 x 5 noreply").unwrap_err().is_silent);
        assert_eq!(parse(b"set k 0 0"), Err(BadCommand::SHORT_STORE));
        assert!(matches!(
            parse(b"set k 0 0 5 more words"),
            Ok(Command::Change(ChangeCommand::Store(_)))
        ));
        let long = [b"set ".as_slice(), &[b'k'; 251], b" 0 0 7"].concat();
        assert_eq!(parse(&long).unwrap_err().skip, Some(7));
    }

    #[test]
    fn retrievals_name_keys() {
        let Ok(Command::Change(ChangeCommand::GetAndTouch {
            retrieval: found,
            exptime,
        })) = parse(b"gats 10 a b")
        else {
            panic!("a retrieval")
        };
        let found_part = found.part(0..1);
        assert!(found.part(1..2).ends);
        assert_eq!(
            (found.keys, found.with_cas, exptime),
            (vec![&b"a"[..], b"b"], true, 10)
        );
        assert_eq!((found_part.keys, found_part.ends), (vec![&b"a"[..]], false));
        assert_eq!(parse(b"get"), Err(BadCommand::FORMAT));
        assert_eq!(parse(b"gat x a"), Err(BadCommand::EXPTIME));
        let long = [b"get ".as_slice(), &[b'k'; 251]].concat();
        assert_eq!(parse(&long), Err(BadCommand::FORMAT));
    }

    #[test]
    fn other_commands() {
        let deleted = |noreply| Command::Change(ChangeCommand::Delete { key: b"k", noreply });
        assert_eq!(parse(b"delete k"), Ok(deleted(false)));
        assert_eq!(parse(b"delete k 0 noreply"), Ok(deleted(true)));
        assert!(!parse(b"delete k 10").unwrap_err().is_silent);
        assert!(parse(b"delete k 10 noreply").unwrap_err().is_silent);
        assert!(!parse(b"incr k -1").unwrap_err().is_silent);
        assert!(parse(b"incr k -1 noreply").unwrap_err().is_silent);
        assert_eq!(
            parse(b"flush_all -1 noreply"),
            Ok(Command::Direct(DirectCommand::FlushAll {
                delay: -1,
                noreply: true
            }))
        );
        assert_eq!(
            parse(b"shutdown graceful"),
            Ok(Command::Direct(DirectCommand::Shutdown { graceful: true }))
        );
        assert_eq!(parse(b" "), Err(BadCommand::FORMAT));
        for unknown in [&b"GET k"[..], b"nothing"] {
            assert_eq!(parse(unknown), Err(BadCommand::UNKNOWN));
        }
        for short in [&b"touch k"[..], b"verbosity", b"incr k", b"delete", b"x"] {
            assert_eq!(parse(short), Err(BadCommand::FORMAT));
        }
    }
}
