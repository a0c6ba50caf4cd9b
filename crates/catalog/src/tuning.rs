//! Thresholds, which tests make small, and faults that tests inject to prove that they would notice them. In
//! a build without tests the thresholds are fixed and no fault can be injected.

use std::time::Duration;

/// A fault that a test can inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineFault {
    /// A publish names an empty log without folding what the old one holds.
    ForgetLog,
    /// A publish makes segments of added rows that were deleted again, too.
    FoldGoneRows,
    /// A publish does not mark the rows of segments that the log has deleted.
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
    /// TRUNCATE keeps the changes of the table in the log.
    TruncateSegmentsOnly,
    /// A statement is acknowledged before its record is durable.
    AcknowledgeEarly,
    /// A compaction loses the changes of the table in the log.
    CompactWithoutLog,
    /// The process ends when a transaction over both kinds of tables is published, before the stores have it.
    DieDecided,
    /// The process ends when the stores have it, before it is acknowledged.
    DieCommitted,
}

/// Thresholds of a database, and the injected fault.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Most rows that a transaction may change and still be committed as a record of the log.
    pub small_rows: u64,
    /// Size of a new log in bytes.
    pub log_bytes: u64,
    /// Most bytes of DRAM that the changes of a statement to a table with a primary key take, if that is less
    /// than their part of the memory.
    pub changes_bytes: usize,
    /// Time without a publish after which the background compaction begins.
    pub quiet: Duration,
    /// The fault that a test has injected.
    #[cfg(any(test, feature = "faults"))]
    pub injected: Option<EngineFault>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            small_rows: 1024,
            log_bytes: 1 << 20,
            changes_bytes: usize::MAX,
            quiet: Duration::from_millis(200),
            #[cfg(any(test, feature = "faults"))]
            injected: None,
        }
    }
}

impl Tuning {
    /// Returns true if the running test has injected this fault.
    #[cfg(not(any(test, feature = "faults")))]
    #[inline(always)]
    pub fn injected(&self, _fault: EngineFault) -> bool {
        false
    }

    /// Ends the process at once if the running test has injected this fault.
    #[inline(always)]
    pub fn die_if(&self, fault: EngineFault) {
        if self.injected(fault) {
            std::process::abort();
        }
    }

    /// Returns true if the running test has injected this fault.
    #[cfg(any(test, feature = "faults"))]
    pub fn injected(&self, fault: EngineFault) -> bool {
        self.injected == Some(fault)
    }
}
