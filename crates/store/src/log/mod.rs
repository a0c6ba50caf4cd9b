//! The log of all stores: segments with frames of records, each one commit or a part of one.
//!
//! The log is where records live, not a copy of them: trees hold the offsets of records in it. A commit is
//! durable once its frames are, with one fence, which may be deferred. What the trees of the last checkpoint
//! lack is read from the log at opening.
//!
//! Invariants: frames are numbered; frame `n + 1` follows frame `n`, in the same segment or in the one that a
//! link names. A frame counts only if all before it do. Checksums depend on a secret of the pool's stores and
//! on the offset, so that no value can look like a frame.

mod contents;
mod reader;
mod writer;

use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::layout::FrameHead;

pub(crate) use contents::{expiries_of, records_of, tail_of};
pub(crate) use reader::{LogFrame, LogReader, LogStep};
pub(crate) use writer::{LogMark, LogWriter};

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// Offset of the next frame.
    pub(crate) offset: u64,
    /// Offset of its segment.
    pub(crate) segment: u64,
    /// Its number.
    pub(crate) number: u64,
    /// Checksum of the frame before.
    pub(crate) chain: u64,
}

/// Returns the checksum of a frame at an offset whose records have these checksums.
pub(crate) fn frame_checksum(secret: u64, offset: u64, head: &FrameHead, sums: &[u8]) -> u64 {
    let head = FrameHead {
        checksum: U64::ZERO,
        ..*head
    };
    let seed = secret ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    xxh3_64_with_seed(sums, xxh3_64_with_seed(head.as_bytes(), seed))
}
