//! Fault injection for checkpoints.

halocline_faults::faults! {
    /// Rules of checkpoints that a test can break.
    pub(crate) enum CheckpointFault {
        /// The nodes of a checkpoint are not flushed.
        Unflushed,
        /// Checksums of the nodes of a checkpoint are ignored.
        IgnoreSums,
        /// An anchor is unlinked although its block has not been built.
        UnlinkAnchor,
        /// A leaf is unlinked from an anchor whose block has not been built.
        UnlinkBehindAnchor,
        /// Leaves of blocks that have not been read get checksums as if they were intact.
        SealUnread,
        /// The head names a checkpoint before its nodes are durable.
        NamedUnfenced,
        /// Anchors and nodes of the previous checkpoint are given up before the head names the next one.
        UnpinnedEarly,
        /// An anchor is pinned although it may have been unlinked before.
        PinUnchecked,
        /// Nodes are handed out after a crash before it is known which are in use.
        ReuseUnread,
        /// Unfinished changes of a crash are not completed when their block is read.
        IgnoreUnfinished,
        /// A block counts as built before its leaves are in the inner nodes.
        BuiltEarly,
    }
}
