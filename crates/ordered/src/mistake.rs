//! Mistakes that a test can put in, to prove that it would notice them. In a build without tests there are none.

/// A rule of this crate to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// An insert stores the header before the entry, where both are in one line.
    HeaderBeforeEntry,
    /// An insert does not wait for the entry before it stores the header of another line.
    EntryUnfenced,
    /// An insert does not flush the entry.
    EntryUnflushed,
    /// Moved entries are not copied before their old slots are cleared.
    MoveWithoutCopy,
    /// A split switches the header before the new leaf is durable.
    NewLeafUnfenced,
    /// A split does not flush the new leaf.
    NewLeafUnflushed,
    /// A split stores the link to the new leaf after the header.
    LinkAfterHeader,
    /// A split overwrites the link that is live.
    LinkOverLive,
    /// A split turns the link over before the entries that have moved are cleared.
    AltFlippedEarly,
    /// Entries that a split has moved stay in the old leaf's other blocks after a crash.
    KeepStale,
    /// An empty leaf is handed out again before it is durably unlinked.
    FreeBeforeUnlink,
    /// A leaf takes its right neighbour's entries, and the link over it is not flushed.
    AbsorbUnflushed,
    /// A bulk load publishes leaves that are not durable.
    LoadUnflushed,
    /// An update is acknowledged before it is durable.
    UpdateUnfenced,
    /// A removal is acknowledged before it is durable.
    RemoveUnfenced,
    /// A lock bit that is found in a leaf is taken for an entry's.
    TrustLockBit,
}

/// Whether the running test has put this mistake in.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn made(_mistake: Mistake) -> bool {
    false
}

#[cfg(test)]
pub(crate) use tests::{made, with};

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::Mistake;

    thread_local! {
        static MADE: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    pub(crate) fn made(mistake: Mistake) -> bool {
        MADE.get() == Some(mistake)
    }

    /// Runs something with a mistake in this thread.
    pub(crate) fn with<T>(mistake: Mistake, run: impl FnOnce() -> T) -> T {
        MADE.set(Some(mistake));
        let result = run();
        MADE.set(None);
        result
    }
}
