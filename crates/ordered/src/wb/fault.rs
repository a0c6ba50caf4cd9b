//! Fault injection for the wB+-Tree.

halocline_faults::faults! {
    /// Rules of the wB+-Tree that a test can break.
    pub(crate) enum WbFault {
        /// An insert does not flush its entry.
        EntryUnflushed,
        /// An insert stores the bitmap before its entry is durable.
        BitmapUnfenced,
        /// The slot array counts before it is stored.
        BitmapFirst,
        /// The slot array is changed while it counts.
        SlotsStillCount,
        /// A removal is acknowledged before it is durable.
        RemoveUnfenced,
        /// An update is acknowledged before it is durable.
        UpdateUnfenced,
        /// The slot array is not found again when it does not count.
        SlotsNotMended,
        /// A split does not flush the new node.
        NewUnflushed,
        /// A join does not flush the entries it copies.
        CopiesUnflushed,
        /// A log counts before it is durable.
        LogCountsEarly,
        /// A log is applied before it durably counts.
        LogAppliedEarly,
        /// A log is cleared before what it says is durable.
        LogClearedEarly,
        /// A log is not durably cleared before the nodes are changed again.
        LogNotCleared,
        /// Opening does not apply logs.
        LogsIgnored,
        /// A bulk load publishes nodes that are not durable.
        LoadUnfenced,
    }
}
