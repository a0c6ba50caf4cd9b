//! What this host's DRAM can do: [`Host`], the measure of relative emulation.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::profile::DeviceFigures;
use crate::{CalibrateOptions, Dram, HugeVec, MediaError, calibrate};

/// Measured figures of DRAM on huge pages. They go into every result of a relative emulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Nanoseconds of a read at a random place whose address comes from the read before.
    pub random_ns: f64,
    /// Sequential reading, GB/s by thread count.
    pub read_gbps: Vec<f64>,
    /// Sequential writing, GB/s by thread count.
    pub write_gbps: Vec<f64>,
}

/// Bytes to range over: several times any cache.
const BYTES: usize = 256 << 20;
const WORDS_OF_LINE: usize = 16;

impl Host {
    /// Measures, in about two seconds, the DRAM of a process that is alone; a busy machine looks slower than it is.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`]: it needs 256 MiB.
    pub fn measure() -> Result<Host, MediaError> {
        let random_ns = chase()?;
        let options = CalibrateOptions {
            bytes: BYTES as u64,
            time: Duration::from_millis(600),
            ..CalibrateOptions::default()
        };
        let measured = calibrate(&mut Dram::new(0)?, &options)?;
        let gigabytes = |list: &[f64]| list.iter().map(|bytes| bytes / 1e9).collect();
        Ok(Host {
            random_ns,
            read_gbps: gigabytes(&measured.read_bandwidth),
            write_gbps: gigabytes(&measured.write_bandwidth),
        })
    }

    /// Measured when it is first asked for, the same ever after in this process.
    ///
    /// # Errors
    /// As [`measure`](Host::measure).
    pub fn get() -> Result<Host, MediaError> {
        static MEASURED: OnceLock<Host> = OnceLock::new();
        if let Some(host) = MEASURED.get() {
            return Ok(host.clone());
        }
        let host = Host::measure()?;
        Ok(MEASURED.get_or_init(|| host).clone())
    }

    /// A host whose DRAM is that of a profile: for tests, whose times then do not depend on the machine.
    pub fn like(dram: &DeviceFigures) -> Host {
        Host {
            random_ns: dram.random_ns,
            read_gbps: dram.read_gbps.clone(),
            write_gbps: dram.write_gbps.clone(),
        }
    }
}

/// Nanoseconds of a step of a walk through all lines in random order. The shortest of several parts, as whatever else
/// runs on the machine only adds.
fn chase() -> Result<f64, MediaError> {
    const PARTS: u32 = 8;
    const STEPS: u32 = 100_000;
    let lines = BYTES / (4 * WORDS_OF_LINE);
    let mut next = HugeVec::<u32>::zeroed(lines * WORDS_OF_LINE)?;
    for line in 0..lines {
        next[line * WORDS_OF_LINE] = (line * WORDS_OF_LINE) as u32;
    }
    // One circle through all lines (Sattolo's shuffle).
    let mut random = SmallRng::seed_from_u64(1);
    for line in (1..lines).rev() {
        let other = random.random_range(0..line);
        next.swap(line * WORDS_OF_LINE, other * WORDS_OF_LINE);
    }
    let (mut at, mut best) = (0, f64::INFINITY);
    for _ in 0..PARTS {
        let start = Instant::now();
        for _ in 0..STEPS {
            at = next[at as usize];
        }
        let step = start.elapsed().as_secs_f64() * 1e9 / f64::from(STEPS);
        best = best.min(step);
    }
    std::hint::black_box(at);
    Ok(best)
}
