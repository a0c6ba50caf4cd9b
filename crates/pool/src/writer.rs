//! Data written by a transaction: [`ExtentWriter`] for extents to publish, [`ScratchExtent`] for temporary
//! bytes.
//!
//! Both borrow the transaction, so no store can follow its end, when the space may belong to someone else.
#![allow(unsafe_code, reason = "reads back ranges that nobody can store to any more")]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use xxhash_rust::xxh3::Xxh3;

use crate::PoolError;
use crate::bytes::unpinned;
use crate::layout::{BLOCK, DATA_START, SUMMED_FROM, blocks};
use crate::object::ExtentRef;
use crate::sums::{self, BlockSummer};
use crate::txn::Txn;

/// An extent that is being written, either sequentially or at any offset from several threads.
///
/// Bytes that were never written are undefined.
pub struct ExtentWriter<'t> {
    space: ReservedSpace<'t>,
    position: u64,
    /// Checksum of the appended bytes, computed while they are still in the CPU's caches.
    sum: Box<Xxh3>,
    blocks: BlockSummer,
    /// True if anything was written out of order, so that `sum` does not cover the extent.
    scattered: AtomicBool,
}

impl<'t> ExtentWriter<'t> {
    pub(crate) fn new(txn: &'t Txn, offset: u64, capacity: u64) -> ExtentWriter<'t> {
        ExtentWriter {
            space: ReservedSpace {
                txn,
                offset,
                capacity,
            },
            position: 0,
            sum: Box::new(Xxh3::new()),
            blocks: BlockSummer::default(),
            scattered: AtomicBool::new(false),
        }
    }

    /// Returns the maximum length in bytes.
    pub fn capacity(&self) -> u64 {
        self.space.capacity
    }

    /// Writes `bytes` at `offset` in the extent. Threads may write disjoint ranges concurrently.
    ///
    /// # Panics
    /// If the range exceeds the [`capacity`](ExtentWriter::capacity).
    pub fn write_at(&self, offset: u64, bytes: &[u8]) {
        self.scattered.store(true, Ordering::Relaxed);
        self.space.store(offset, bytes);
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// If they exceed the [`capacity`](ExtentWriter::capacity).
    pub fn append(&mut self, bytes: &[u8]) {
        self.space.store(self.position, bytes);
        self.sum.update(bytes);
        self.blocks.update(bytes);
        self.position += bytes.len() as u64;
    }

    /// Appends zeros up to a multiple of `alignment`, at most 4096, to which the start of the extent is
    /// aligned as well.
    ///
    /// # Panics
    /// If they exceed the [`capacity`](ExtentWriter::capacity), or `alignment` is 0 or more than 4096.
    pub fn align(&mut self, alignment: u64) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let padding = self.position.next_multiple_of(alignment) - self.position;
        self.append(&ZEROS[..padding as usize]);
    }

    /// Returns the number of appended bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Ends the extent at `len` bytes, computes its checksums, flushes it, and releases the rest of its
    /// space. It is published by putting it into an object. Reads the extent once more, unless it was
    /// only appended to and ends at that position.
    ///
    /// # Errors
    /// [`PoolError::Media`].
    ///
    /// # Panics
    /// If `len` exceeds the [`capacity`](ExtentWriter::capacity).
    pub fn finish(mut self, len: u64) -> Result<ExtentRef, PoolError> {
        let space = &mut self.space;
        assert!(
            len <= space.capacity,
            "an extent of {} bytes cannot end at {len}",
            space.capacity
        );
        let (txn, medium) = (space.txn, &space.txn.inner.medium);
        let (checksum, sums) = if len == self.position && !*self.scattered.get_mut() {
            (self.sum.digest(), std::mem::take(&mut self.blocks).finish())
        } else {
            // SAFETY: only this writer stores to its space, and it is not borrowed any more.
            sums_of(unsafe { unpinned(medium, space.offset, len) })
        };
        let offset = if len == 0 { DATA_START } else { space.offset };
        let extent = ExtentRef {
            sums: len > SUMMED_FROM,
            ..ExtentRef::plain(offset, len, checksum)
        };
        medium.flush(space.offset, len);
        if extent.sums {
            let pages = sums::encode(&sums, checksum);
            medium.store(offset + blocks(len), &pages);
            medium.flush(offset + blocks(len), pages.len() as u64);
        }
        txn.finished(extent)?;
        if space.capacity > 0 {
            txn.trim(space.offset, extent.space().end - offset);
            space.capacity = 0;
        }
        Ok(extent)
    }
}

/// Returns the checksum of the bytes, and those of their blocks.
fn sums_of(bytes: &[u8]) -> (u64, Vec<u64>) {
    let (mut sum, mut blocks) = (Box::new(Xxh3::new()), BlockSummer::default());
    for block in bytes.chunks(BLOCK as usize) {
        sum.update(block);
        blocks.update(block);
    }
    (sum.digest(), blocks.finish())
}

impl io::Write for ExtentWriter<'_> {
    /// Appends as much as fits. If nothing fits, `write_all` fails with [`io::ErrorKind::WriteZero`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = (self.space.capacity - self.position).min(bytes.len() as u64) as usize;
        self.append(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for ExtentWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ExtentWriter");
        debug
            .field("offset", &self.space.offset)
            .field("capacity", &self.space.capacity)
            .finish_non_exhaustive()
    }
}

/// Temporary space in the pool, released on drop and never published.
pub struct ScratchExtent<'t> {
    space: ReservedSpace<'t>,
}

impl<'t> ScratchExtent<'t> {
    pub(crate) fn new(txn: &'t Txn, offset: u64, capacity: u64) -> ScratchExtent<'t> {
        ScratchExtent {
            space: ReservedSpace {
                txn,
                offset,
                capacity,
            },
        }
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> u64 {
        self.space.capacity
    }

    /// Returns true if its length is 0.
    pub fn is_empty(&self) -> bool {
        self.space.capacity == 0
    }

    /// Writes `bytes` at `offset`. Threads may write concurrently.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) {
        self.space.store(offset, bytes);
    }

    /// Writes `bytes` at `offset` and starts to write them back, without waiting for that: for bytes that are
    /// read much later and would only take room in the CPU's caches.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn write_through_at(&self, offset: u64, bytes: &[u8]) {
        self.space.store(offset, bytes);
        let at = self.space.at(offset, bytes.len());
        self.space.txn.inner.medium.flush(at, bytes.len() as u64);
    }

    /// Copies bytes from `offset` on. Bytes that were never written are undefined.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) {
        let at = self.space.at(offset, into.len());
        self.space.txn.inner.medium.load(at, into);
    }

    /// Ends writing, so that the bytes can be read in place.
    pub fn freeze(self) -> FrozenScratch<'t> {
        FrozenScratch {
            space: self.space,
            _bytes: PhantomData,
        }
    }
}

impl fmt::Debug for ScratchExtent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchExtent")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// The read-only bytes of a [`ScratchExtent`].
pub struct FrozenScratch<'t> {
    space: ReservedSpace<'t>,
    _bytes: PhantomData<&'t [u8]>,
}

impl Deref for FrozenScratch<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `freeze` has consumed the only way to store to this space, and it is given back when `self`
        // goes.
        unsafe {
            unpinned(
                &self.space.txn.inner.medium,
                self.space.offset,
                self.space.capacity,
            )
        }
    }
}

impl fmt::Debug for FrozenScratch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrozenScratch")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Reserved space of a transaction, released on drop unless it has become an extent.
struct ReservedSpace<'t> {
    txn: &'t Txn,
    offset: u64,
    capacity: u64,
}

impl ReservedSpace<'_> {
    fn at(&self, offset: u64, len: usize) -> u64 {
        let inside = offset
            .checked_add(len as u64)
            .is_some_and(|end| end <= self.capacity);
        assert!(
            inside,
            "{len} bytes at {offset} do not fit into {}",
            self.capacity
        );
        self.offset + offset
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        let at = self.at(offset, bytes.len());
        if !bytes.is_empty() {
            self.txn.inner.medium.store(at, bytes);
        }
    }
}

impl Drop for ReservedSpace<'_> {
    fn drop(&mut self) {
        if self.capacity > 0 {
            self.txn.trim(self.offset, 0);
        }
    }
}
