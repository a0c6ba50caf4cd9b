//! References to nodes, and a writer that defers errors of the medium.

use halocline_media::{LINE, MediaError, Medium};

use super::layout::{NODE, NodeHead};

/// Unit of node numbers: a node's number is its offset divided by this. Slabs align nodes to it.
const GRAIN: u64 = 256;

/// The first offset that has no number.
pub(crate) const REACH: u64 = GRAIN << 32;

/// Returns the offset of the node with a number.
#[inline(always)]
pub(crate) fn offset_of(number: u32) -> u64 {
    u64::from(number) * GRAIN
}

/// Returns the number of the node at an offset below [`REACH`].
#[inline(always)]
pub(crate) fn number_of(offset: u64) -> u32 {
    (offset / GRAIN) as u32
}

/// Returns true if a node may be at an offset, so that it is safe to read.
#[inline(always)]
pub(crate) fn is_node_offset(offset: u64, len: u64) -> bool {
    offset != 0 && offset.is_multiple_of(GRAIN) && offset < REACH && offset < len && len - offset >= NODE
}

/// A reference to a node on the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeRef<'a> {
    pub(crate) medium: &'a Medium,
    pub(crate) offset: u64,
}

impl NodeRef<'_> {
    /// Loads the word at an offset in the node.
    #[inline(always)]
    pub(crate) fn load(&self, at: u64) -> u64 {
        self.medium.load_u64(self.offset + at)
    }

    #[inline(always)]
    pub(crate) fn meta(&self) -> u64 {
        self.load(NodeHead::META)
    }

    #[inline(always)]
    pub(crate) fn sibling(&self) -> u64 {
        self.load(NodeHead::SIBLING)
    }

    #[inline(always)]
    pub(crate) fn high(&self) -> u64 {
        self.load(NodeHead::HIGH)
    }

    #[inline(always)]
    pub(crate) fn low(&self) -> u64 {
        self.load(NodeHead::LOW)
    }

    /// Returns true if a key belongs to the node.
    #[inline(always)]
    pub(crate) fn covers(&self, key: u64) -> bool {
        self.low() <= key && key <= self.high()
    }

    /// Prefetches all lines of the node, so that their misses overlap.
    #[inline(always)]
    pub(crate) fn fetch(&self) {
        for line in 0..NODE / LINE {
            self.medium.prefetch(self.offset + line * LINE);
        }
    }
}

/// The stores, flushes and fences of one change. After a failed fence the change continues, so that
/// readers see a consistent tree; [`done`](NodeWriter::done) returns the error.
#[derive(Debug)]
pub(crate) struct NodeWriter<'a> {
    medium: &'a Medium,
    failed: Option<MediaError>,
}

impl<'a> NodeWriter<'a> {
    pub(crate) fn new(medium: &'a Medium) -> NodeWriter<'a> {
        NodeWriter { medium, failed: None }
    }

    pub(crate) fn node(&self, offset: u64) -> NodeRef<'a> {
        let medium = self.medium;
        NodeRef { medium, offset }
    }

    #[inline(always)]
    pub(crate) fn store(&mut self, offset: u64, value: u64) {
        self.medium.store_u64(offset, value);
    }

    /// Flushes the line that contains an offset.
    #[inline(always)]
    pub(crate) fn flush(&mut self, offset: u64) {
        self.medium.flush(offset / LINE * LINE, LINE);
    }

    /// Flushes a whole node.
    pub(crate) fn flush_node(&mut self, offset: u64) {
        self.medium.flush(offset, NODE);
    }

    #[inline(always)]
    pub(crate) fn fence(&mut self) {
        if let Err(error) = self.medium.fence() {
            self.failed.get_or_insert(error);
        }
    }

    /// Ends the change.
    ///
    /// # Errors
    /// The error of the first failed fence.
    #[inline(always)]
    pub(crate) fn done(self) -> Result<(), MediaError> {
        match self.failed {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}
