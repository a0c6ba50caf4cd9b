//! What a workload did to a tracked medium, in order.

use crate::LINE;

/// One call, as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bytes stored at an offset.
    Store { offset: u64, bytes: Box<[u8]> },
    /// A range flushed; not yet rounded out to lines.
    Flush { offset: u64, len: u64 },
    /// A fence.
    Fence,
    /// The length became this.
    Resize { len: u64 },
    /// Everything stored became durable.
    Sync,
    /// An operation began.
    Begin { operation: u64 },
    /// An operation was acknowledged to its caller.
    Acknowledge { operation: u64 },
}

/// All that is needed to derive every state a crash may leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Contents before the first event, all durable.
    pub(crate) start: Vec<u8>,
    /// What was done.
    pub(crate) events: Vec<Event>,
}

/// The lines that a range overlaps.
pub(crate) fn lines_of(offset: u64, len: u64) -> impl Iterator<Item = u64> {
    let end = if len == 0 {
        offset / LINE
    } else {
        (offset + len).div_ceil(LINE)
    };
    offset / LINE..end
}
