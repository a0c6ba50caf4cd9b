//! Micro-logs: a line each in the tree's root, so that what changes a leaf's bitmap and its link is done wholly or not at all.
//!
//! The words of a log are stored with that of the leaf last, by which it counts. It is durable before the leaf is changed, and durably
//! cleared before anyone else changes the leaf. After a crash: if neither the leaf's bitmap nor its link has changed, nothing
//! has happened, and what the log refers to may not even be durable; if one of them has, all that came before it is durable, and
//! both are stored again. Which logs are in use now is known in DRAM alone.

use std::sync::atomic::{AtomicU32, Ordering};

use halocline_media::{LINE, MediaError};
use halocline_pool::Slab;

use crate::TreeError;
use crate::hybrid::LeafRef;
use crate::locks::Backoff;
use crate::open_mode::may_finish;

use super::layout::{LOG, LOG_BITMAP, LOG_RIGHT, LOGS, LOGS_AT};
use super::leaf::FpLeafRef;
use super::mistake::{Mistake, made};

/// What is done with a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum LeafChange {
    /// Entries have been copied to a new leaf on its right.
    Split = 1,
    /// The leaf, which is empty, gets the entries of the one on its right, which goes.
    TakeOver = 2,
}

/// Below what a leaf's offset is a multiple of.
const CHANGE: u64 = 0xFF;

/// Which logs are in use.
#[derive(Debug, Default)]
pub(crate) struct MicroLogs {
    /// A bit each.
    used: AtomicU32,
    /// How often one was looked for: they are taken in turns, so that threads do not look at the same one.
    turn: AtomicU32,
}

/// A log that is in use; given back when dropped.
pub(crate) struct MicroLogGuard<'a> {
    logs: &'a MicroLogs,
    slab: &'a Slab,
    index: u32,
}

impl MicroLogs {
    /// A log that nobody uses. Whoever has one waits for nobody, so there will be one soon.
    pub(crate) fn take<'a>(&'a self, slab: &'a Slab) -> MicroLogGuard<'a> {
        const { assert!(LOGS == u32::BITS) };
        let mut backoff = Backoff::default();
        loop {
            let index = self.turn.fetch_add(1, Ordering::Relaxed) % LOGS;
            if self.used.fetch_or(1 << index, Ordering::Acquire) >> index & 1 == 0 {
                let logs = self;
                return MicroLogGuard { logs, slab, index };
            }
            backoff.wait();
        }
    }
}

impl Drop for MicroLogGuard<'_> {
    fn drop(&mut self) {
        self.logs.used.fetch_and(!(1 << self.index), Ordering::Release);
    }
}

impl MicroLogGuard<'_> {
    /// Stores and flushes what is going to be done; the fence is the caller's.
    pub(crate) fn begin(&self, change: LeafChange, leaf: FpLeafRef<'_>, right: u64) {
        let (medium, at) = (self.slab.medium(), place(self.slab, self.index));
        if made(Mistake::LogLeafFirst) {
            medium.store_u64(at, leaf.0.offset | change as u64);
        }
        medium.store_u64(at + LOG_RIGHT, right);
        medium.store_u64(at + LOG_BITMAP, leaf.head().used());
        medium.store_u64(at, leaf.0.offset | change as u64);
        medium.flush(at, LINE);
    }

    /// The same once it is durable that it is done.
    pub(crate) fn end(&self) {
        let (medium, at) = (self.slab.medium(), place(self.slab, self.index));
        medium.store_u64(at, 0);
        if !made(Mistake::LogClearedLate) {
            medium.flush(at, LINE);
        }
    }
}

fn place(slab: &Slab, index: u32) -> u64 {
    const { assert!(LOGS_AT + LOGS as u64 * LOG <= Slab::ROOT_LEN) };
    slab.root() + LOGS_AT + u64::from(index) * LOG
}

/// Does again what a crash has interrupted. A crash on the way does no harm.
///
/// # Errors
/// [`TreeError::Damaged`] if a log makes no sense.
pub(crate) fn replay(slab: &Slab) -> Result<(), TreeError> {
    if made(Mistake::IgnoreLogs) {
        return Ok(());
    }
    let medium = slab.medium();
    for index in 0..LOGS {
        let at = place(slab, index);
        let word = medium.load_u64(at);
        if word == 0 {
            continue;
        }
        let (leaf, right) = (word & !CHANGE, medium.load_u64(at + LOG_RIGHT));
        let change = match word & CHANGE {
            1 => Some(LeafChange::Split),
            2 => Some(LeafChange::TakeOver),
            _ => None,
        };
        let damaged = |reason: &str| TreeError::Damaged {
            name: slab.name().to_owned(),
            node: at,
            reason: reason.to_owned(),
        };
        let Some(change) = change.filter(|_| slab.is_node(leaf) && slab.is_node(right)) else {
            return Err(damaged("a log of a split leads nowhere"));
        };
        if slab.sums().is_some() {
            return Err(damaged("it is a log in use, in a tree that was closed"));
        }
        may_finish(slab)?;
        let node = |offset| FpLeafRef(LeafRef { medium, offset });
        redo(change, node(leaf), node(right), medium.load_u64(at + LOG_BITMAP))?;
        medium.store_u64(at, 0);
        medium.persist(at, 8)?;
    }
    Ok(())
}

/// Stores the bitmap and the link of a leaf that are to be, if either has been changed.
fn redo(
    change: LeafChange,
    leaf: FpLeafRef<'_>,
    right: FpLeafRef<'_>,
    before: u64,
) -> Result<(), MediaError> {
    let (head, next) = (leaf.head(), leaf.next());
    match change {
        LeafChange::Split if head.used() != before || next == right.0.offset => {
            let least = right.entries(&right.head()).map(|entry| entry.key).min();
            let moved = leaf
                .entries(&head)
                .filter(|entry| least.is_some_and(|least| entry.key >= least))
                .fold(0, |slots, entry| slots | 1 << entry.slot);
            leaf.store_bitmap(head.used() & !moved);
            leaf.flush_head();
            leaf.set_next(right.0.offset);
        }
        LeafChange::TakeOver if head.used() != before || next != right.0.offset => {
            leaf.store_head(&right.head());
            leaf.flush_head();
            leaf.set_next(right.next());
        }
        _ => return Ok(()),
    }
    leaf.0.medium.fence()
}
