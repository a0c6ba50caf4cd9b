//! Options of the stores of a pool.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::scan::STEP_ENTRIES;

/// A merge operator: returns the new value of a key from the key, the present value, and the operand.
pub type MergeOperator = Arc<dyn Fn(&[u8], Option<&[u8]>, &[u8]) -> Vec<u8> + Send + Sync>;

/// A clock: returns the time in ms since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Options for opening the stores of a pool.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoresOptions {
    /// Number of records after the last checkpoint from which on the next one is made. After a crash they
    /// are read from the log: up to three times as many if they come fast. By default 16,384.
    pub pending_records: usize,
    /// Bytes of log after the last checkpoint from which on the next one is made: at most this many, and
    /// fewer while the stores are small, a 32nd of their records but at least 1 MiB. By default 16 MiB.
    pub pending_bytes: u64,
    /// Share of the log, in percent, that may be bytes of superseded records before segments are emptied. By
    /// default 20.
    pub garbage_percent: u8,
    /// True if a thread of its own makes checkpoints and empties segments. Otherwise commits do so when they
    /// exceed a limit. By default true.
    pub background: bool,
    /// True if a commit returns when it is durable. Otherwise it survives the death of the process when it
    /// returns, and power loss after the next [`flush`](crate::Stores::flush), checkpoint or
    /// [commit together with the pool](crate::StoreTransaction::commit_with): of later commits, power loss
    /// keeps the first ones or none. Needs a medium with durable fences. By default
    /// true.
    pub durable_commits: bool,
    /// Number of keys that [`delete_range`](crate::Store::delete_range) deletes while other commits wait for
    /// it. A range with more keys is deleted at once for all readers, and its keys one by one, in steps of so
    /// many, between which other commits go on. By default 256.
    pub deleted_at_once: usize,
    /// The clock by which keys expire.
    pub clock: Clock,
}

impl Default for StoresOptions {
    fn default() -> Self {
        Self {
            pending_records: 1 << 14,
            pending_bytes: 16 << 20,
            garbage_percent: 20,
            background: true,
            durable_commits: true,
            deleted_at_once: 256,
            clock: Arc::new(system_clock),
        }
    }
}

fn system_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl StoresOptions {
    /// Sets [`pending_records`](Self::pending_records), to at least 1.
    #[must_use]
    pub fn with_pending_records(mut self, records: usize) -> Self {
        self.pending_records = records.max(1);
        self
    }

    /// Sets [`pending_bytes`](Self::pending_bytes), to at least 1.
    #[must_use]
    pub fn with_pending_bytes(mut self, bytes: u64) -> Self {
        self.pending_bytes = bytes.max(1);
        self
    }

    /// Sets [`garbage_percent`](Self::garbage_percent).
    #[must_use]
    pub fn with_garbage_percent(mut self, percent: u8) -> Self {
        self.garbage_percent = percent.clamp(5, 90);
        self
    }

    /// Sets [`background`](Self::background).
    #[must_use]
    pub fn with_background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Sets [`durable_commits`](Self::durable_commits).
    #[must_use]
    pub fn with_durable_commits(mut self, durable: bool) -> Self {
        self.durable_commits = durable;
        self
    }

    /// Sets [`deleted_at_once`](Self::deleted_at_once).
    #[must_use]
    pub fn with_deleted_at_once(mut self, keys: usize) -> Self {
        self.deleted_at_once = keys.clamp(1, STEP_ENTRIES);
        self
    }

    /// Sets [`clock`](Self::clock).
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl fmt::Debug for StoresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoresOptions")
            .field("pending_records", &self.pending_records)
            .field("pending_bytes", &self.pending_bytes)
            .field("garbage_percent", &self.garbage_percent)
            .field("background", &self.background)
            .field("durable_commits", &self.durable_commits)
            .field("deleted_at_once", &self.deleted_at_once)
            .finish_non_exhaustive()
    }
}
