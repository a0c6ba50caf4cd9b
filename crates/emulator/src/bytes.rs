//! Bytes whose reads are charged to an emulated device: [`EmulatedBytes`].

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::Device;
use halocline_media::{AccessObserver, BlockDamage, Bytes};

/// Bytes of any kind whose reads are charged to a [`Device`].
#[derive(Debug, Clone)]
pub struct EmulatedBytes<B> {
    bytes: B,
    device: Arc<Device>,
    base: u64,
}

impl<B: Bytes> EmulatedBytes<B> {
    /// Wraps the bytes and reserves an address range of the device for them.
    pub fn new(bytes: B, device: Arc<Device>) -> EmulatedBytes<B> {
        let base = device.reserve(bytes.as_slice().len() as u64);
        EmulatedBytes::with_base(bytes, device, base)
    }

    /// Wraps the bytes, which begin at the device address `base`.
    pub fn with_base(bytes: B, device: Arc<Device>, base: u64) -> EmulatedBytes<B> {
        EmulatedBytes { bytes, device, base }
    }

    /// Returns the device that reads are charged to.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Returns the wrapped bytes.
    pub fn inner(&self) -> &B {
        &self.bytes
    }
}

impl<B: Bytes> Bytes for EmulatedBytes<B> {
    #[inline]
    fn verified_blocks(&self) -> &[AtomicU64] {
        self.bytes.verified_blocks()
    }

    fn verify(&self, offset: usize, len: usize) {
        self.bytes.verify(offset, len);
    }

    #[inline]
    fn damage(&self) -> Option<BlockDamage> {
        self.bytes.damage()
    }

    #[inline(always)]
    fn as_slice(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    #[inline]
    fn touch(&self, offset: usize, len: usize) {
        self.device
            .touch_bytes(self.base, self.bytes.as_slice(), offset, len);
    }

    #[inline]
    fn touch_each(&self, offsets: impl Iterator<Item = usize>) {
        let inside = offsets.filter(|offset| *offset < self.bytes.as_slice().len());
        self.device
            .touch_each(inside.map(|offset| self.base + offset as u64));
    }

    #[inline]
    fn scan(&self, offset: usize, len: usize) {
        let end = offset.saturating_add(len).min(self.bytes.as_slice().len());
        self.device
            .scan(self.base + offset as u64, end.saturating_sub(offset));
    }

    #[inline]
    fn scan_ahead(&self, offset: usize, len: usize) {
        let end = offset.saturating_add(len).min(self.bytes.as_slice().len());
        self.device
            .scan_ahead(self.base + offset as u64, end.saturating_sub(offset));
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        self.bytes.prefetch(offset);
        if offset < self.bytes.as_slice().len() {
            self.device.prefetch(self.base + offset as u64);
        }
    }

    #[inline]
    fn observer(&self) -> Option<&dyn AccessObserver> {
        Some(&*self.device)
    }
}
