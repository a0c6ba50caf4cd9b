//! Fault injection for the items.

halocline_faults::faults! {
    /// Rules of the items that a test can break.
    pub(crate) enum MemcachedFault {
        /// The end of a block of cas values is not stored.
        ReserveNothing,
        /// Items leave in a commit of their own, before the one that needs their place.
        EvictApart,
        /// The eviction policy forgets items whose eviction has failed.
        ForgetLeaving,
        /// A flush does not store which store is the current one.
        ForgetFlush,
        /// Copies of hot items are not replaced when the items are.
        StaleCopy,
        /// A link leads to a record that is not durable.
        LinkUnfenced,
        /// The nodes of a record are used again while a link leads to it.
        FreeBeforeLink,
        /// Nodes that no link leads to after a crash are not freed.
        ForgetLeaked,
        /// Nodes are freed after an opening although links lead to them.
        FreeUnconfirmed,
        /// Writes that a client has sent together are committed one after the other.
        CommitApart,
        /// Commits are deferred whatever the durability is.
        DeferCommits,
        /// A sync for group durability does nothing.
        SkipSync,
        /// Trees are opened whatever power loss may have left where fences are not durable.
        TrustUnsynced,
        /// Cas values do not follow the clock.
        IgnoreClock,
    }
}
