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
        /// Reads of a leaf may be reordered after the validation of its version.
        ReadUnfenced,
        /// Stores under a lock may become visible before the lock.
        LockUnfenced,
        /// Stores under a lock may become visible after it is released.
        UnlockUnordered,
    }
}
