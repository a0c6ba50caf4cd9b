//! Readers of a slab beside its writer: [`Pool::observe_slab`], and the numbers that they pin.
//!
//! The pool protects nothing of what an observer reads: the writer changes nodes meanwhile. Writer and
//! readers agree through pins. A reader pins a number of the owner's choice and then reads; the writer stores
//! what the number protects against, looks for pins, and only then reuses nodes. So one of the two sees the
//! other: a reader whose pin was not seen reads what was stored before.

use std::ops::Range;
use std::sync::Arc;

use halocline_media::{Annexed, Medium};

use crate::access::Access;
use crate::locks::PinKind;
use crate::{Pool, PoolError};

use super::open::SlabOpenMode;
use super::{Slab, SlabRecovery};

/// A number that a reader pins, until this is dropped.
#[derive(Debug)]
pub struct SlabPin {
    access: Arc<Access>,
    number: u64,
}

impl Drop for SlabPin {
    fn drop(&mut self) {
        self.access.unpin_number(PinKind::Slab, self.number);
    }
}

impl Pool {
    /// Opens a slab for reading beside a writer, or without one, by any number of handles, also in a pool
    /// that is opened read-only. Takes no lock: contents are protected only by what the owner agrees on
    /// through [pins](Slab::pin). Nodes of chunks that are added later are not known. Stores nothing.
    ///
    /// # Errors
    /// Fails like [`open_slab_read_only`](Pool::open_slab_read_only), except for
    /// [`PoolError::SlabInUse`].
    pub fn observe_slab(&self, name: &str, owner: [u8; 8]) -> Result<SlabRecovery, PoolError> {
        self.open_slab_as(name, owner, SlabOpenMode::Observe)
    }
}

impl Slab {
    /// Annexes bytes in DRAM to what this handle reads, at offsets from [`Annexed::START`] on: what an
    /// observer must see although nobody has stored it. Reads of this handle take a little longer from then
    /// on.
    ///
    /// # Panics
    /// If the slab is open for writing.
    pub fn annex(&mut self, bytes: Vec<u8>) {
        assert!(self.read_only, "only readers annex bytes");
        self.medium = Medium::over(Arc::new(Annexed::new(&self.pool.inner.medium, bytes)));
    }

    /// One more than the greatest number that can be pinned.
    pub const PINS: u64 = 1 << 60;

    /// Pins a number less than [`PINS`](Slab::PINS) for the writer to see, here and in other processes. The
    /// slabs of a pool share their numbers. A pin ends with its process.
    ///
    /// # Errors
    /// [`PoolError::Io`] if the file system does not support locks.
    pub fn pin(&self, number: u64) -> Result<SlabPin, PoolError> {
        let access = Arc::clone(&self.pool.inner.access);
        access.pin_number(PinKind::Slab, number)?;
        Ok(SlabPin { access, number })
    }

    /// Returns those of some numbers that are pinned by any handle, as ranges in any order that may overlap.
    /// Everything that this thread stored before is visible to readers that pin later. One system call if
    /// there are none.
    ///
    /// # Errors
    /// [`PoolError::Io`] if the file system does not support locks.
    pub fn pinned(&self, numbers: Range<u64>) -> Result<Vec<Range<u64>>, PoolError> {
        self.pool.inner.access.pinned_numbers(PinKind::Slab, numbers)
    }
}
