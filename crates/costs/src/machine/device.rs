//! The speed of a device below the page cache.

use halocline_media::{PAGE, Profile};

/// The speed of a device below the page cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceSpeed {
    /// Nanoseconds per byte of reads that are some MiB long.
    pub byte_ns: f64,
    /// Nanoseconds per page of many single pages that are requested ahead.
    pub page_ns: f64,
}

/// Reads of single pages that are in flight on average when they are requested ahead: the kernel takes about
/// a quarter of the time of a read to accept a request.
const IN_FLIGHT: f64 = 4.0;

impl DeviceSpeed {
    /// A disk of a cloud machine, for media that were not calibrated.
    pub const ASSUMED: Self = Self::new(1.5e9, 60_000.0);

    /// Creates the speed of a device from its bandwidth in bytes per second, and the nanoseconds of a random
    /// read of a page. Single pages are never faster than long reads.
    pub const fn new(bytes_per_second: f64, random_read_ns: f64) -> Self {
        let byte_ns = 1e9 / bytes_per_second;
        Self {
            byte_ns,
            page_ns: (random_read_ns / IN_FLIGHT).max(PAGE as f64 * byte_ns),
        }
    }

    /// Returns the speed that the profile of a medium says; [`ASSUMED`](Self::ASSUMED) without a profile, or
    /// if its device was not measured.
    pub fn of_profile(profile: Option<&Profile>) -> Self {
        let device = profile.and_then(|profile| profile.cold.as_ref());
        device.map_or(Self::ASSUMED, |device| {
            Self::new(device.peak_read, device.random_read_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_pages_are_never_faster_than_long_reads() {
        assert_eq!(DeviceSpeed::new(1e9, 10.0).page_ns, 4096.0);
        assert_eq!(DeviceSpeed::new(1e9, 80_000.0).page_ns, 20_000.0);
        assert_eq!(DeviceSpeed::of_profile(None), DeviceSpeed::ASSUMED);
    }
}
