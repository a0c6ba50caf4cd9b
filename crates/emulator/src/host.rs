//! The DRAM performance of this host, which relative emulation scales to: [`Host`].

use std::sync::OnceLock;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::profile::DeviceFigures;
use halocline_media::{Dram, HugeVec, MediaError, MediumAccess};

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
const WALKED: usize = 512 << 20;
/// Bytes of the bandwidth measurement.
const BYTES: usize = 256 << 20;
const WORDS_OF_LINE: usize = 16;
const CHUNK: usize = 1 << 20;

impl Host {
    /// Measures this host in about two seconds, with one thread up to one per CPU. Each figure is the lower
    /// quartile of many short measurements, which tolerates other load as long as it leaves memory
    /// bandwidth alone.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`] if 768 MiB cannot be allocated.
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
        // Fault the pages in first: the first touch of fresh memory is slow.
        (0..BYTES).step_by(CHUNK).for_each(write);
        Ok(Host {
            random_ns,
            read_gbps: (1..=most).map(|threads| bandwidth(threads, &read)).collect(),
            write_gbps: (1..=most).map(|threads| bandwidth(threads, &write)).collect(),
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

/// Returns the nanoseconds per step of a pointer chase through all lines in random order.
fn chase(next: &mut [u32]) -> f64 {
    const STEPS: usize = 2000;
    let lines = next.len() / WORDS_OF_LINE;
    for line in 0..lines {
        next[line * WORDS_OF_LINE] = (line * WORDS_OF_LINE) as u32;
    }
    // Link all lines into one cycle (Sattolo's shuffle).
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

/// Returns the total GB/s of `threads` threads that call `each` for the chunks of disjoint parts.
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

/// Returns the lower quartile of the nanoseconds per call over `count` calls.
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
