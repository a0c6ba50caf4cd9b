//! Fault injection for the LB+-Tree.

halocline_faults::faults! {
    /// Rules of the LB+-Tree that a test can break.
    pub(crate) enum LbFault {
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
}
