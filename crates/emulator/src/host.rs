//! The DRAM performance of this host, which relative emulation scales to: [`Host`].

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::profile::DeviceFigures;
use halocline_calibrate::{MediumMeter, kernels};
use halocline_media::{Dram, MediaError, Medium};

/// Measured figures of DRAM on huge pages, recorded with every result of a relative emulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Nanoseconds of a random read whose address depends on the read before.
    pub random_ns: f64,
    /// Sequential read bandwidth in GB/s, by thread count.
    pub read_gbps: Vec<f64>,
    /// Sequential write bandwidth in GB/s, by thread count.
    pub write_gbps: Vec<f64>,
}

/// Bytes of the pointer chase: far larger than any cache, and large enough for TLB misses to count, as in a
/// large index.
const CHASE_BYTES: u64 = 512 << 20;
/// Bytes of the bandwidth measurement.
const BANDWIDTH_BYTES: u64 = 256 << 20;
/// Time of each figure.
const TIME_PER_FIGURE: Duration = Duration::from_millis(60);
/// Largest number of threads measured.
const MAX_THREADS: u32 = 64;

impl Host {
    /// Measures this host in about a second, with one thread up to one per CPU. Each figure is the lower
    /// quartile of many short measurements, which tolerates other load as long as it leaves memory
    /// bandwidth alone.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`] if 512 MiB cannot be allocated.
    pub fn measure() -> Result<Host, MediaError> {
        let memory = Medium::from(Dram::new(CHASE_BYTES)?);
        let never = AtomicBool::new(false);
        let meter = MediumMeter {
            time: TIME_PER_FIGURE,
            cancelled: &never,
        };
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let threads = 1..=cpus.min(MAX_THREADS);
        kernels::link(&memory, CHASE_BYTES);
        let gbps = |bytes_per_second: f64| bytes_per_second / 1e9;
        let random_ns = meter.dependent_read(&memory, kernels::SHUFFLED);
        let read = |threads| gbps(meter.read_bandwidth(&memory, BANDWIDTH_BYTES, threads));
        let write = |threads| meter.write_bandwidth(&memory, BANDWIDTH_BYTES, threads).map(gbps);
        Ok(Host {
            random_ns,
            read_gbps: threads.clone().map(read).collect(),
            write_gbps: threads.map(write).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the figures of this host, measured on the first call and then cached for the process.
    ///
    /// # Errors
    /// Fails like [`measure`](Host::measure).
    pub fn get() -> Result<Host, MediaError> {
        static MEASURED: OnceLock<Host> = OnceLock::new();
        if let Some(host) = MEASURED.get() {
            return Ok(host.clone());
        }
        let host = Host::measure()?;
        Ok(MEASURED.get_or_init(|| host).clone())
    }

    /// Returns a host whose DRAM has the given figures. Tests use it to be independent of the machine.
    pub fn like(dram: &DeviceFigures) -> Host {
        Host {
            random_ns: dram.random_ns,
            read_gbps: dram.read_gbps.clone(),
            write_gbps: dram.write_gbps.clone(),
        }
    }
}
