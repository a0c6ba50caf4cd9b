//! Large buffers of DRAM on huge pages, for sort buffers and DRAM copies of randomly read data.
//!
//! With 4 KiB pages a random read costs nearly twice as much as with huge pages. A [`HugeVec`] is a vector
//! with its own mapping: aligned to 2 MiB if it is that long, zeroed by the system on first touch, and
//! unmapped on drop.
#![allow(unsafe_code, reason = "owns a mapping and lends it as a slice")]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use zerocopy::FromZeros;

use crate::region::{HUGE_PAGE, round_up};
use crate::{Bytes, MediaError, PAGE};

/// A growable array of plain values in a mapping of its own. Meant for large arrays, as each takes whole
/// pages.
pub struct HugeVec<T> {
    pages: Pages,
    len: usize,
    values: PhantomData<T>,
}

impl<T: FromZeros> HugeVec<T> {
    /// Creates an empty array that takes no memory yet.
    pub const fn new() -> HugeVec<T> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= PAGE as usize) };
        // The array frees its memory without dropping its values.
        const { assert!(!std::mem::needs_drop::<T>()) };
        HugeVec {
            pages: Pages::NONE,
            len: 0,
            values: PhantomData,
        }
    }

    /// Creates an empty array with room for `capacity` values.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn with_capacity(capacity: usize) -> Result<HugeVec<T>, MediaError> {
        let mut array = HugeVec::new();
        if capacity > 0 {
            array.pages = Pages::map(capacity.saturating_mul(size_of::<T>()))?;
        }
        Ok(array)
    }

    /// Creates `len` values of zero bytes. Memory is allocated on first touch.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn zeroed(len: usize) -> Result<HugeVec<T>, MediaError> {
        let mut array = HugeVec::with_capacity(len)?;
        array.len = len;
        Ok(array)
    }

    /// Returns the number of values that fit without reallocation.
    pub fn capacity(&self) -> usize {
        self.pages.len / size_of::<T>()
    }

    /// Returns the mapped bytes, which count against a memory budget once the array is full.
    pub fn mapped_bytes(&self) -> usize {
        self.pages.len
    }
}

impl<T: FromZeros + Copy> HugeVec<T> {
    /// Copies `values` into a new array.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn copy_of(values: &[T]) -> Result<HugeVec<T>, MediaError> {
        let mut array = HugeVec::zeroed(values.len())?;
        array.copy_from_slice(values);
        Ok(array)
    }

    /// Makes room for `additional` more values, at least doubling the capacity if it reallocates.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`]; the array is unchanged.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), MediaError> {
        let needed = self.len.saturating_add(additional);
        if needed > self.capacity() {
            let mut larger = HugeVec::with_capacity(needed.max(2 * self.capacity()))?;
            larger.len = self.len;
            larger.copy_from_slice(self);
            *self = larger;
        }
        Ok(())
    }

    /// Appends a value.
    ///
    /// # Panics
    /// If the system provides no more memory.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.len == self.capacity() {
            self.make_room(1);
        }
        let end = self.as_mut_ptr().wrapping_add(self.len);
        // SAFETY: there is room for one more after the `len` values, in memory that is ours.
        unsafe { end.write(value) };
        self.len += 1;
    }

    /// Appends copies of `values`.
    ///
    /// # Panics
    /// If the system provides no more memory.
    pub fn extend_from_slice(&mut self, values: &[T]) {
        let at = self.len;
        self.resize(at + values.len());
        self[at..].copy_from_slice(values);
    }

    /// Truncates the array to `len`, or extends it with zeroed values.
    ///
    /// # Panics
    /// If the system provides no more memory.
    pub fn resize(&mut self, len: usize) {
        if len > self.len {
            self.make_room(len - self.len);
            let added = self.as_mut_ptr().wrapping_add(self.len);
            // SAFETY: there is room for `len` values in memory that is ours, and zero bytes are a valid
            // value.
            unsafe { ptr::write_bytes(added, 0, len - self.len) };
        }
        self.len = len;
    }

    /// Unmaps the memory after the last value.
    pub fn shrink_to_fit(&mut self) {
        if self.len == 0 {
            self.pages = Pages::NONE;
        } else {
            self.pages.shorten(self.len * size_of::<T>());
        }
    }

    /// Removes all values and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    #[cold]
    fn make_room(&mut self, additional: usize) {
        if let Err(error) = self.try_reserve(additional) {
            panic!("{error}");
        }
    }
}

impl<T: FromZeros + Copy> Default for HugeVec<T> {
    fn default() -> HugeVec<T> {
        HugeVec::new()
    }
}

impl<T> Deref for HugeVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` values lie in the mapping, which is ours and aligned to a page, and are
        // initialised: by a write, or by the system with zero bytes, which `T: FromZeros` allows (no array is
        // made without that bound).
        unsafe { std::slice::from_raw_parts(self.pages.start.as_ptr().cast(), self.len) }
    }
}

impl<T> DerefMut for HugeVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pages.start.as_ptr().cast(), self.len) }
    }
}

impl<T: FromZeros + Copy> Extend<T> for HugeVec<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl<T: fmt::Debug> fmt::Debug for HugeVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Bytes for Arc<HugeVec<u8>> {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        self
    }
}

// SAFETY: the array owns its memory, as a `Vec` does.
unsafe impl<T: Send> Send for HugeVec<T> {}
// SAFETY: as a `Vec`.
unsafe impl<T: Sync> Sync for HugeVec<T> {}

/// An anonymous mapping; `start` dangles (aligned to a page) while `len` is 0.
struct Pages {
    start: NonNull<u8>,
    len: usize,
    raw_len: usize,
    raw_start: NonNull<u8>,
}

impl Pages {
    const NONE: Pages = {
        let dangling = match NonNull::new(ptr::without_provenance_mut(PAGE as usize)) {
            Some(address) => address,
            None => unreachable!(),
        };
        Pages {
            start: dangling,
            len: 0,
            raw_len: 0,
            raw_start: dangling,
        }
    };

    /// Maps at least `len` bytes (not 0), aligned to a huge page and advised to use them if it is that long.
    fn map(len: usize) -> Result<Pages, MediaError> {
        let out_of_memory = |error: rustix::io::Errno| MediaError::OutOfMemory {
            bytes: len as u64,
            source: error.into(),
        };
        if len > isize::MAX as usize / 2 {
            return Err(out_of_memory(rustix::io::Errno::NOMEM));
        }
        let len = round_up(len as u64, PAGE) as usize;
        let huge = len >= HUGE_PAGE as usize;
        let raw_len = if huge { len + HUGE_PAGE as usize } else { len };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no existing one.
        let raw = unsafe { mm::mmap_anonymous(ptr::null_mut(), raw_len, access, MapFlags::PRIVATE) };
        let raw_start = NonNull::new(raw.map_err(out_of_memory)?.cast::<u8>());
        let raw_start = raw_start.ok_or_else(|| out_of_memory(rustix::io::Errno::NOMEM))?;
        let mut pages = Pages {
            start: raw_start,
            len,
            raw_len,
            raw_start,
        };
        if huge {
            let skip = raw_start.as_ptr().align_offset(HUGE_PAGE as usize);
            // SAFETY: the mapping is `HUGE_PAGE` longer than `len`, and `skip` is less than that.
            pages.start = unsafe { raw_start.add(skip) };
            let start = pages.start.as_ptr().cast();
            // SAFETY: the range was just mapped; the advice changes no contents.
            let advised = unsafe { mm::madvise(start, len, Advice::LinuxHugepage) };
            if let Err(error) = advised {
                tracing::debug!(%error, "no huge pages here");
            }
        }
        Ok(pages)
    }
}

impl Pages {
    /// Unmaps the pages after the first `len` bytes (not 0).
    fn shorten(&mut self, len: usize) {
        let len = round_up(len as u64, PAGE) as usize;
        if len >= self.len {
            return;
        }
        let kept = self.start.addr().get() - self.raw_start.addr().get() + len;
        let end = self.raw_start.as_ptr().wrapping_add(kept);
        // SAFETY: the mapping is ours, and `&mut self` says that nothing borrows its bytes; `kept` is a
        // multiple of a page within it.
        let result = unsafe { mm::munmap(end.cast(), self.raw_len - kept) };
        match result {
            Ok(()) => (self.len, self.raw_len) = (len, kept),
            // The system is short of mappings: the memory stays mapped and counted.
            Err(error) => tracing::debug!(%error, "memory is kept"),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is ours, and with it goes every borrow of its bytes.
            let result = unsafe { mm::munmap(self.raw_start.as_ptr().cast(), self.raw_len) };
            debug_assert!(result.is_ok(), "munmap of an own mapping: {result:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_like_a_vector() {
        let mut array = HugeVec::new();
        let mut model = Vec::new();
        for value in 0..400_000_u64 {
            array.push(value * 3);
            model.push(value * 3);
        }
        assert_eq!(*array, *model);
        array.resize(7);
        array.resize(9);
        array.extend_from_slice(&[5, 6]);
        array.extend([7]);
        assert_eq!(*array, [0, 3, 6, 9, 12, 15, 18, 0, 0, 5, 6, 7]);
        array.clear();
        assert!(array.is_empty());
    }

    #[test]
    fn large_ones_start_at_a_huge_page() {
        let array = HugeVec::<u32>::zeroed(1 << 20).unwrap();
        assert_eq!(array.as_ptr().addr() % HUGE_PAGE as usize, 0);
        assert!(array.iter().all(|value| *value == 0));
        assert!(array.capacity() >= 1 << 20);
        let bytes = Arc::new(HugeVec::copy_of(b"abc").unwrap());
        assert_eq!(Bytes::as_slice(&bytes), b"abc");
    }

    #[test]
    fn what_is_not_used_is_given_back() {
        for len in [0, 1, 5000, (5 << 20) + 7] {
            let mut array = HugeVec::<u8>::zeroed(9 << 20).unwrap();
            array
                .iter_mut()
                .enumerate()
                .for_each(|(i, value)| *value = i as u8);
            array.resize(len);
            array.shrink_to_fit();
            assert_eq!(array.mapped_bytes() as u64, round_up(len as u64, PAGE));
            assert!(array.iter().enumerate().all(|(i, value)| *value == i as u8));
            array.extend_from_slice(&[1, 2, 3]);
            assert_eq!(array[len..], [1, 2, 3]);
        }
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(matches!(
            HugeVec::<u64>::zeroed(usize::MAX / 4),
            Err(MediaError::OutOfMemory { .. })
        ));
        assert!(matches!(
            HugeVec::<u8>::zeroed(1 << 60),
            Err(MediaError::OutOfMemory { .. })
        ));
    }
}
