//! Output of a build in DRAM whose pages are reserved in a budget.
//!
//! Invariant: at least as many bytes are reserved as are mapped.

use crate::build::output::{Output, WriteError};
use crate::table::cancel::CancellationToken;
use halocline_cache::{DramBudget, Reservation};
use halocline_media::{HugeVec, MediaError, PAGE};
use halocline_pool::ExtentBytes;
use std::sync::OnceLock;

/// The DRAM available to a build.
pub(super) struct MemoryRoom<'a> {
    pub(super) budget: &'a DramBudget,
    /// Limit in bytes, in addition to the budget.
    pub(super) most: u64,
    /// The first request that was refused, in bytes.
    pub(super) lacks: OnceLock<u64>,
}

impl MemoryRoom<'_> {
    /// Reserves the pages of `len` bytes. A refusal is recorded in `lacks`.
    fn take(&self, len: u64) -> Option<Reservation> {
        let bytes = pages(len);
        let fits = bytes <= self.most;
        let taken = fits.then(|| self.budget.reserve(bytes).ok()).flatten();
        if taken.is_none() {
            // Only the first refusal is kept: it ended the build.
            let _ = self.lacks.set(bytes);
        }
        taken
    }

    /// Copies bytes; returns `None` if there is no room, which is recorded in `lacks`.
    ///
    /// # Errors
    /// [`MediaError`] if the system has no memory.
    pub(super) fn copy(&self, bytes: &[u8]) -> Result<Option<ExtentBytes>, MediaError> {
        let Some(held) = self.take(bytes.len() as u64) else {
            return Ok(None);
        };
        let bytes = HugeVec::copy_of(bytes)?;
        Ok(Some(ExtentBytes::from_owner(ReservedBytes {
            bytes,
            _held: held,
        })))
    }
}

/// Returns the size of the whole pages that `len` bytes take.
pub(super) fn pages(len: u64) -> u64 {
    len.next_multiple_of(PAGE)
}

/// Bytes in DRAM with their reservation.
struct ReservedBytes {
    bytes: HugeVec<u8>,
    _held: Reservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes an index into DRAM of an estimated length. If the index turns out longer, it is written again,
/// unless there is no room for it.
pub(super) struct MemoryOutput<'a> {
    cancel: &'a CancellationToken<'a>,
    room: &'a MemoryRoom<'a>,
    bytes: HugeVec<u8>,
    held: Reservation,
    position: u64,
}

impl<'a> MemoryOutput<'a> {
    /// Creates an output and reserves up to `guess` bytes for it, as far as the budget allows.
    ///
    /// # Errors
    /// [`MediaError`] if the system has no memory.
    pub(super) fn new(
        cancel: &'a CancellationToken<'a>,
        room: &'a MemoryRoom<'a>,
        guess: u64,
    ) -> Result<Self, MediaError> {
        let mut held = room
            .budget
            .reserve_up_to(pages(guess).min(room.most / PAGE * PAGE));
        held.shrink(held.bytes() / PAGE * PAGE);
        Ok(Self {
            cancel,
            room,
            bytes: HugeVec::zeroed(held.bytes() as usize)?,
            held,
            position: 0,
        })
    }

    /// Returns the bytes and the DRAM that they take; called after the output is complete.
    pub(super) fn finish(mut self) -> (ExtentBytes, u64) {
        self.bytes.resize(self.position as usize);
        self.bytes.shrink_to_fit();
        let taken = self.bytes.mapped_bytes() as u64;
        self.held.shrink(taken);
        let counted = ReservedBytes {
            bytes: self.bytes,
            _held: self.held,
        };
        (ExtentBytes::from_owner(counted), taken)
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        // Bytes that do not fit are only counted; `complete` then reserves the exact length.
        if let Some(place) = self.bytes.get_mut(at as usize..at as usize + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

impl Output for MemoryOutput<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.cancel.check()?;
        self.store(self.position, bytes);
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.store(at, bytes);
        Ok(())
    }

    fn complete(&mut self, len: u64) -> Result<bool, WriteError> {
        if len <= self.bytes.len() as u64 {
            return Ok(true);
        }
        self.bytes = HugeVec::new();
        self.held.shrink(0);
        self.held = self.room.take(len).ok_or("there is no room for it in DRAM")?;
        self.bytes = HugeVec::zeroed(self.held.bytes() as usize)?;
        self.position = 0;
        Ok(false)
    }
}
