//! Reserved addresses, of which the first `len` bytes are mapped.
//!
//! Invariants: `[base, base + reserved)` belongs to this region until it is dropped; its first `len` bytes
//! are mapped readable (and writable if `writable`), and stay readable when `len` shrinks; `base` is a
//! multiple of 2 MiB. Hence an offset that has been checked against `len` is valid for as long as the region
//! lives.
//!
//! A region reserves 1 TiB of addresses, or less if the system is short of them. Every offset is checked
//! against the mapped length; out of range panics.
#![allow(unsafe_code, reason = "maps memory and turns checked offsets into addresses")]

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{self, Advice, MapFlags, MsyncFlags, ProtFlags};

use crate::flush::{FlushInstruction, flush_instruction};
use crate::{LINE, MediaError, PAGE, copy, flush};

/// Alignment of mappings that get huge pages, in bytes.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;

/// Address space reserved by default, in bytes. It costs nothing until it is mapped.
const DEFAULT_RESERVE: u64 = 1 << 40;

/// Reserved address space with a mapped, growing prefix.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    reserved: u64,
    /// The raw mapping, which contains `base..base + reserved`.
    raw: (NonNull<u8>, usize),
    writable: bool,
    len: AtomicU64,
}

// SAFETY: the region owns its mapping, and all access through `&Region` is atomic, or by contract exclusive
// (`slice`).
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `wanted` bytes of address space (0: the default, or less if the system is short of it), never
    /// less than `least`.
    pub(crate) fn reserve(wanted: u64, least: u64, writable: bool) -> Result<Region, MediaError> {
        let least = round_up(least.max(PAGE), PAGE);
        let mut size = if wanted == 0 {
            DEFAULT_RESERVE
        } else {
            round_up(wanted, PAGE)
        }
        .max(least);
        loop {
            let result = map_nothing(size + HUGE_PAGE);
            match result {
                Ok(raw) => {
                    let skip = round_up(raw.addr().get() as u64, HUGE_PAGE) - raw.addr().get() as u64;
                    // SAFETY: the mapping is `HUGE_PAGE` longer than `size`, and `skip` is less than that.
                    let base = unsafe { raw.add(skip as usize) };
                    let raw = (raw, (size + HUGE_PAGE) as usize);
                    return Ok(Region {
                        base,
                        reserved: size,
                        raw,
                        writable,
                        len: AtomicU64::new(0),
                    });
                }
                Err(_) if wanted == 0 && size / 2 >= least => size /= 2,
                Err(error) => {
                    return Err(MediaError::OutOfMemory {
                        bytes: size,
                        source: error.into(),
                    });
                }
            }
        }
    }

    /// Returns the mapped bytes.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the address of offset 0.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the reserved bytes of address space, mapped or not.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns true if stores are allowed.
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// Fails unless `len` bytes fit into the reservation.
    pub(crate) fn check_fits(&self, len: u64) -> Result<(), MediaError> {
        if len > self.reserved {
            return Err(MediaError::AddressSpace {
                wanted: len,
                reserved: self.reserved,
            });
        }
        Ok(())
    }

    /// Maps zeroed private memory up to `len`, a multiple of [`PAGE`]. The caller holds the growth lock.
    pub(crate) fn extend_anonymous(&self, len: u64) -> Result<(), MediaError> {
        self.check_fits(len)?;
        let from = self.len();
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        let start = self.base.as_ptr().wrapping_add(from as usize).cast();
        // SAFETY: the range from `from` to `len` is inside the reservation and not yet mapped by anything but
        // it.
        let result = unsafe { mm::mmap_anonymous(start, (len - from) as usize, self.protection(), flags) };
        result.map_err(|error| MediaError::OutOfMemory {
            bytes: len - from,
            source: error.into(),
        })?;
        self.advise_huge(from, len);
        // The length last: whoever reads it may access the new bytes.
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Maps the file up to `len`, its length, with `flags` (besides `FIXED`). The caller holds the growth
    /// lock.
    #[allow(clippy::disallowed_methods, reason = "the one place that maps a file")]
    pub(crate) fn extend_file(
        &self,
        file: BorrowedFd<'_>,
        len: u64,
        flags: MapFlags,
    ) -> Result<(), rustix::io::Errno> {
        let from = round_up(self.len(), PAGE);
        let to = round_up(len, PAGE);
        assert!(
            to <= self.reserved,
            "{to} bytes do not fit the reserved addresses"
        );
        if to > from {
            let flags = flags | MapFlags::FIXED;
            let start = self.base.as_ptr().wrapping_add(from as usize).cast();
            let len = (to - from) as usize;
            // SAFETY: the range from `from` to `to` is inside the reservation (asserted above) and not yet
            // mapped by anything but it.
            unsafe { mm::mmap(start, len, self.protection(), flags, file, from) }?;
            self.advise_huge(from, to);
        }
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Unmaps the file from `len` on, a multiple of [`PAGE`]. Later reads after it find zeros. The caller
    /// holds the growth lock.
    pub(crate) fn shrink(&self, len: u64) -> Result<(), MediaError> {
        let end = round_up(self.len(), PAGE);
        debug_assert!(len.is_multiple_of(PAGE) && len <= end, "{len} of {end}");
        if len < end {
            let start = self.base.as_ptr().wrapping_add(len as usize).cast();
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
            // Readable only: what can be written would count against the process's limits.
            // SAFETY: the range is inside of the reservation and mapped by this region, and its addresses
            // stay valid. Only bytes that someone has borrowed there would change, which
            // `Medium::truncate` forbids.
            let result = unsafe { mm::mmap_anonymous(start, (end - len) as usize, ProtFlags::READ, flags) };
            result.map_err(|error| MediaError::OutOfMemory {
                bytes: end - len,
                source: error.into(),
            })?;
        }
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Writes the pages that overlap `from..to` back and waits for completion; `from` is in range.
    #[allow(clippy::disallowed_methods, reason = "the one place that calls msync")]
    pub(crate) fn msync(&self, from: u64, to: u64) -> Result<(), rustix::io::Errno> {
        let from = from / PAGE * PAGE;
        let len = (to.min(self.len()) - from) as usize;
        let start = self.at(from, len).cast();
        // SAFETY: `at` has checked that the range is mapped, and it starts at a page.
        unsafe { mm::msync(start, len, MsyncFlags::SYNC) }
    }

    #[inline]
    pub(crate) fn load(&self, offset: u64, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        // SAFETY: `at` has checked that the range is mapped; the mapping starts and ends at multiples of 8.
        unsafe { copy::load(from, into) };
        fence(Ordering::Acquire);
    }

    #[inline]
    pub(crate) fn load_u64(&self, offset: u64) -> u64 {
        let word = self.word(offset);
        // SAFETY: the word is mapped and aligned, and everyone accesses words atomically.
        u64::from_le(unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn words(&self, offset: u64, words: usize) -> Option<&[AtomicU64]> {
        let end = offset.checked_add(8 * words as u64)?;
        if end > self.len() || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: within the mapping (checked above).
        let start = unsafe { self.base.add(offset as usize) };
        // SAFETY: the words are mapped, where they stay while `self` lives, and aligned, and everyone
        // accesses words atomically.
        Some(unsafe { std::slice::from_raw_parts(start.cast().as_ptr(), words) })
    }

    /// Returns the `len` bytes at `offset` as a slice.
    ///
    /// # Safety
    /// No one stores to the range while the slice is alive.
    #[inline]
    pub(crate) unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        let start = self.at(offset, len);
        // SAFETY: `at` has checked that the range is mapped, where it stays while `self` lives; the caller
        // promises that nobody stores to it.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    #[inline]
    pub(crate) fn prefetch(&self, offset: u64) {
        flush::prefetch(
            self.base
                .as_ptr()
                .wrapping_add(offset.min(self.reserved) as usize),
        );
    }

    #[inline]
    pub(crate) fn prefetch_lines(&self, offset: u64, lines: u64) {
        let start = offset.min(self.reserved.saturating_sub(lines * LINE));
        let start = self.base.as_ptr().wrapping_add(start as usize);
        (0..lines).for_each(|line| flush::prefetch(start.wrapping_add((line * LINE) as usize)));
    }

    #[inline]
    pub(crate) fn store(&self, offset: u64, bytes: &[u8]) {
        self.check_writable();
        let to = self.at(offset, bytes.len());
        fence(Ordering::Release);
        // SAFETY: `at` has checked that the range is mapped, `check_writable` that it may be written; the
        // mapping starts and ends at multiples of 8.
        unsafe { copy::store(to, bytes) };
    }

    #[inline]
    pub(crate) fn store_u64(&self, offset: u64, value: u64) {
        self.check_writable();
        let word = self.word(offset);
        // SAFETY: the word is mapped, writable and aligned, and everyone accesses words atomically.
        unsafe { AtomicU64::from_ptr(word) }.store(value.to_le(), Ordering::Release);
    }

    /// Flushes every line that overlaps the range.
    pub(crate) fn flush(&self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let first = offset / LINE * LINE;
        let end = round_up(self.checked_end(offset, len), LINE);
        let start = self.base.as_ptr().wrapping_add(first as usize);
        // SAFETY: the lines are mapped: the range is, and mappings end at a multiple of PAGE, hence of LINE.
        unsafe { flush::flush_lines(start, (end - first) / LINE) };
    }

    /// Panics unless the range is mapped.
    #[inline]
    pub(crate) fn check_range(&self, offset: u64, len: u64) {
        self.checked_end(offset, len);
    }

    #[inline]
    fn checked_end(&self, offset: u64, len: u64) -> u64 {
        match offset.checked_add(len) {
            Some(end) if end <= self.len() => end,
            _ => out_of_range(offset, len, self.len()),
        }
    }

    #[inline]
    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        self.checked_end(offset, len as u64);
        // SAFETY: the offset is at most `len`, so the address is inside the reservation or just past it.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    #[inline]
    fn word(&self, offset: u64) -> *mut u64 {
        assert!(
            offset.is_multiple_of(8),
            "offset {offset} of a word is not a multiple of 8"
        );
        self.at(offset, 8).cast()
    }

    #[inline]
    pub(crate) fn check_writable(&self) {
        assert!(self.writable, "store to a medium that was opened read-only");
    }

    fn protection(&self) -> ProtFlags {
        if self.writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        }
    }

    /// Advises huge pages for a mapped range. Fails harmlessly on file systems without them.
    fn advise_huge(&self, from: u64, to: u64) {
        let start = self.base.as_ptr().wrapping_add(from as usize).cast();
        // SAFETY: the range was just mapped; the advice changes no contents.
        let result = unsafe { mm::madvise(start, (to - from) as usize, Advice::LinuxHugepage) };
        if let Err(error) = result {
            tracing::debug!(%error, "no huge pages here");
        }
    }

    /// Collapses the pages of a populated range to huge pages, for each piece of [`HUGE_PAGE`] that overlaps
    /// it. Returns false if the system refuses one of them.
    pub(crate) fn collapse(&self, from: u64, to: u64) -> bool {
        let end = round_up(to, HUGE_PAGE).min(self.len() / HUGE_PAGE * HUGE_PAGE);
        let mut at = from / HUGE_PAGE * HUGE_PAGE;
        let mut are_all = true;
        while at < end {
            let start = self.at(at, HUGE_PAGE as usize);
            // SAFETY: the piece is mapped (`at` has checked it); the call changes no contents, and whoever
            // accesses the piece meanwhile waits or not.
            let result = unsafe { libc::madvise(start.cast(), HUGE_PAGE as usize, libc::MADV_COLLAPSE) };
            if result != 0 {
                are_all = false;
                let error = std::io::Error::last_os_error();
                tracing::debug!(%error, at, "no huge page here");
            }
            at += HUGE_PAGE;
        }
        are_all
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let (start, len) = self.raw;
        // SAFETY: the mapping is ours, and with the region goes every borrow of its bytes.
        let result = unsafe { mm::munmap(start.as_ptr().cast(), len) };
        debug_assert!(result.is_ok(), "munmap of an own mapping: {result:?}");
    }
}

/// Returns the next multiple of `unit` (a power of two), or `value` itself if it is one.
#[inline]
pub(crate) fn round_up(value: u64, unit: u64) -> u64 {
    value
        .checked_next_multiple_of(unit)
        .unwrap_or_else(|| panic!("{value} bytes are beyond any address"))
}

/// Returns true if the file can be mapped so that a flush alone makes stores durable (`MAP_SYNC`) and the CPU
/// has a flush instruction.
#[allow(clippy::disallowed_methods, reason = "tries a mapping of one page")]
pub(crate) fn grants_map_sync(file: BorrowedFd<'_>, writable: bool) -> bool {
    if flush_instruction() == FlushInstruction::None {
        return false;
    }
    let protection = if writable {
        ProtFlags::READ | ProtFlags::WRITE
    } else {
        ProtFlags::READ
    };
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    // SAFETY: a new mapping at an address of the system's choice touches no existing one, and it is never
    // accessed.
    let Ok(page) = (unsafe { mm::mmap(ptr::null_mut(), PAGE as usize, protection, flags, file, 0) }) else {
        return false;
    };
    // SAFETY: the mapping was made above and nobody else knows it.
    unsafe { mm::munmap(page, PAGE as usize) }.is_ok()
}

fn map_nothing(len: u64) -> Result<NonNull<u8>, rustix::io::Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the system's choice touches no existing one.
    let start = unsafe { mm::mmap_anonymous(ptr::null_mut(), len as usize, ProtFlags::empty(), flags) }?;
    NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)
}

#[cold]
#[inline(never)]
fn out_of_range(offset: u64, len: u64, end: u64) -> ! {
    panic!("{len} bytes at offset {offset} are out of range: the medium has {end} bytes");
}
