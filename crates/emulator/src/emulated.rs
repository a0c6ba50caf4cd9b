//! A medium whose accesses are charged to a device: [`Emulated`].

use std::sync::Arc;

use crate::Device;
use halocline_media::{AccessObserver, MediaError, Medium, MediumAccess, MediumBackend, forward_medium};

/// A medium that behaves like the one below it and costs what the emulated device would cost. Stores, fences
/// and growth have the semantics of the medium below, whose [`kind`](Medium::kind) is reported.
///
/// Stores go to the modelled cache and reach the device when they are flushed. Slices are not charged here:
/// their readers report accesses to the observer.
#[derive(Debug)]
pub struct Emulated {
    medium: Medium,
    device: Arc<Device>,
    base: u64,
}

/// Least number of addresses reserved for a medium, which may grow.
const ADDRESSES: u64 = 4 << 30;

impl Emulated {
    /// Puts the medium on the device, at a reserved address range of twice its length and at least 4 GiB. A
    /// medium that grows beyond that may share cache lines with what was reserved later.
    pub fn new(medium: impl Into<Medium>, device: Arc<Device>) -> Emulated {
        let medium = medium.into();
        let base = device.reserve(ADDRESSES.max(2 * medium.len()));
        Emulated { medium, device, base }
    }

    /// Returns the medium below.
    pub fn inner(&self) -> &Medium {
        &self.medium
    }

    /// Returns the device that accesses are charged to.
    pub fn emulator(&self) -> &Arc<Device> {
        &self.device
    }
}

impl MediumAccess for Emulated {
    forward_medium!(medium: len, slice);

    #[inline]
    fn load(&self, offset: u64, into: &mut [u8]) {
        if !into.is_empty() {
            self.device.touch(self.base.wrapping_add(offset), into.len());
        }
        self.medium.load(offset, into);
    }

    #[inline]
    fn load_u64(&self, offset: u64) -> u64 {
        self.device.touch(self.base.wrapping_add(offset), 8);
        self.medium.load_u64(offset)
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        self.medium.prefetch(offset);
        if offset < self.len() {
            self.device.prefetch(self.base + offset);
        }
    }

    #[inline]
    fn store(&self, offset: u64, bytes: &[u8]) {
        self.medium.store(offset, bytes);
        self.device.wrote(self.base + offset, bytes.len());
    }

    #[inline]
    fn store_u64(&self, offset: u64, value: u64) {
        self.medium.store_u64(offset, value);
        self.device.wrote(self.base + offset, 8);
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        self.medium.flush(offset, len);
        self.device.flush(self.base + offset, len);
    }

    #[inline]
    fn fence(&self) -> Result<(), MediaError> {
        self.medium.fence()?;
        self.device.fence();
        Ok(())
    }
}

impl MediumBackend for Emulated {
    forward_medium!(
        medium: kind, grow, reserve, discard, truncate, allocated, refresh, sync, fence_is_durable, as_file
    );

    fn observer(&self) -> Option<(Arc<dyn AccessObserver>, u64)> {
        Some((Arc::<Device>::clone(&self.device), self.base))
    }
}

impl Device {
    /// Wraps the medium so that all accesses are charged to this device; see [`Emulated`].
    #[must_use]
    pub fn emulate(self: &Arc<Device>, medium: impl Into<Medium>) -> Medium {
        Emulated::new(medium, Arc::clone(self)).into()
    }
}

impl From<Emulated> for Medium {
    fn from(emulated: Emulated) -> Medium {
        Medium::over(Arc::new(emulated))
    }
}
