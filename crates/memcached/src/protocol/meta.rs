//! The meta commands: a key and flags of one letter each, which may have a token.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::tokens::number;
use super::{BadCommand, ChangeCommand, Command, DirectCommand, MAX_KEY, StoreMode, key};

/// Longest token that is sent back: in memcached, 32 bytes with its letter.
const MAX_OPAQUE: usize = 31;

/// Most words of a command, with its name.
const MAX_WORDS: usize = 20;

const TOKEN: BadCommand = BadCommand::new("CLIENT_ERROR bad token in command line format");
const OPAQUE: BadCommand = BadCommand::new("CLIENT_ERROR opaque token too long");
const INVALID: BadCommand = BadCommand::new("CLIENT_ERROR invalid flag");
const ARITHMETIC: BadCommand = BadCommand::new("CLIENT_ERROR invalid or duplicate flag");

/// A flag whose reply depends on the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaFlag<'a> {
    /// `k`: the key.
    Key,
    /// `O`: the token, as it was sent.
    Opaque(&'a [u8]),
    /// `c`: the cas value.
    Cas,
    /// `f`: the client's flags.
    ClientFlags,
    /// `h`: whether it was hit before.
    Hit,
    /// `l`: seconds since the last access.
    LastAccess,
    /// `s`: size of the value.
    Size,
    /// `t`: remaining seconds.
    Ttl,
}

/// The order of flags that set, test and return times, as far as it matters: each sees what those before it
/// have set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TimeOrder {
    /// `T` after `N`.
    pub(crate) ttl_after_vivify: bool,
    /// `T` after `R`.
    pub(crate) ttl_after_recache: bool,
    /// `T` after `t`.
    pub(crate) ttl_after_report: bool,
    /// `N` after `t`.
    pub(crate) vivify_after_report: bool,
}

/// A meta command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meta<'a> {
    /// The decoded key.
    pub(crate) key: Cow<'a, [u8]>,
    /// The key as it was sent.
    pub(crate) sent_key: &'a [u8],
    /// `b`: the key was sent as base64.
    pub(crate) is_base64: bool,
    /// Flags of the reply, in order.
    pub(crate) returned: Vec<MetaFlag<'a>>,
    /// `v`.
    pub(crate) value: bool,
    /// `q`.
    pub(crate) quiet: bool,
    /// `u`.
    pub(crate) no_bump: bool,
    /// `I`.
    pub(crate) invalidate: bool,
    /// `x`.
    pub(crate) remove_value: bool,
    /// `C`: the cas value that the item must have.
    pub(crate) cas: Option<u64>,
    /// `E`: the cas value that it gets.
    pub(crate) new_cas: Option<u64>,
    /// `F`.
    pub(crate) client_flags: u32,
    /// `T`, `N`, `R`: times of expiry, as clients send them.
    pub(crate) ttl: Option<i64>,
    pub(crate) vivify: Option<i64>,
    pub(crate) recache: Option<i64>,
    pub(crate) order: TimeOrder,
    /// `M`.
    pub(crate) mode: Option<u8>,
    /// `J`.
    pub(crate) initial: u64,
    /// `D`.
    pub(crate) delta: Option<u64>,
}

impl<'a> Meta<'a> {
    /// Parses the words after the name of a command: the key, `first - 1` others, and flags.
    pub(super) fn parse(rest: &[&'a [u8]], first: usize) -> Result<Meta<'a>, BadCommand> {
        let flags = rest.get(first..).unwrap_or_default();
        let can_be_a_flag = |flag: &&[u8]| matches!(flag.first(), Some(b'A'..=b'z' | b'0'..=b'9'));
        if !flags.iter().all(can_be_a_flag) {
            return Err(BadCommand::FORMAT);
        }
        let sent_key = key(rest.first().ok_or(BadCommand::FORMAT)?)?;
        if 1 + rest.len() > MAX_WORDS {
            return Err(BadCommand::new("CLIENT_ERROR options flags are too long"));
        }
        let mut meta = Meta {
            key: Cow::Borrowed(sent_key),
            sent_key,
            ..Meta::default()
        };
        let mut seen = 0_u128;
        // A wrong token is the less important fault than a flag that is none, or there twice.
        let mut bad_token = None;
        for flag in flags {
            let (Some(letter), token) = (flag.first(), flag.get(1..).unwrap_or_default()) else {
                continue;
            };
            let bit = 1_u128 << (letter & 0x7f);
            if seen & bit != 0 {
                return Err(BadCommand::new("CLIENT_ERROR duplicate flag"));
            }
            seen |= bit;
            match meta.set(*letter, token) {
                Err(bad) if bad == INVALID => return Err(bad),
                Err(bad) => bad_token = Some(bad),
                Ok(()) => {}
            }
        }
        bad_token.map_or(Ok(meta), Err)
    }

    fn set(&mut self, letter: u8, token: &'a [u8]) -> Result<(), BadCommand> {
        let time = || number::<i32>(token).map(i64::from).ok_or(TOKEN);
        match letter {
            b'b' => {
                let decoded = STANDARD.decode(self.sent_key).ok();
                let decoded = decoded.filter(|key| !key.is_empty() && key.len() <= MAX_KEY);
                let undecodable = BadCommand::new("CLIENT_ERROR error decoding key");
                self.key = Cow::Owned(decoded.ok_or(undecodable)?);
                self.is_base64 = true;
            }
            b'k' => self.returned.push(MetaFlag::Key),
            b'c' => self.returned.push(MetaFlag::Cas),
            b'f' => self.returned.push(MetaFlag::ClientFlags),
            b'h' => self.returned.push(MetaFlag::Hit),
            b'l' => self.returned.push(MetaFlag::LastAccess),
            b's' => self.returned.push(MetaFlag::Size),
            b't' => self.returned.push(MetaFlag::Ttl),
            b'O' if token.len() <= MAX_OPAQUE => self.returned.push(MetaFlag::Opaque(token)),
            b'O' => return Err(OPAQUE),
            // Hints for proxies.
            b'P' | b'L' => {}
            b'v' => self.value = true,
            b'q' => self.quiet = true,
            b'u' => self.no_bump = true,
            b'I' => self.invalidate = true,
            b'x' => self.remove_value = true,
            b'C' => self.cas = Some(number(token).ok_or(TOKEN)?),
            b'E' => self.new_cas = Some(number(token).ok_or(TOKEN)?),
            b'F' => self.client_flags = number(token).ok_or(BadCommand::FORMAT)?,
            b'T' => {
                self.ttl = Some(time()?);
                self.order.ttl_after_vivify = self.vivify.is_some();
                self.order.ttl_after_recache = self.recache.is_some();
                self.order.ttl_after_report = self.returned.contains(&MetaFlag::Ttl);
            }
            b'N' => {
                self.vivify = Some(time()?);
                self.order.vivify_after_report = self.returned.contains(&MetaFlag::Ttl);
            }
            b'R' => self.recache = Some(time()?),
            b'M' => self.mode = Some(token.first().copied().unwrap_or(0)),
            b'J' => {
                let invalid = BadCommand::new("CLIENT_ERROR invalid numeric initial value");
                self.initial = number(token).ok_or(invalid)?;
            }
            b'D' => {
                let invalid = BadCommand::new("CLIENT_ERROR invalid numeric delta value");
                self.delta = Some(number(token).ok_or(invalid)?);
            }
            _ => return Err(INVALID),
        }
        Ok(())
    }

    /// Returns the time of expiry of an item that is created: `N`, or `T` after it.
    pub(crate) fn vivified(&self) -> Option<i64> {
        match self.ttl.filter(|_| self.order.ttl_after_vivify) {
            None => self.vivify,
            ttl => ttl,
        }
    }

    /// Returns the time that `t` returns of an item that is created: that of the last of `N` and `T` before
    /// it.
    pub(crate) fn reported_of_created(&self) -> Option<i64> {
        let vivify = self.vivify.filter(|_| !self.order.vivify_after_report);
        let ttl = self.ttl.filter(|_| !self.order.ttl_after_report);
        match (vivify, ttl) {
            (Some(_), Some(ttl)) if self.order.ttl_after_vivify => Some(ttl),
            (None, ttl) => ttl,
            (vivify, _) => vivify,
        }
    }

    /// Returns the mode of `ms`.
    pub(crate) fn store_mode(&self) -> Option<StoreMode> {
        match self.mode {
            None | Some(b'S') => Some(StoreMode::Set),
            Some(b'E') => Some(StoreMode::Add),
            Some(b'A') => Some(StoreMode::Append),
            Some(b'P') => Some(StoreMode::Prepend),
            Some(b'R') => Some(StoreMode::Replace),
            Some(_) => None,
        }
    }

    /// Returns true if `ma` decrements.
    pub(crate) fn decrements(&self) -> bool {
        matches!(self.mode, Some(b'D' | b'-'))
    }
}

/// Parses the arguments of `mg KEY FLAGS`.
pub(super) fn get<'a>(rest: &[&'a [u8]]) -> Result<Command<'a>, BadCommand> {
    let meta = Meta::parse(rest, 1)?;
    let may_change = meta.ttl.is_some() || meta.vivify.is_some() || meta.recache.is_some();
    Ok(if may_change {
        Command::Change(ChangeCommand::MetaGet(meta))
    } else {
        Command::Direct(DirectCommand::MetaGet(meta))
    })
}

/// Parses the arguments of `ms KEY LENGTH FLAGS`.
pub(super) fn set<'a>(rest: &[&'a [u8]]) -> Result<ChangeCommand<'a>, BadCommand> {
    let len = rest.get(1).and_then(|len| number::<i32>(len));
    let len = len.filter(|len| *len <= i32::MAX - 2);
    let len = len.and_then(|len| u64::try_from(len).ok());
    let len = len.ok_or(BadCommand::SHORT_STORE)?;
    let meta = Meta::parse(rest, 2).map_err(|bad| bad.skipping(len))?;
    match meta.store_mode() {
        Some(_) => Ok(ChangeCommand::MetaSet(meta, len)),
        None => Err(BadCommand::new("CLIENT_ERROR invalid mode for ms M token").skipping(len)),
    }
}

/// Parses the arguments of `ma KEY FLAGS`.
pub(super) fn arithmetic<'a>(rest: &[&'a [u8]]) -> Result<ChangeCommand<'a>, BadCommand> {
    let meta = Meta::parse(rest, 1).map_err(|bad| match bad {
        BadCommand::FORMAT | OPAQUE => bad,
        _ => ARITHMETIC,
    })?;
    match meta.mode {
        None | Some(b'I' | b'+' | b'D' | b'-') => Ok(ChangeCommand::MetaArithmetic(meta)),
        Some(_) => Err(BadCommand::new("CLIENT_ERROR invalid mode for ma M token")),
    }
}

/// Parses the arguments of `me KEY [b]`.
pub(super) fn debug<'a>(rest: &[&'a [u8]]) -> Result<DirectCommand<'a>, BadCommand> {
    let (name, flags) = rest.split_first().ok_or(BadCommand::FORMAT)?;
    Ok(DirectCommand::MetaDebug {
        key: key(name)?,
        is_base64: flags.contains(&&b"b"[..]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn flags_are_kept_in_order() {
        let Ok(Command::Change(ChangeCommand::MetaGet(meta))) = parse(b"mg a2V5 s v b Oxyz k t N30 C5")
        else {
            panic!("a meta get")
        };
        assert_eq!(&meta.key[..], b"key");
        let expected = [
            MetaFlag::Size,
            MetaFlag::Opaque(b"xyz"),
            MetaFlag::Key,
            MetaFlag::Ttl,
        ];
        assert_eq!(meta.returned, expected);
        assert!(meta.value && meta.is_base64 && meta.vivify == Some(30) && meta.cas == Some(5));
    }

    #[test]
    fn some_flags_change_items() {
        let changes = |line: &[u8]| match parse(line) {
            Ok(Command::Change(ChangeCommand::MetaGet(_))) => true,
            Ok(Command::Direct(DirectCommand::MetaGet(_))) => false,
            other => panic!("{other:?}"),
        };
        assert!(changes(b"mg k T0") && changes(b"mg k N0") && changes(b"mg k R0"));
        assert!(!changes(b"mg k s v t E5"));
    }

    #[test]
    fn bad_flags_name_what_is_wrong() {
        let reply = |line: &[u8]| parse(line).unwrap_err().reply;
        assert_eq!(reply(b"mg"), "CLIENT_ERROR bad command line format");
        assert_eq!(reply(b"mg k s s"), "CLIENT_ERROR duplicate flag");
        assert_eq!(reply(b"mg k y"), "CLIENT_ERROR invalid flag");
        for no_flag in [&b"mg k !"[..], b"mg k \xff", b"ms k 1 #", b"ms k 1 Fx"] {
            assert_eq!(reply(no_flag), "CLIENT_ERROR bad command line format");
        }
        // The last wrong token counts, and a wrong flag more.
        assert_eq!(reply(b"mg ? Tx b"), "CLIENT_ERROR error decoding key");
        assert_eq!(
            reply(b"mg ? b Tx"),
            "CLIENT_ERROR bad token in command line format"
        );
        assert_eq!(reply(b"mg ? b y"), "CLIENT_ERROR invalid flag");
        assert_eq!(reply(b"mg ? b"), "CLIENT_ERROR error decoding key");
        assert_eq!(reply(b"mg k Tx"), "CLIENT_ERROR bad token in command line format");
        assert_eq!(reply(b"ma k Dx"), "CLIENT_ERROR invalid or duplicate flag");
        assert_eq!(reply(b"ma k MX"), "CLIENT_ERROR invalid mode for ma M token");
        let opaque = |len| [b"mg k O", &[b'o'; 33][..len]].concat();
        assert_eq!(reply(&opaque(32)), "CLIENT_ERROR opaque token too long");
        assert!(parse(&opaque(31)).is_ok());
    }

    #[test]
    fn a_bad_set_says_what_to_skip() {
        assert_eq!(parse(b"ms k 5 MX").unwrap_err().skip, Some(5));
        for unknown in [&b"ms k S5"[..], b"ms k", b"ms k -1", b"ms k 2147483646"] {
            assert_eq!(parse(unknown).unwrap_err(), BadCommand::SHORT_STORE);
        }
        assert_eq!(parse(b"ms k 5 s s").unwrap_err().skip, Some(5));
        let parsed = parse(b"ms k 0 T-1 F7 I");
        assert!(matches!(
            parsed,
            Ok(Command::Change(ChangeCommand::MetaSet(_, 0)))
        ));
    }
}
