//! The performance of a device in numbers: [`DeviceProfile`].
//!
//! A profile can be read from a JSON file with the fields of [`DeviceProfile`]; docs/architecture.md has an
//! example.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::EmulatedError;
use halocline_media::LINE;

/// Latencies and bandwidths of one kind of memory, as seen by software.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFigures {
    /// Nanoseconds to read a line whose unit is not in the device's buffer.
    pub random_ns: f64,
    /// Nanoseconds to read a line of the unit directly after the one read before, not in the buffer.
    pub next_unit_ns: f64,
    /// Nanoseconds to read a line whose unit is in the device's buffer.
    pub buffered_ns: f64,
    /// Nanoseconds until a flushed line is accepted, which is what a fence waits for.
    pub write_ns: f64,
    /// Sequential read bandwidth of all threads together in GB/s: the figure for `n` threads at index `n -
    /// 1`. The last figure applies to all larger thread counts.
    pub read_gbps: Vec<f64>,
    /// Sequential write bandwidth, in the format of `read_gbps`.
    pub write_gbps: Vec<f64>,
}

/// A device and the DRAM it is compared with. An emulation keeps the ratios between the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceProfile {
    /// The name shown in output.
    pub name: String,
    /// Bytes per access of the device: a power of two, at least a line.
    pub unit: u64,
    /// Units in the device's buffer. Reads of a buffered unit are faster, and flushes to it are combined
    /// into one write.
    pub buffer_units: u32,
    /// Figures of the device.
    pub device: DeviceFigures,
    /// Figures of the DRAM in the machine that the device was measured in.
    pub dram: DeviceFigures,
}

/// Returns the DRAM of the reference's machine. From the reference: 90 and 80 ns, 85 and 46 GB/s. Not from
/// it: `write_ns` (the memory controller accepts a flush in about the time of a read).
fn reference_dram() -> DeviceFigures {
    DeviceFigures {
        random_ns: 90.0,
        next_unit_ns: 80.0,
        buffered_ns: 80.0,
        write_ns: 90.0,
        read_gbps: vec![85.0],
        write_gbps: vec![46.0],
    }
}

impl DeviceProfile {
    /// Returns the names of the built-in profiles.
    pub fn names() -> [&'static str; 4] {
        ["dram", "optane", "cxl", "nvme"]
    }

    /// Returns DRAM: the device equals the DRAM that it is compared with.
    pub fn dram() -> DeviceProfile {
        DeviceProfile {
            name: "dram".into(),
            unit: LINE,
            buffer_units: 0,
            device: reference_dram(),
            dram: reference_dram(),
        }
    }

    /// Returns Optane DC persistent memory. From the reference: random reads of 325 ns, sequential ones of
    /// 175 ns, 32 GB/s read, 13 GB/s written, units of 256 B.
    ///
    /// Derived: a sequential reader finds three lines of four in the buffer, so these take (4 * 175 - 325) /
    /// 3 = 125 ns. Not from the reference: 64 units (16 KiB) of buffer, and a flush accepted within 94 ns
    /// (both from published measurements of the device). The bandwidths are the largest measured; the
    /// reference does not say how they grow with threads, so the ratio to DRAM is the same for every
    /// thread count.
    pub fn optane() -> DeviceProfile {
        DeviceProfile {
            name: "optane".into(),
            unit: 256,
            buffer_units: 64,
            device: DeviceFigures {
                random_ns: 325.0,
                next_unit_ns: 325.0,
                buffered_ns: 125.0,
                write_ns: 94.0,
                read_gbps: vec![32.0],
                write_gbps: vec![13.0],
            },
            dram: reference_dram(),
        }
    }

    /// Returns memory behind CXL. None of its figures is from the reference: about twice the latency of local
    /// DRAM, and the bandwidth of one x8 link, compared with the reference's DRAM.
    pub fn cxl() -> DeviceProfile {
        DeviceProfile {
            name: "cxl".into(),
            unit: LINE,
            buffer_units: 0,
            device: DeviceFigures {
                random_ns: 210.0,
                next_unit_ns: 190.0,
                buffered_ns: 190.0,
                write_ns: 210.0,
                read_gbps: vec![26.0],
                write_gbps: vec![20.0],
            },
            dram: reference_dram(),
        }
    }

    /// Returns NAND flash behind NVMe, read through mapped pages. From the reference: 200 and 16 us, 3 and
    /// 0.6 GB/s. Not from it: pages of 4 KiB, DRAM latency for a line of a resident page, 4096 resident
    /// pages (16 MiB), 20 us per write.
    pub fn nvme() -> DeviceProfile {
        DeviceProfile {
            name: "nvme".into(),
            unit: 4096,
            buffer_units: 4096,
            device: DeviceFigures {
                random_ns: 200_000.0,
                next_unit_ns: 16_000.0,
                buffered_ns: 90.0,
                write_ns: 20_000.0,
                read_gbps: vec![3.0],
                write_gbps: vec![0.6],
            },
            dram: reference_dram(),
        }
    }

    /// Returns the built-in profile of that name, or reads one from the JSON file at that path.
    ///
    /// # Errors
    /// [`EmulatedError::UnknownProfile`] if it is neither, or an error that describes the defect of the file.
    pub fn find(name_or_json_file: &str) -> Result<DeviceProfile, EmulatedError> {
        let profile = match name_or_json_file {
            "dram" => DeviceProfile::dram(),
            "optane" => DeviceProfile::optane(),
            "cxl" => DeviceProfile::cxl(),
            "nvme" => DeviceProfile::nvme(),
            name if !Path::new(name).is_file() => {
                return Err(EmulatedError::UnknownProfile {
                    name: name.to_owned(),
                });
            }
            file => read(Path::new(file))?,
        };
        profile.validated()
    }

    /// Checks that all figures are in range.
    ///
    /// # Errors
    /// [`EmulatedError::Figure`] names the first figure that is not.
    pub fn validated(self) -> Result<DeviceProfile, EmulatedError> {
        let wrong = |field, value, must| EmulatedError::Figure {
            name: self.name.clone(),
            field,
            value,
            must,
        };
        if !self.unit.is_power_of_two() || self.unit < LINE || self.unit > 1 << 20 {
            return Err(wrong(
                "unit",
                self.unit as f64,
                "a power of two from 64 to 1048576",
            ));
        }
        if self.buffer_units > 1 << 16 {
            return Err(wrong("buffer_units", self.buffer_units.into(), "at most 65536"));
        }
        for figures in [&self.device, &self.dram] {
            let times = [
                ("random_ns", figures.random_ns),
                ("next_unit_ns", figures.next_unit_ns),
                ("buffered_ns", figures.buffered_ns),
                ("write_ns", figures.write_ns),
            ];
            let of_lists = |field, list: &[f64]| match list {
                [] => vec![(field, 0.0)],
                list => list.iter().map(|value| (field, *value)).collect(),
            };
            let rates = of_lists("read_gbps", &figures.read_gbps)
                .into_iter()
                .chain(of_lists("write_gbps", &figures.write_gbps));
            for (field, value) in times.into_iter().chain(rates) {
                if !(value > 0.0 && value < 1e9) {
                    return Err(wrong(field, value, "more than 0 and less than 1e9"));
                }
            }
        }
        Ok(self)
    }
}

fn read(path: &Path) -> Result<DeviceProfile, EmulatedError> {
    let text = std::fs::read(path).map_err(|source| EmulatedError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|source| EmulatedError::NotAProfile {
        path: path.to_owned(),
        source,
    })
}
