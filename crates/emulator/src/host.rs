//! What this host's DRAM can do: [`Host`], the measure of relative emulation.

use std::sync::OnceLock;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::profile::DeviceFigures;
use halocline_media::{Dram, HugeVec, MediaError, MediumAccess};

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

/// Bytes to walk through: many times any cache, and enough that page tables count, as they do for a large index.
const WALKED: usize = 512 << 20;
/// Bytes to stream through.
const BYTES: usize = 256 << 20;
const WORDS_OF_LINE: usize = 16;
const CHUNK: usize = 1 << 20;

impl Host {
    /// Measures, in about two seconds, with one thread and then with as many as there are CPUs. Each figure is the lower
    /// quartile of many short times, so that what else runs on the machine does little harm as long as it leaves the memory
    /// alone.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`]: it needs 768 MiB.
    pub fn measure() -> Result<Host, MediaError> {
        let mut words = HugeVec::<u32>::zeroed(WALKED / 4)?;
        let random_ns = chase(&mut words);
        let scratch = Dram::new(BYTES as u64)?;
        let chunk = vec![1_u8; CHUNK];
        let most = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(64);
        let read = |at: usize| {
            let words = &words[at / 4..][..CHUNK / 4];
            std::hint::black_box(words.iter().fold(0, |sum: u32, word| sum.wrapping_add(*word)));
        };
        let write = |at: usize| scratch.store(at as u64, &chunk);
        // Memory that was never touched is slow at first.
        (0..BYTES).step_by(CHUNK).for_each(write);
        Ok(Host {
            random_ns,
            read_gbps: (1..=most).map(|threads| bandwidth(threads, &read)).collect(),
            write_gbps: (1..=most).map(|threads| bandwidth(threads, &write)).collect(),
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

/// Nanoseconds of a step of a walk through all lines in random order.
fn chase(next: &mut [u32]) -> f64 {
    const STEPS: usize = 2000;
    let lines = next.len() / WORDS_OF_LINE;
    for line in 0..lines {
        next[line * WORDS_OF_LINE] = (line * WORDS_OF_LINE) as u32;
    }
    // One circle through all lines (Sattolo's shuffle).
    let mut random = SmallRng::seed_from_u64(1);
    for line in (1..lines).rev() {
        let other = random.random_range(0..line);
        next.swap(line * WORDS_OF_LINE, other * WORDS_OF_LINE);
    }
    let mut at = 0;
    let time = quartile(400, |_| {
        for _ in 0..STEPS {
            at = next[at as usize];
        }
    });
    std::hint::black_box(at);
    time / STEPS as f64
}

/// GB/s of `threads` threads together that each call `each` for the chunks of a part of their own.
fn bandwidth(threads: usize, each: &(impl Fn(usize) + Sync)) -> f64 {
    let part = BYTES / CHUNK / threads;
    let rate = |thread: usize| {
        let time = quartile(2 * part, |chunk| each((thread * part + chunk % part) * CHUNK));
        CHUNK as f64 / time
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || rate(thread)))
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, f64>| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).sum()
    })
}

/// The lower quartile of the nanoseconds that `count` calls take.
fn quartile(count: usize, mut call: impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..count)
        .map(|number| {
            let start = Instant::now();
            call(number);
            start.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[count / 4]
}
