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
        /// A block counts as built before its leaves are in the inner nodes.
        BuiltEarly,
    }
}
