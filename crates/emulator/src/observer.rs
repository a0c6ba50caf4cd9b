//! [`AccessObserver`] of a medium's slices, implemented by the device.

use std::time::Duration;

use halocline_media::AccessObserver;

use crate::{ClockMode, Device};

impl AccessObserver for Device {
    fn touch(&self, address: u64, bytes: &[u8]) {
        self.touch_real(address, bytes.len(), bytes);
    }

    fn touch_each(&self, addresses: &mut dyn Iterator<Item = u64>) {
        self.touch_each(addresses);
    }

    fn scan(&self, address: u64, len: usize) {
        self.scan(address, len);
    }

    fn scan_ahead(&self, address: u64, len: usize) {
        self.scan_ahead(address, len);
    }

    fn prefetch(&self, address: u64) {
        self.prefetch(address);
    }

    fn thread_time(&self) -> Duration {
        self.settle();
        match self.spec().clock {
            ClockMode::Virtual => self.own_spent(),
            ClockMode::Delay => self.elapsed().saturating_sub(self.own_overrun()),
        }
    }
}
