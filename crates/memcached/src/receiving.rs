//! Memory for requests that have begun to arrive.
//!
//! Each connection has [`FREE`] bytes for what it has received. A longer request takes its bytes from what
//! all connections share, before they arrive, and gives them back when it is complete or the connection ends.
//! One that finds none is refused, and its data skipped: clients that send part of a large value and wait
//! cannot take the memory of the server.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that a connection has without asking.
pub(crate) const FREE: usize = 64 << 10;

/// The bytes that all connections share.
#[derive(Debug)]
pub(crate) struct ReceiveMemory {
    limit: u64,
    used: AtomicU64,
}

impl ReceiveMemory {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
        }
    }

    /// Returns the bytes that are taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Takes `bytes` if they are left.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let taken = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let memory = ReceiveMemory::new(100);
        assert!(memory.try_take(60) && memory.try_take(40));
        assert!(!memory.try_take(1) && !memory.try_take(u64::MAX));
        memory.give_back(40);
        assert!(memory.try_take(30));
        assert_eq!(memory.bytes(), 90);
    }
}
