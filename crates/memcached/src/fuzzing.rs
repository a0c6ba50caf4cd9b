//! Entry points for fuzzing: the parser, and a session over a pool in DRAM.
//!
//! They are no part of the interface: the module exists with `cfg(fuzzing)`, which `cargo fuzz` sets, and in
//! tests of this crate.

use std::sync::Arc;

use halocline_media::{Dram, Medium};
use halocline_pool::Pool;
use halocline_store::{Clock, StoresOptions};

use crate::MemcachedError;
use crate::items::{HotItems, Items};
use crate::protocol;
use crate::replies::Next;
use crate::server::Shared;
use crate::session::{Served, Session};
use crate::settings::{Durability, ServerSettings};
use crate::storage::{ItemStorage, StoreStorage};
use crate::workers::Workers;

/// The time at which the clock stands, in ms since 1970.
const NOW: u64 = 1_800_000_000_000;
/// Bytes of the copies of hot items.
const HOT_ITEMS: u64 = 1 << 20;

/// Parses a line. It must not panic.
pub fn parse(line: &[u8]) {
    // A bad line is as good as any other here.
    let _ = protocol::parse(line);
}

/// Returns the state of a server that listens nowhere, over a key-value store in a new pool on a medium.
pub(crate) fn shared_on(medium: impl Into<Medium>) -> Arc<Shared> {
    let opened = Pool::create_on(medium).map_err(Into::into).and_then(|pool| {
        // Without a thread of its own, the stores do the same in each run.
        let options = StoresOptions::default().with_background(false);
        StoreStorage::open(&pool, Durability::Operation, options.with_clock(clock()))
    });
    let storage = opened.unwrap_or_else(|error: MemcachedError| panic!("{error}"));
    shared_over(Arc::new(storage))
}

/// Returns the state of a server that listens nowhere, over a storage. Copies of hot items are always used.
pub(crate) fn shared_over(storage: Arc<dyn ItemStorage>) -> Arc<Shared> {
    let hot = HotItems::new(HOT_ITEMS).unwrap_or_else(|error| panic!("{error}"));
    shared_with(storage, clock(), Some(hot.always_on()))
}

/// Returns the state of a server that listens nowhere, over a storage, with a clock.
pub(crate) fn shared_with(storage: Arc<dyn ItemStorage>, clock: Clock, hot: Option<HotItems>) -> Arc<Shared> {
    let items = Items::open(storage, clock, None, None, hot);
    let items = items.unwrap_or_else(|error: MemcachedError| panic!("{error}"));
    let (settings, workers) = (ServerSettings::new("pool"), Workers::default());
    Arc::new(Shared::new(items, settings, None, workers, false))
}

/// Returns a clock that stands.
pub(crate) fn clock() -> Clock {
    Arc::new(|| NOW)
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
                ..
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
