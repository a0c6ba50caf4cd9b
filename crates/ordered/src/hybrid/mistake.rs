//! Rules that trees with inner nodes in DRAM share, for a test to break.

halocline_pool::mistakes! {
    /// An empty leaf is handed out again before it is durably unlinked.
    FreeBeforeUnlink,
    /// A bulk load switches to leaves that are not durable.
    LoadUnfenced,
}
