//! Measurement of a medium and of DRAM beside it: [`calibrate`].
//!
//! It takes seconds, which suffices to choose between plans and to tell media apart; figures vary by about
//! ten percent from run to run, more on a busy machine. The result is a [`Profile`], which is kept in a file
//! for the pools on that medium.
//!
//! The scratch files of a calibration have no names, so nothing is left however it ends.

mod check;
mod cold;
mod error;
mod file;
mod measure;
mod numa;
mod profile;
mod scratch;
mod unit;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::kernels::{self, ProbeTable, SEQUENTIAL, SHUFFLED};
use crate::{Dram, LINE, Medium, MediumBackend, MediumKind};

use cold::ColdFile;
use measure::{rates, thread_counts};
use profile::peak_of;
use scratch::FileSystem;

pub use check::ProfileInconsistency;
pub use error::{CalibrateError, ProfileError};
pub use measure::MediumMeter;
pub use numa::numa_nodes;
pub use profile::{AccessFigures, ProbeFigures, Profile, ProfiledMedium, Rate, StrideFigures};

/// Size of the smallest table that is probed, in bytes.
const MIN_TABLE_BYTES: u64 = 32 << 10;
/// Minimum number of bytes to range over: 1 MiB per thread, and enough for the longest stride.
const MIN_BYTES_PER_THREAD: u64 = 1 << 20;
/// Bytes by which a scratch file grows before it is asked again whether to go on.
const GROWTH_STEP: u64 = 64 << 20;
/// Most bytes that are written to a device below the page cache.
const COLD_BYTES: u64 = 64 << 20;

/// Memory to measure. Its textual form is the path of a directory, or `numa:N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalibrateTarget {
    /// Files in a directory.
    Directory(PathBuf),
    /// Memory of a NUMA node.
    NumaNode(u32),
}

/// Options of a calibration.
#[derive(Debug, Clone)]
pub struct CalibrateOptions {
    /// Bytes to range over, rounded down to a power of two of at least 1 MiB per thread. `None`: eight times
    /// the last-level cache, from 256 MiB to 1 GiB, as far as memory allows.
    pub bytes: Option<u64>,
    /// The largest number of threads; 0 is taken for 1.
    pub threads: u32,
    /// Time of each of the single measurements, of which there are about a hundred.
    pub time: Duration,
}

impl Default for CalibrateOptions {
    /// Returns options for seconds of measurement, with up to one thread per CPU.
    fn default() -> CalibrateOptions {
        CalibrateOptions {
            bytes: None,
            threads: cpus(),
            time: Duration::from_millis(30),
        }
    }
}

impl CalibrateOptions {
    /// Returns options for a measurement that takes ten times longer.
    #[must_use]
    pub fn thorough() -> CalibrateOptions {
        CalibrateOptions {
            time: Duration::from_millis(300),
            ..CalibrateOptions::default()
        }
    }
}

/// The state of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrateStep<'a> {
    /// Steps done.
    pub done: usize,
    /// Steps in total.
    pub total: usize,
    /// The step that begins.
    pub name: &'a str,
}

/// Measures a medium and DRAM. Calls `progress` before each step. Ends with
/// [`CalibrateError::Cancelled`] soon after `cancelled` is set.
///
/// # Errors
/// [`CalibrateError`]; nothing is left on the medium.
pub fn calibrate(
    target: &CalibrateTarget,
    options: &CalibrateOptions,
    cancelled: &AtomicBool,
    progress: &mut dyn FnMut(CalibrateStep<'_>),
) -> Result<Profile, CalibrateError> {
    let threads = options.threads.max(1);
    let bytes = options.bytes.unwrap_or_else(default_bytes);
    let least = MIN_BYTES_PER_THREAD * u64::from(threads).next_power_of_two();
    let bytes = 1 << bytes.max(least).ilog2();
    let meter = MediumMeter {
        time: options.time,
        cancelled,
    };
    let mut steps = Steps {
        done: 0,
        total: 2 * STEPS_OF_MEMORY,
        cancelled,
        progress,
    };
    let counts = thread_counts(threads);
    let memory = |medium: &Medium, bytes, name, known, steps: &mut Steps<'_>| {
        measure_memory(medium, bytes, &counts, &meter, (name, known), steps)
    };
    let mut cold = None;
    let (medium, file_system, warm) = match target {
        CalibrateTarget::NumaNode(node) => {
            scratch::check_memory(bytes)?;
            let node_memory = numa::memory_of(*node, bytes)?;
            let warm = memory(&Medium::from(node_memory), bytes, "medium", LINE, &mut steps)?;
            (ProfiledMedium::NumaNode(*node), String::new(), warm)
        }
        CalibrateTarget::Directory(directory) => {
            scratch::check_directory(directory)?;
            let file = scratch::medium(directory)?;
            let cold_bytes = bytes.min(COLD_BYTES);
            let needed = bytes.saturating_add(cold_bytes);
            let file_system = FileSystem::examine(&file, directory, needed)?;
            scratch::check_memory(bytes)?;
            let kind = match (file.kind(), file_system.memory) {
                (MediumKind::Dax, _) => ProfiledMedium::Dax,
                (_, true) => ProfiledMedium::MemoryFile,
                (_, false) => ProfiledMedium::PageCache,
            };
            if kind == ProfiledMedium::PageCache {
                steps.total += STEPS_OF_DEVICE;
                let device = ColdFile::create(directory, cold_bytes)?;
                let measured = device.measure(&counts, &meter, &mut steps)?;
                cold = Some(measured);
            }
            for at in (0..bytes).step_by(GROWTH_STEP as usize) {
                steps.check()?;
                file.grow((at + GROWTH_STEP).min(bytes))?;
            }
            let known = if kind == ProfiledMedium::Dax {
                file.kind().unit()
            } else {
                LINE
            };
            let warm = memory(&Medium::from(file), bytes, "medium", known, &mut steps)?;
            (kind, file_system.name, warm)
        }
    };
    let dram = memory(&Medium::from(Dram::new(bytes)?), bytes, "DRAM", LINE, &mut steps)?;
    steps.check()?;
    Ok(Profile {
        version: Profile::VERSION,
        medium,
        file_system,
        bytes,
        cache_bytes: scratch::cache_bytes(),
        cpus: threads,
        warm: warm.rounded(),
        cold: cold.map(AccessFigures::rounded),
        dram: dram.rounded(),
    })
}

/// Steps of [`measure_memory`] and of [`ColdFile::measure`].
const STEPS_OF_MEMORY: usize = 7;
const STEPS_OF_DEVICE: usize = 5;

/// Measures memory that is `bytes` long and may be overwritten.
fn measure_memory(
    medium: &Medium,
    bytes: u64,
    counts: &[u32],
    meter: &MediumMeter<'_>,
    (name, known_unit): (&str, u64),
    steps: &mut Steps<'_>,
) -> Result<AccessFigures, CalibrateError> {
    let mut step = |what: &str| steps.next(&format!("{name}: {what}"));
    step("preparation")?;
    kernels::link_unless(medium, bytes, meter.cancelled);
    // Nobody follows an unfinished chain: a cancelled calibration ends here.
    step("latency")?;
    let sequential_read_ns = meter.dependent_read(medium, SEQUENTIAL);
    let random_read_ns = meter.dependent_read(medium, SHUFFLED);
    step("strides")?;
    let strides = meter.strides(medium, bytes);
    step("read bandwidth")?;
    let read = rates(counts, |threads| Ok(meter.read_bandwidth(medium, bytes, threads)))?;
    step("write bandwidth")?;
    let write = rates(counts, |threads| meter.write_bandwidth(medium, bytes, threads))?;
    step("persist")?;
    let persist_ns = meter.persist(medium, bytes)?;
    step("hash probes")?;
    let mut probes = Vec::new();
    let mut size = MIN_TABLE_BYTES;
    while size <= bytes {
        let table = ProbeTable::build_unless(medium, size, meter.cancelled);
        steps.check()?;
        probes.push(meter.probes(&table));
        size *= 2;
    }
    let (peak_read, _) = peak_of(&read);
    let (peak_write, writers) = peak_of(&write);
    let unit = unit::access_unit(&strides);
    Ok(AccessFigures {
        sequential_read_ns,
        random_read_ns,
        read,
        write,
        peak_read,
        peak_write,
        writers,
        unit: unit.unwrap_or(known_unit),
        unit_measured: unit.is_some(),
        persist_ns,
        strides,
        probes,
    })
}

/// Counts the steps of a calibration.
struct Steps<'a> {
    done: usize,
    total: usize,
    cancelled: &'a AtomicBool,
    progress: &'a mut dyn FnMut(CalibrateStep<'_>),
}

impl Steps<'_> {
    /// Begins a step.
    fn next(&mut self, name: &str) -> Result<(), CalibrateError> {
        self.check()?;
        (self.progress)(CalibrateStep {
            done: self.done,
            total: self.total,
            name,
        });
        self.done += 1;
        Ok(())
    }

    fn check(&self) -> Result<(), CalibrateError> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(CalibrateError::Cancelled),
            false => Ok(()),
        }
    }
}

impl AccessFigures {
    /// Rounds what no measurement resolves: times to hundredths of a nanosecond, bandwidths to whole bytes.
    fn rounded(mut self) -> AccessFigures {
        let time = |ns: &mut f64| *ns = ((*ns * 100.0).round() / 100.0).max(0.01);
        let rate = |bytes: &mut f64| *bytes = bytes.round().max(1.0);
        let times = [
            &mut self.sequential_read_ns,
            &mut self.random_read_ns,
            &mut self.persist_ns,
        ];
        times.into_iter().for_each(time);
        self.strides.iter_mut().for_each(|cost| time(&mut cost.value_ns));
        for cost in &mut self.probes {
            time(&mut cost.batched_ns);
            time(&mut cost.dependent_ns);
        }
        let rates = self.read.iter_mut().chain(&mut self.write);
        rates.for_each(|each| rate(&mut each.bytes_per_second));
        rate(&mut self.peak_read);
        rate(&mut self.peak_write);
        self
    }
}

impl FromStr for CalibrateTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<CalibrateTarget, String> {
        match text.strip_prefix("numa:") {
            None => Ok(CalibrateTarget::Directory(Path::new(text).to_owned())),
            Some(node) => match node.parse() {
                Ok(node) => Ok(CalibrateTarget::NumaNode(node)),
                Err(_) => Err(format!("`{node}` is not the number of a NUMA node; write numa:1")),
            },
        }
    }
}

/// Returns the bytes to range over: far more than the last-level cache, and at most a quarter of the free
/// memory.
fn default_bytes() -> u64 {
    let wanted = (8 * scratch::cache_bytes()).clamp(256 << 20, 1 << 30);
    wanted.min(scratch::free_memory() / 4)
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
