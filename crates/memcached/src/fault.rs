//! Fault injection for the items.

halocline_faults::faults! {
    /// Rules of the items that a test can break.
    pub(crate) enum MemcachedFault {
        /// The end of a block of cas values is not stored.
        ReserveNothing,
        /// Items leave in a commit of their own, before the one that needs their place.
        EvictApart,
        /// A flush does not store which store is the current one.
        ForgetFlush,
        /// Writes that a client has sent together are committed one after the other.
        CommitApart,
        /// Commits are deferred whatever the durability is.
        DeferCommits,
        /// A sync for group durability does nothing.
        SkipSync,
        /// Cas values do not follow the clock.
        IgnoreClock,
    }
}
