//! Micro-logs: one line each in the tree's root. They make a change of both the bitmap and the link of a leaf
//! atomic.
//!
//! The word that names the leaf is stored last and validates the log. The log is durable before the
//! leaf is changed, and durably cleared before any other thread changes the leaf. After a crash there
//! are two cases. If neither the bitmap nor the link has changed, the change has not begun, and the
//! data that the log refers to may not be durable. If one of them has changed, everything before it is
//! durable, and both are stored again. Which logs are in use is tracked in DRAM only.

use std::sync::atomic::{AtomicU32, Ordering};

use halocline_media::{LINE, MediaError};
use halocline_pool::Slab;

use crate::TreeError;
use crate::hybrid::LeafRef;
use crate::locks::Backoff;
use crate::open_mode::begin_repair;

use super::fault::{FpFault, injected};
use super::layout::{LOG, LOG_BITMAP, LOG_RIGHT, LOGS, LOGS_AT};
use super::leaf::FpLeafRef;

/// A kind of change to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum LeafChange {
    /// Entries have been copied to a new leaf on the right.
    Split = 1,
    /// The leaf is empty and takes over the entries of its right neighbour, which is then removed.
    TakeOver = 2,
}

/// Mask of the kind of change in the low bits of a leaf's offset.
const CHANGE: u64 = 0xFF;

/// The micro-logs of a tree that are in use.
#[derive(Debug, Default)]
pub(crate) struct MicroLogs {
    /// Bitmap of the logs in use.
    used: AtomicU32,
    /// Position of the next attempt. It rotates, so that threads try different logs.
    turn: AtomicU32,
}

/// A reserved micro-log. Dropping the guard releases it.
pub(crate) struct MicroLogGuard<'a> {
    logs: &'a MicroLogs,
    slab: &'a Slab,
    index: u32,
}

impl MicroLogs {
    /// Reserves an unused micro-log. A holder never waits for another thread, so the wait is short.
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
    /// Stores and flushes a description of the change. The caller issues the fence.
    pub(crate) fn begin(&self, change: LeafChange, leaf: FpLeafRef<'_>, right: u64) {
        let (medium, at) = (self.slab.medium(), place(self.slab, self.index));
        if injected(FpFault::LogLeafFirst) {
            medium.store_u64(at, leaf.0.offset | change as u64);
        }
        medium.store_u64(at + LOG_RIGHT, right);
        medium.store_u64(at + LOG_BITMAP, leaf.head().used());
        // Last, because this word makes the log valid. All words are in one line, whose stores arrive in
        // order.
        medium.store_u64(at, leaf.0.offset | change as u64);
        medium.flush(at, LINE);
    }

    /// Clears the log and flushes it, once the change is durable. The caller issues the fence.
    pub(crate) fn end(&self) {
        let (medium, at) = (self.slab.medium(), place(self.slab, self.index));
        medium.store_u64(at, 0);
        if !injected(FpFault::LogClearedLate) {
            medium.flush(at, LINE);
        }
    }
}

fn place(slab: &Slab, index: u32) -> u64 {
    const { assert!(LOGS_AT + LOGS as u64 * LOG <= Slab::ROOT_LEN) };
    slab.root() + LOGS_AT + u64::from(index) * LOG
}

/// Completes the changes that a crash has interrupted. Another crash while it runs does no harm.
///
/// # Errors
/// [`TreeError::Damaged`] if a log makes no sense.
pub(crate) fn replay(slab: &Slab) -> Result<(), TreeError> {
    if injected(FpFault::IgnoreLogs) {
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
            return Err(damaged("it is a log whose links do not lead to nodes"));
        };
        if slab.sums().is_some() {
            return Err(damaged("it is a log in use, although the tree was closed"));
        }
        begin_repair(slab)?;
        let node = |offset| FpLeafRef(LeafRef { medium, offset });
        redo(change, node(leaf), node(right), medium.load_u64(at + LOG_BITMAP))?;
        medium.store_u64(at, 0);
        medium.persist(at, 8)?;
    }
    Ok(())
}

/// Stores the final bitmap and link of a leaf if either of them has been changed.
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
