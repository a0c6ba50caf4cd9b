//! Timed measurements of one medium: [`MediumMeter`].
//!
//! A measurement repeats a short piece of work until its time is over and reports the lower quartile, which
//! tolerates other load as long as it leaves memory bandwidth alone.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halocline_media::{LINE, MediaError, Medium, ProbeFigures, StrideFigures};

use crate::kernels::{self, ProbeTable};
use crate::threads::in_threads;

/// Minimum number of pieces of a measurement, however short its time is: a thread that has to wait for a CPU
/// measures the next pieces well.
const MIN_PIECES: usize = 16;
/// Bytes of a piece of sequential access.
const CHUNK: u64 = 1 << 20;
/// Dependent reads of a piece.
const DEPENDENT_READS: u64 = 1000;
/// Probes of a piece.
const PROBES: usize = 2048;
/// Stores of a piece that are made durable one by one.
const PERSISTS: u64 = 16;
/// The largest distance between values that are read.
const LONGEST_STRIDE: u64 = 32 << 10;
/// Values read in a piece, at least.
const STRIDE_VALUES: u64 = 512;

/// Measures media, each figure for about `time`. Once `cancelled` is set, every measurement ends with the
/// piece it is at, and its result means nothing.
#[derive(Debug, Clone, Copy)]
pub struct MediumMeter<'a> {
    /// Time of a measurement.
    pub time: Duration,
    /// Set to end early.
    pub cancelled: &'a AtomicBool,
}

impl MediumMeter<'_> {
    /// Returns the nanoseconds of a read that waits for the read before, along the [chain](kernels::link)
    /// that begins at `start`.
    #[must_use]
    pub fn dependent_read(&self, medium: &Medium, start: u64) -> f64 {
        let mut at = start;
        self.quartile(|_| {
            let begin = Instant::now();
            at = black_box(kernels::walk(medium, at, DEPENDENT_READS));
            (begin.elapsed(), DEPENDENT_READS)
        })
    }

    /// Returns the bytes per second that `threads` threads read sequentially from disjoint parts of the first
    /// `bytes`, at least 1 MiB each.
    #[must_use]
    pub fn read_bandwidth(&self, medium: &Medium, bytes: u64, threads: u32) -> f64 {
        let read = |at| {
            black_box(kernels::sum(medium, at, CHUNK));
            Ok(())
        };
        self.bandwidth(bytes, threads, &read).unwrap_or_default()
    }

    /// Returns the bytes per second that `threads` threads write sequentially and flush, in disjoint parts of
    /// the first `bytes`, at least 1 MiB each.
    ///
    /// # Errors
    /// Those of [`Medium::fence`].
    pub fn write_bandwidth(&self, medium: &Medium, bytes: u64, threads: u32) -> Result<f64, MediaError> {
        let chunk: Vec<u8> = (0..CHUNK).map(|at| (at % 251) as u8).collect();
        let write = |at| {
            medium.store(at, &chunk);
            medium.flush(at, CHUNK);
            medium.fence()
        };
        self.bandwidth(bytes, threads, &write)
    }

    /// Returns the nanoseconds per value of reading every j-th 4-byte value of the first `bytes`, for j = 1,
    /// 2, 4, … up to values 32 KiB apart.
    #[must_use]
    pub fn strides(&self, medium: &Medium, bytes: u64) -> Vec<StrideFigures> {
        let mut costs = Vec::new();
        let mut stride = 4;
        while stride <= LONGEST_STRIDE && 4 * stride <= bytes {
            let piece = (stride * STRIDE_VALUES).max(CHUNK).min(bytes / 4);
            let value_ns = self.quartile(|number| {
                let start = number as u64 * piece % bytes;
                // Another pass reads other lines: those of the last one may be in a cache.
                let pass = number as u64 * piece / bytes;
                let shift = pass * LINE % stride.max(LINE) / 4 * 4;
                let begin = Instant::now();
                let (values, sum) = kernels::sum_strided(medium, start + shift, piece - shift, stride);
                black_box(sum);
                (begin.elapsed(), values)
            });
            costs.push(StrideFigures { stride, value_ns });
            stride *= 2;
        }
        costs
    }

    /// Returns the cost of probing the table, for keys of which half match.
    #[must_use]
    pub fn probes(&self, table: &ProbeTable<'_>) -> ProbeFigures {
        let mut keys = vec![0_u32; PROBES];
        let mut state = 1_u64;
        let batched_ns = self.quartile(|_| {
            for key in &mut keys {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                *key = ((state >> 32) % (2 * table.keys())) as u32;
            }
            let begin = Instant::now();
            black_box(table.probe(&keys));
            (begin.elapsed(), PROBES as u64)
        });
        let dependent_ns = self.quartile(|_| {
            let begin = Instant::now();
            state = table.probe_dependent(state, DEPENDENT_READS);
            (begin.elapsed(), DEPENDENT_READS)
        });
        ProbeFigures {
            bytes: table.bytes(),
            batched_ns,
            dependent_ns,
        }
    }

    /// Returns the nanoseconds to store, flush and fence a word, at the next line of the first `bytes` each
    /// time.
    ///
    /// # Errors
    /// Those of [`Medium::fence`].
    pub fn persist(&self, medium: &Medium, bytes: u64) -> Result<f64, MediaError> {
        let mut result = Ok(());
        let ns = self.quartile(|number| {
            let begin = Instant::now();
            for store in 0..PERSISTS {
                let at = (number as u64 * PERSISTS + store) * LINE % bytes;
                medium.store_u64(at, store);
                if let Err(error) = medium.persist(at, 8) {
                    result = Err(error);
                }
            }
            (begin.elapsed(), PERSISTS)
        });
        result.map(|()| ns)
    }

    /// Returns the total bytes per second of `threads` threads that call `each` for the chunks of disjoint
    /// parts.
    fn bandwidth(
        &self,
        bytes: u64,
        threads: u32,
        each: &(impl Fn(u64) -> Result<(), MediaError> + Sync),
    ) -> Result<f64, MediaError> {
        let chunks = bytes / CHUNK;
        let part = (chunks / u64::from(threads)).max(1);
        let rate = |thread: u64| {
            let mut result = Ok(());
            let ns = self.quartile(|number| {
                let begin = Instant::now();
                let chunk = (thread * part + number as u64 % part) % chunks;
                if let Err(error) = each(chunk * CHUNK) {
                    result = Err(error);
                }
                (begin.elapsed(), CHUNK)
            });
            result.map(|()| 1e9 / ns)
        };
        in_threads(threads, rate)
    }

    /// Calls `piece` with 0, 1, 2, … until the time is over, and returns the lower quartile of its
    /// nanoseconds per operation.
    fn quartile(&self, mut piece: impl FnMut(usize) -> (Duration, u64)) -> f64 {
        let start = Instant::now();
        let mut times = Vec::new();
        while times.len() < MIN_PIECES || start.elapsed() < self.time {
            let (time, operations) = piece(times.len());
            times.push(time.as_secs_f64() * 1e9 / operations.max(1) as f64);
            if self.cancelled.load(Ordering::Relaxed) {
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        // No figure is 0, however coarse the clock is.
        times[times.len() / 4].max(0.001)
    }
}

#[cfg(test)]
mod tests {
    use halocline_media::Dram;

    use super::*;

    #[test]
    fn every_figure_is_positive_and_a_cancelled_one_ends() {
        let cancelled = AtomicBool::new(false);
        let bytes = 4 << 20;
        let medium = Medium::from(Dram::new(bytes).unwrap());
        kernels::link(&medium, bytes);
        for (time, cancel) in [
            (Duration::from_millis(1), false),
            (Duration::from_secs(1000), true),
        ] {
            cancelled.store(cancel, Ordering::Relaxed);
            let meter = MediumMeter {
                time,
                cancelled: &cancelled,
            };
            assert!(meter.dependent_read(&medium, kernels::SHUFFLED) > 0.0);
            assert!(meter.read_bandwidth(&medium, bytes, 2) > 0.0);
            let strides = meter.strides(&medium, bytes);
            assert_eq!(strides.first().unwrap().stride, 4);
            assert_eq!(strides.last().unwrap().stride, LONGEST_STRIDE);
            assert!(strides.iter().all(|cost| cost.value_ns > 0.0));
        }
        let meter = MediumMeter {
            time: Duration::from_millis(1),
            cancelled: &cancelled,
        };
        assert!(meter.write_bandwidth(&medium, bytes, 2).unwrap() > 0.0);
        assert!(meter.persist(&medium, bytes).unwrap() > 0.0);
        let cost = meter.probes(&ProbeTable::build(&medium, 1 << 15));
        assert!(cost.bytes == 1 << 15 && cost.batched_ns > 0.0 && cost.dependent_ns > 0.0);
    }
}
