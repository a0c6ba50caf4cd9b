//! Fault injection for FAST&FAIR.

halocline_faults::faults! {
    /// Rules of FAST&FAIR that a test can break.
    pub(crate) enum FastFairFault {
        /// An insert stores an entry's key before its value.
        KeyBeforeValue,
        /// A shift goes on to the next line before the last one is durable.
        ShiftUnfenced,
        /// A removal stores the value of the entry that moves up before its key.
        ValueMovesFirst,
        /// The last line of an insert is not flushed.
        InsertUnflushed,
        /// An update is acknowledged before it is durable.
        UpdateUnfenced,
        /// A split links the new node before that is durable.
        LinkBeforeNew,
        /// A split says where the old node's keys end before it links the new one.
        EndBeforeLink,
        /// A split tells the parent before it links the new node.
        ParentFirst,
        /// A split does not tell the parent which child it is about.
        NoHint,
        /// The first visit of a parent does not ask which child a split was about.
        HintIgnored,
        /// A node takes over keys without clearing the entries that a split has left in it.
        StaleEntries,
        /// A join makes the parent forget a node before it says durably which child it is about.
        JoinUnfenced,
        /// A node is handed out again before it is durably unlinked.
        FreeBeforeUnlink,
        /// A copy that a crash has left of an entry stays.
        CopyStays,
        /// A bulk load publishes nodes that are not durable.
        LoadUnfenced,
    }
}
