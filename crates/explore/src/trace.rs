//! The recorded calls of a workload on a tracked medium.

use halocline_media::LINE;

/// A recorded call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TraceEvent {
    /// Stores bytes at an offset.
    Store { offset: u64, bytes: Box<[u8]> },
    /// Flushes a range, not yet rounded to lines.
    Flush { offset: u64, len: u64 },
    /// Fences.
    Fence,
    /// Changes the length.
    Resize { len: u64 },
    /// Makes everything stored durable.
    Sync,
    /// Begins an operation.
    Begin { operation: u64 },
    /// Acknowledges an operation to its caller.
    Acknowledge { operation: u64 },
}

/// A recording from which every state that a crash may leave can be derived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Contents before the first event, all durable.
    pub(crate) start: Vec<u8>,
    /// The calls, in order.
    pub(crate) events: Vec<TraceEvent>,
}

/// Returns the lines that a range overlaps.
pub(crate) fn lines_of(offset: u64, len: u64) -> impl Iterator<Item = u64> {
    let end = if len == 0 {
        offset / LINE
    } else {
        (offset + len).div_ceil(LINE)
    };
    offset / LINE..end
}
