//! Fault injection for optimistic locking.

halocline_faults::faults! {
    /// Rules of optimistic locking that a test can break.
    pub(crate) enum LockFault {
        /// A reader does not look whether the leaf has changed while it was read.
        LeafUnvalidated,
        /// Nobody looks whether an inner node has changed since it was read.
        NodeUnvalidated,
        /// A writer does not look whether its key still belongs to the leaf that it has locked.
        WriterUnchecked,
        /// What is read of a leaf may be read after its version was looked at again.
        ReadUnfenced,
        /// What is stored under a lock may be seen before the lock is.
        LockUnfenced,
        /// What was stored under a lock may be seen after it is let go.
        UnlockUnordered,
    }
}
