//! Fault injection for the trees with inner nodes in DRAM.

halocline_faults::faults! {
    /// Rules shared by the trees with inner nodes in DRAM that a test can break.
    pub(crate) enum HybridFault {
        /// An empty leaf is handed out again before it is durably unlinked.
        FreeBeforeUnlink,
        /// A bulk load switches to leaves that are not durable.
        LoadUnfenced,
    }
}
