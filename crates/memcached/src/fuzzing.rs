//! Entry points for fuzzing: the parser, and a session over a pool in DRAM.
//!
//! They are no part of the interface: the module exists with `cfg(fuzzing)`, which `cargo fuzz` sets, and in
//! tests of this crate.

use std::sync::Arc;

use halocline_media::{Dram, Medium};
use halocline_pool::Pool;

use crate::items::Items;
use crate::protocol;
use crate::replies::Next;
use crate::server::Shared;
use crate::session::{Served, Session};
use crate::settings::ServerSettings;
use crate::workers::Workers;

/// The time at which the clock stands, in ms since 1970.
const NOW: u64 = 1_800_000_000_000;

/// Parses a line. It must not panic.
pub fn parse(line: &[u8]) {
    // A bad line is as good as any other here.
    let _ = protocol::parse(line);
}

/// Returns the state of a server that listens nowhere, over a new pool on a medium.
pub(crate) fn shared_on(medium: impl Into<Medium>) -> Arc<Shared> {
    let opened = Pool::create_on(medium).map_err(Into::into).and_then(|pool| {
        let items = Items::open_quietly(&pool, Arc::new(|| NOW))?;
        Ok::<_, crate::MemcachedError>((pool, items))
    });
    let (pool, items) = opened.unwrap_or_else(|error| panic!("{error}"));
    let settings = ServerSettings::new("pool");
    Arc::new(Shared::new(
        pool,
        items,
        settings,
        None,
        Workers::default(),
        false,
    ))
}

/// Sends bytes to a session in pieces that end at `ends`, which ascend. Returns the replies.
///
/// # Panics
/// If the session goes on with bytes for which it has said that it needs more.
pub fn converse(bytes: &[u8], ends: &[usize]) -> Vec<u8> {
    let medium = Dram::new(0).unwrap_or_else(|error| panic!("{error}"));
    let mut session = Session::new(shared_on(medium));
    let (mut replies, mut start, mut needed) = (Vec::new(), 0, 0);
    for end in ends.iter().copied().chain([bytes.len()]) {
        loop {
            let received = bytes.get(start..end).unwrap_or_default();
            let mut reply = Vec::new();
            let Served {
                consumed,
                next,
                needs,
            } = session.serve(received, &mut reply);
            assert!(
                received.len() >= needed || consumed == 0,
                "{consumed} bytes are done with, {needed} were needed of {}",
                received.len()
            );
            start += consumed;
            replies.append(&mut reply);
            if next != Next::Continue {
                return replies;
            }
            if let Some(needs) = needs {
                needed = needs;
                break;
            }
            needed = 0;
        }
    }
    replies
}

/// Returns replies without statistics, which differ from time to time.
pub fn comparable(replies: &[u8]) -> Vec<u8> {
    let lines = replies.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.starts_with(b"STAT "))
        .flatten()
        .copied()
        .collect()
}

/// Converses in one piece and in pieces, and compares the replies.
///
/// # Panics
/// If they differ.
pub fn compare_pieces(bytes: &[u8], ends: &[usize]) {
    let whole = comparable(&converse(bytes, &[]));
    let pieces = comparable(&converse(bytes, ends));
    assert!(
        whole == pieces,
        "replies differ in pieces that end at {ends:?}: {} and {}",
        whole.escape_ascii(),
        pieces.escape_ascii()
    );
}
