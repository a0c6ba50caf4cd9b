//! Fault injection for the FPTree.

halocline_faults::faults! {
    /// Rules of the FPTree that a test can break.
    pub(crate) enum FpFault {
        /// An insert does not wait for the entry before it sets the bitmap.
        EntryUnfenced,
        /// An insert does not flush the entry.
        EntryUnflushed,
        /// The bitmap is stored before the fingerprint.
        BitmapBeforeFingerprint,
        /// An update clears the old entry before it sets the new one.
        UpdateInTwoStores,
        /// A removal is acknowledged before it is durable.
        RemoveUnfenced,
        /// A split does not flush the new leaf.
        NewLeafUnflushed,
        /// A leaf is changed before the log that says so is durable.
        LogUnfenced,
        /// A log names its leaf before it says what is to be done with it.
        LogLeafFirst,
        /// A log is cleared before what it is for is durable.
        LogClearedEarly,
        /// A log is not durably cleared before the leaf is changed again.
        LogClearedLate,
        /// Logs are not looked at when a tree is opened.
        IgnoreLogs,
        /// Entries that a leaf has taken over are not durable before its log is.
        TakenUnflushed,
    }
}
