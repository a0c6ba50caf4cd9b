//! Speeds of the slow tier and of DRAM, interpolated between measurements.

/// Interpolates the value at `at` in a table of measurements, pairs of an argument and a value in ascending
/// order of the arguments. Beyond the ends, returns the first or last value; 0 if the table is empty.
fn interpolate(points: &[(f64, f64)], at: f64) -> f64 {
    let behind = points.partition_point(|(argument, _)| *argument < at);
    match (
        behind.checked_sub(1).and_then(|before| points.get(before)),
        points.get(behind),
    ) {
        (Some(before), Some(behind)) => {
            // Between sizes that differ by a factor, values change with the logarithm.
            let share = (at.ln() - before.0.ln()) / (behind.0.ln() - before.0.ln());
            before.1
                + (behind.1 - before.1)
                    * if share.is_finite() {
                        share.clamp(0.0, 1.0)
                    } else {
                        1.0
                    }
        }
        (Some(last), None) => last.1,
        (None, Some(first)) => first.1,
        (None, None) => 0.0,
    }
}

/// Speeds of the slow tier and of DRAM. Tables that are empty count as free.
#[derive(Debug, Clone, PartialEq)]
pub struct MediumCosts {
    read: Vec<(f64, f64)>,
    write: Vec<(f64, f64)>,
    unit: usize,
    dram_latency: Vec<(f64, f64)>,
    slow_latency: Vec<(f64, f64)>,
}

impl MediumCosts {
    /// Creates costs from measurements: sequential bandwidths of the slow tier in bytes per second by number
    /// of threads, its access unit in bytes, and seconds per independent random read of one thread by
    /// the number of bytes that are read at random, for DRAM and for the slow tier. Points are in any order.
    pub fn new(
        read: &[(usize, f64)],
        write: &[(usize, f64)],
        unit: usize,
        dram_latency: &[(usize, f64)],
        slow_latency: &[(usize, f64)],
    ) -> MediumCosts {
        let table = |points: &[(usize, f64)]| {
            let usable = points
                .iter()
                .filter(|(at, value)| *at > 0 && value.is_finite() && *value > 0.0);
            let mut points: Vec<_> = usable.map(|(at, value)| (*at as f64, *value)).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        MediumCosts {
            read: table(read),
            write: table(write),
            unit: unit.max(1),
            dram_latency: table(dram_latency),
            slow_latency: table(slow_latency),
        }
    }

    /// Returns the costs of a machine that was not measured: a recent server, whose slow tier takes three
    /// times as long as DRAM for a random read.
    pub fn assumed() -> MediumCosts {
        let dram = [
            (32 << 10, 1.2e-9),
            (1 << 20, 3e-9),
            (32 << 20, 9e-9),
            (1 << 30, 25e-9),
        ];
        MediumCosts::new(
            &[(1, 6e9), (4, 20e9)],
            &[(1, 2e9), (4, 4e9)],
            256,
            &dram,
            &dram.map(|(bytes, seconds)| (bytes, 3.0 * seconds)),
        )
    }

    /// Returns the number of threads, at most `threads`, that write fastest together.
    pub fn best_writers(&self, threads: usize) -> usize {
        let rate = |writers: &usize| interpolate(&self.write, *writers as f64);
        let mut best = 1;
        for writers in 2..=threads.max(1) {
            if rate(&writers) > rate(&best) * 1.001 {
                best = writers;
            }
        }
        best
    }

    /// Returns the time in seconds in which threads read bytes sequentially.
    pub(crate) fn read(&self, bytes: f64, threads: usize) -> f64 {
        per_rate(bytes, interpolate(&self.read, threads as f64))
    }

    /// Returns the time in seconds in which the best number of threads writes bytes sequentially.
    pub(crate) fn write(&self, bytes: f64, threads: usize) -> f64 {
        let writers = self.best_writers(threads) as f64;
        per_rate(bytes, interpolate(&self.write, writers))
    }

    /// Returns λ: how many times longer writing takes than reading.
    pub fn lambda(&self, threads: usize) -> f64 {
        let read = self.read(1.0, threads);
        if read > 0.0 {
            self.write(1.0, threads) / read
        } else {
            1.0
        }
    }

    /// Returns the seconds of a random read from `bytes` bytes of DRAM.
    pub fn dram_read(&self, bytes: f64) -> f64 {
        interpolate(&self.dram_latency, bytes.max(1.0))
    }

    /// Returns the seconds of a random read of `len` bytes from `bytes` bytes of the slow tier by each of
    /// some threads: the latency, or the time to transfer whole units if that is longer.
    pub(crate) fn slow_read(&self, bytes: f64, len: f64, threads: usize) -> f64 {
        let units = (len / self.unit as f64).ceil().max(1.0) * self.unit as f64;
        let latency = interpolate(&self.slow_latency, bytes.max(1.0));
        latency.max(self.read(units, threads) * threads as f64)
    }
}

fn per_rate(bytes: f64, rate: f64) -> f64 {
    if rate > 0.0 { bytes / rate } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_interpolated() {
        let costs = MediumCosts::new(
            &[(12, 32e9), (1, 4e9)],
            &[(1, 7e9), (2, 8.5e9), (12, 3e9)],
            256,
            &[(1 << 10, 1e-9), (1 << 30, 21e-9)],
            &[],
        );
        assert_eq!((costs.best_writers(1), costs.best_writers(24)), (1, 2));
        assert!((costs.lambda(12) - 32.0 / 8.5).abs() < 1e-9);
        assert!((costs.dram_read(f64::from(1 << 20)) - 11e-9).abs() < 1e-12);
        assert_eq!((costs.dram_read(1.0), costs.dram_read(1e12)), (1e-9, 21e-9));
        // 256 bytes by each of 12 threads, which share 32 GB/s.
        assert!((costs.slow_read(1e9, 8.0, 12) - 96e-9).abs() < 1e-12);
        let free = MediumCosts::new(&[], &[], 0, &[], &[]);
        assert_eq!(
            (
                free.read(1e9, 2),
                free.write(1e9, 2),
                free.lambda(2),
                free.best_writers(2)
            ),
            (0.0, 0.0, 1.0, 1)
        );
    }
}
