//! The source of the pages of trees, which checks offsets before they are followed: [`PageSource`].
//!
//! Invariant: nothing is loaded from the offset of a page before it is known that this page is in use. So an
//! offset that is damaged, also one whose checksum is right, is an error and no access outside of the pool.
//! A reader beside a writer knows the segments of the checkpoint whose trees it has.

use std::sync::{Mutex, PoisonError};

use halocline_media::Medium;
use halocline_pool::Slab;

use crate::fault::{StoreFault, injected};
use crate::layout::SEGMENT;
use crate::segments::{SegmentKind, Segments};
use crate::tree::Damage;

/// The pool that trees are read from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSource<'a> {
    slab: &'a Slab,
    segments: &'a Mutex<Segments>,
    /// The newest commit of the checkpoint whose trees a reader beside a writer has.
    checkpoint: Option<u64>,
}

impl<'a> PageSource<'a> {
    /// Returns the source of stores that are open for writing.
    #[inline]
    pub(crate) fn of_writer(slab: &'a Slab, segments: &'a Mutex<Segments>) -> Self {
        Self {
            slab,
            segments,
            checkpoint: None,
        }
    }

    /// Returns the source of a reader beside a writer, with trees of a checkpoint up to a commit.
    #[inline]
    pub(crate) fn of_reader(slab: &'a Slab, segments: &'a Mutex<Segments>, checkpoint: u64) -> Self {
        Self {
            slab,
            segments,
            checkpoint: Some(checkpoint),
        }
    }

    #[inline]
    pub(crate) fn medium(&self) -> &'a Medium {
        self.slab.medium()
    }

    /// Returns true if a record of this commit may have an entry in a leaf that does not have its key in
    /// these trees: a writer beside this reader has extended the range since, because a leaf next to it
    /// became empty.
    pub(crate) fn is_newer(&self, commit: u64) -> bool {
        self.checkpoint.is_some_and(|checkpoint| commit > checkpoint)
    }

    /// Fails unless a page of a kind is in use at this offset.
    pub(crate) fn check(&self, offset: u64, kind: SegmentKind) -> Result<(), Damage> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if segments.has_page(offset, kind) || injected(StoreFault::TrustOffsets) {
            Ok(())
        } else {
            Err(Damage::offset(offset))
        }
    }
}

/// Returns true if there can be a segment at this offset. Beside a writer it may be in a part of the slab
/// that was added since.
pub(crate) fn is_segment(slab: &Slab, offset: u64) -> bool {
    let end = offset.checked_add(SEGMENT);
    slab.is_node(offset) || slab.is_read_only() && end.is_some_and(|end| end <= slab.medium().len())
}
