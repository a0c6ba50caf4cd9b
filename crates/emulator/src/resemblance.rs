//! The published device that a measured medium is most like: [`Resemblance`].

use halocline_media::AccessFigures;
use serde::Serialize;

use crate::DeviceProfile;

/// The built-in profile that is nearest to a measured medium.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resemblance {
    /// The name of the profile, as `--medium emulated:NAME` takes it.
    pub profile: String,
    /// The device in words.
    pub device: &'static str,
    /// The typical factor between a figure of the medium and that of the device, at least 1: `e` to the
    /// power of the root mean square of the differences of their logarithms.
    pub factor: f64,
}

impl Resemblance {
    /// Finds the device for a medium that was measured beside DRAM. Random read latency, peak read bandwidth
    /// and peak write bandwidth are compared *in proportion to DRAM*, as an emulation scales them: the
    /// machines of the published figures have other DRAM and more cores. The nearest device is that with the
    /// least sum of squared differences of the logarithms of the three ratios.
    #[must_use]
    pub fn find(medium: &AccessFigures, dram: &AccessFigures) -> Resemblance {
        let measured = [
            medium.random_read_ns / dram.random_read_ns,
            medium.peak_read / dram.peak_read,
            medium.peak_write / dram.peak_write,
        ];
        let compared = devices().map(|(profile, device)| {
            let squares = ratios(&profile)
                .into_iter()
                .zip(measured)
                .map(|(published, measured)| (measured / published).ln().powi(2));
            let mean = squares.sum::<f64>() / measured.len() as f64;
            Resemblance {
                profile: profile.name,
                device,
                factor: mean.sqrt().exp(),
            }
        });
        let [first, others @ ..] = compared;
        others.into_iter().fold(first, |nearest, other| {
            if other.factor < nearest.factor {
                other
            } else {
                nearest
            }
        })
    }
}

/// Returns the built-in profiles and their devices.
fn devices() -> [(DeviceProfile, &'static str); 4] {
    [
        (DeviceProfile::dram(), "DRAM"),
        (DeviceProfile::optane(), "Optane DC persistent memory"),
        (
            DeviceProfile::cxl(),
            "CXL memory or the memory of a far NUMA node",
        ),
        (DeviceProfile::nvme(), "NAND flash behind NVMe"),
    ]
}

/// Returns random read latency, read and write bandwidth of the device divided by those of its DRAM.
fn ratios(profile: &DeviceProfile) -> [f64; 3] {
    let peak = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    let (device, dram) = (&profile.device, &profile.dram);
    [
        device.random_ns / dram.random_ns,
        peak(&device.read_gbps) / peak(&dram.read_gbps),
        peak(&device.write_gbps) / peak(&dram.write_gbps),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use halocline_media::Rate;

    fn figures(random_read_ns: f64, peak_read: f64, peak_write: f64) -> AccessFigures {
        let rate = |bytes_per_second| {
            vec![Rate {
                threads: 1,
                bytes_per_second,
            }]
        };
        AccessFigures {
            sequential_read_ns: 5.0,
            random_read_ns,
            read: rate(peak_read),
            write: rate(peak_write),
            peak_read,
            peak_write,
            writers: 1,
            unit: 64,
            unit_measured: true,
            persist_ns: 1.0,
            strides: Vec::new(),
            probes: Vec::new(),
        }
    }

    #[test]
    fn every_device_resembles_itself_on_any_host() {
        assert_eq!(devices().map(|(profile, _)| profile.name), DeviceProfile::names());
        let dram = figures(70.0, 20e9, 12e9);
        for (profile, device) in devices() {
            let [latency, read, write] = ratios(&profile);
            let medium = figures(70.0 * latency, 20e9 * read, 12e9 * write);
            let found = Resemblance::find(&medium, &dram);
            assert_eq!((found.profile, found.device), (profile.name, device));
            assert!((found.factor - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_factor_is_the_typical_difference() {
        let dram = figures(100.0, 10e9, 10e9);
        let found = Resemblance::find(&figures(110.0, 10e9 / 1.1, 11e9), &dram);
        assert_eq!(found.device, "DRAM");
        assert!((found.factor - 1.1).abs() < 1e-9, "{}", found.factor);
    }
}
