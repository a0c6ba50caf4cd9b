//! Segments of a store that is being loaded: [`LoadedSegments`].
//!
//! Invariant: neither the log nor a checkpoint leads to these segments before the store is published. So a
//! crash frees them, and so does dropping them.

use std::collections::VecDeque;
use std::sync::Arc;

use halocline_media::MediumKind;

use crate::error::Result;
use crate::fault::{StoreFault, injected};
use crate::layout::SEGMENT;
use crate::room::SegmentClaim;
use crate::segments::{SegmentKind, SegmentUse};
use crate::state::StoresState;

/// Bytes of segments that one fence makes durable where a fence is a sync.
const FENCED_BYTES: u64 = 64 << 20;

/// Segments that were allocated for a store that is being loaded.
pub(crate) struct LoadedSegments {
    pub(crate) state: Arc<StoresState>,
    /// Segments that are not written yet.
    open: Vec<u64>,
    /// Segments that are written, in the order of writing.
    written: VecDeque<(u64, SegmentUse)>,
    /// Bytes that no fence has made durable.
    unfenced: u64,
}

impl LoadedSegments {
    pub(crate) fn new(state: &Arc<StoresState>) -> Self {
        Self {
            state: Arc::clone(state),
            open: Vec::new(),
            written: VecDeque::new(),
            unfenced: 0,
        }
    }

    /// Allocates a segment. Leaves the same number of free ones to others as a batch does.
    ///
    /// # Errors
    /// Those of [`Slab::make_room`](halocline_pool::Slab::make_room).
    pub(crate) fn alloc(&mut self) -> Result<u64> {
        let (state, slab) = (&self.state, &self.state.slab);
        let kept = state.kept_by(&state.committer(), SegmentClaim::Values);
        loop {
            let stats = slab.stats();
            let segment = if stats.capacity - stats.used > kept {
                slab.alloc_present()?
            } else {
                None
            };
            if let Some(segment) = segment {
                self.open.push(segment);
                return Ok(segment);
            }
            slab.make_room(kept + 1)
                .inspect_err(|error| state.note_full(error))?;
        }
    }

    /// Writes a segment as a whole, or its first bytes.
    ///
    /// It is flushed and, where a fence covers what its own thread has flushed, fenced at once: the next
    /// segment may be written by another thread.
    ///
    /// # Errors
    /// Those of the medium.
    pub(crate) fn write(&mut self, segment: u64, bytes: &[u8], usage: SegmentUse) -> Result<()> {
        let medium = self.state.medium();
        medium.store_unread(segment, bytes);
        self.open.retain(|open| *open != segment);
        self.written.push_back((segment, usage));
        if injected(StoreFault::LoadUnfenced) {
            return Ok(());
        }
        medium.flush(segment, bytes.len() as u64);
        self.unfenced += SEGMENT;
        let is_shared = medium.kind() == MediumKind::PageCache { strict: true };
        if is_shared && self.unfenced < FENCED_BYTES {
            Ok(())
        } else {
            self.fence()
        }
    }

    /// Makes all written segments durable.
    ///
    /// # Errors
    /// Those of the medium.
    pub(crate) fn fence(&mut self) -> Result<()> {
        if self.unfenced > 0 {
            self.state.medium().fence()?;
            self.unfenced = 0;
        }
        Ok(())
    }

    /// Hands the written segments over to whoever publishes them.
    pub(crate) fn take(&mut self) -> Vec<(u64, SegmentUse)> {
        std::mem::take(&mut self.written).into()
    }

    /// Frees all segments but those of the log, and returns the offsets of these in the order of writing.
    pub(crate) fn keep_logs(&mut self) -> Vec<u64> {
        let slab = &self.state.slab;
        self.open.drain(..).for_each(|offset| slab.free(offset));
        self.written.retain(|(offset, usage)| {
            let is_log = usage.kind == SegmentKind::Log;
            if !is_log {
                slab.free(*offset);
            }
            is_log
        });
        self.written.iter().map(|(offset, _)| *offset).collect()
    }

    /// Frees the segment that was written first.
    pub(crate) fn free_first(&mut self) {
        if let Some((offset, _)) = self.written.pop_front() {
            self.state.slab.free(offset);
        }
    }
}

impl Drop for LoadedSegments {
    fn drop(&mut self) {
        let written = self.written.iter().map(|(offset, _)| offset);
        for offset in self.open.iter().chain(written) {
            self.state.slab.free(*offset);
        }
    }
}
