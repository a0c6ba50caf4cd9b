//! Fault injection for the opening of trees wholly on the slow tier.

halocline_faults::faults! {
    /// Rules of opening that a test can break.
    pub(crate) enum PersistentFault {
        /// Nodes are handed out before it is known which are in use.
        ReuseUnread,
        /// Nodes in doubt are freed before all links were followed.
        FreedEarly,
        /// Nodes in doubt are never freed.
        ForgetLeaked,
        /// The walk does not confirm the nodes that it passes on its way to the lowest inner nodes.
        PathUnconfirmed,
        /// The walk skips the children after those that it has seen of a node.
        MergedUnconfirmed,
        /// The first visit of an inner node does not complete changes of its children.
        SplitsUnfinished,
        /// The slab grows however often while nodes are in doubt.
        GrowInDoubt,
    }
}
