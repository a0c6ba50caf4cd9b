//! A node where it lies, and stores that go on after the medium has failed.

use halocline_media::{LINE, MediaError, Medium};

use super::layout::{NODE, NodeHead};

/// Nodes have numbers: their offsets by 256 bytes, as slabs place them.
const GRAIN: u64 = 256;

/// Offsets from here on have no number.
pub(crate) const REACH: u64 = GRAIN << 32;

/// Where the node of a number lies.
#[inline(always)]
pub(crate) fn offset_of(number: u32) -> u64 {
    u64::from(number) * GRAIN
}

/// The number of a node within [`REACH`].
#[inline(always)]
pub(crate) fn number_of(offset: u64) -> u32 {
    (offset / GRAIN) as u32
}

/// Whether a node may lie at an offset, so that it can be looked at.
#[inline(always)]
pub(crate) fn is_place(offset: u64, len: u64) -> bool {
    offset != 0 && offset.is_multiple_of(GRAIN) && offset < REACH && offset < len && len - offset >= NODE
}

/// A node where it lies.
#[derive(Debug)]
pub(crate) struct NodeRef<'a> {
    pub(crate) medium: &'a Medium,
    pub(crate) offset: u64,
}

impl Clone for NodeRef<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for NodeRef<'_> {}

impl NodeRef<'_> {
    /// The word at a distance from its start.
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

    /// Whether a key belongs to it.
    #[inline(always)]
    pub(crate) fn covers(&self, key: u64) -> bool {
        self.low() <= key && key <= self.high()
    }

    /// Asks for all its lines, so that they are waited for together.
    #[inline(always)]
    pub(crate) fn fetch(&self) {
        for line in 0..NODE / LINE {
            self.medium.prefetch(self.offset + line * LINE);
        }
    }
}

/// Stores, flushes and fences of one change. After a fence has failed the change goes on, so that readers see one tree, and
/// the failure is told at its end.
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

    /// Flushes the line of an offset.
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

    /// # Errors
    /// The first failure.
    #[inline(always)]
    pub(crate) fn done(self) -> Result<(), MediaError> {
        match self.failed {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}
