//! The sizes at which things happen, which a test makes small, and the rules that a test breaks to prove that it would
//! notice. In a build without tests the sizes are fixed and no rule is broken.

use std::time::Duration;

/// A rule of this crate to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A publish names an empty log without folding what the old one holds.
    ForgetLog,
    /// A publish makes segments of added rows that were deleted again, too.
    FoldGoneRows,
    /// A publish does not mark the rows of segments that the log says are deleted.
    ForgetDeletions,
    /// Changes of a damaged table, which cannot be folded, are left out of the next log.
    ForgetUnfolded,
    /// A publish leaves indexes without the new segments.
    StaleIndex,
    /// A version takes over the delta of the generation before.
    MixVersions,
    /// Records of a version are read again by the next one.
    ReadRecordsTwice,
    /// A DELETE keeps the rows that are in the log.
    KeepAddedRows,
    /// An UPDATE adds the new rows and keeps the old ones.
    HalfUpdate,
    /// A statement that fails within a transaction is not undone.
    KeepFailed,
    /// The statements of a transaction become records one by one.
    CommitEarly,
    /// TRUNCATE keeps what the log says of the table.
    TruncateSegmentsOnly,
    /// A statement is acknowledged before its record is durable.
    AcknowledgeEarly,
    /// A compaction loses what the log says of the table.
    CompactWithoutLog,
}

/// Sizes, and what a test breaks.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Rows that a transaction may change and still be a record of the log.
    pub(crate) small_rows: u64,
    /// Bytes of a new log.
    pub(crate) log_bytes: u64,
    /// How long nobody must have published before compaction in the background begins.
    pub(crate) quiet: Duration,
    #[cfg(test)]
    pub(crate) broken: Option<Mistake>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            small_rows: 1024,
            log_bytes: 1 << 20,
            quiet: Duration::from_millis(200),
            #[cfg(test)]
            broken: None,
        }
    }
}

impl Rules {
    /// Whether the running test has broken this rule.
    #[cfg(not(test))]
    #[inline(always)]
    pub(crate) fn broken(&self, _mistake: Mistake) -> bool {
        false
    }

    #[cfg(test)]
    pub(crate) fn broken(&self, mistake: Mistake) -> bool {
        self.broken == Some(mistake)
    }
}
