//! The course of a calibration: [`calibrate`].

use std::sync::atomic::AtomicBool;

use halocline_media::{Dram, LINE, Medium, MediumBackend, MediumKind, Profile, ProfiledMedium};

use crate::cold::{ColdFile, STEPS_OF_DEVICE};
use crate::figures::rounded;
use crate::memory::{STEPS_OF_MEMORY, measure_memory};
use crate::scratch::FileSystem;
use crate::steps::Steps;
use crate::threads::thread_counts;
use crate::{CalibrateError, CalibrateOptions, CalibrateStep, CalibrateTarget, MediumMeter, numa, scratch};

/// Minimum number of bytes to range over: 1 MiB per thread, and enough for the longest stride.
const MIN_BYTES_PER_THREAD: u64 = 1 << 20;
/// Bytes by which a scratch file grows before it is asked again whether to go on.
const GROWTH_STEP: u64 = 64 << 20;
/// Most bytes that are written to a device below the page cache.
const COLD_BYTES: u64 = 64 << 20;

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
        warm: rounded(warm),
        cold: cold.map(rounded),
        dram: rounded(dram),
    })
}

/// Returns the bytes to range over: far more than the last-level cache, and at most a quarter of the free
/// memory.
fn default_bytes() -> u64 {
    let wanted = (8 * scratch::cache_bytes()).clamp(256 << 20, 1 << 30);
    wanted.min(scratch::free_memory() / 4)
}
