//! Predictions of the time of hash probes from bandwidths and probe costs.
//!
//! The study's model counts the bytes that move: `8 |P| / B_p + (1 - π) |P| C / B_h`. It leaves out that a
//! core waits for misses, of which it has only so many outstanding, and computes: on DRAM, whose bandwidth a
//! random access does not reach, it predicts too little. [`ProbeModel::runtime`] therefore takes the larger
//! of two bounds: the bandwidth that all threads share, as the study does, and the work of each thread, for
//! which the measured cost of a probe at that size of the table stands.

/// Bytes of a probe tuple: two columns of 4 bytes.
pub(super) const TUPLE: f64 = 8.0;

/// The measured figures of a medium that predictions are computed from.
#[derive(Debug, Clone)]
pub(super) struct ProbeModel {
    /// Read bandwidth of one thread, in bytes per second.
    pub(super) single_bandwidth: f64,
    /// Read bandwidth of all threads.
    pub(super) bandwidth: f64,
    /// Number of threads.
    pub(super) threads: f64,
    /// Bytes that a probe which misses the cache moves.
    pub(super) unit: f64,
    /// Bytes of the last-level cache.
    pub(super) cache_bytes: f64,
}

impl ProbeModel {
    /// Returns the seconds that the study's model predicts for `rows` probes of a table of that size, probe
    /// side and table on this medium.
    pub(super) fn published_runtime(&self, rows: f64, table_bytes: f64) -> f64 {
        let hit = (self.cache_bytes / table_bytes).min(1.0);
        rows * (TUPLE + (1.0 - hit) * self.unit) / self.bandwidth
    }

    /// Returns the predicted seconds, where one thread needs `probe` seconds per probe of that table.
    pub(super) fn runtime(&self, rows: f64, table_bytes: f64, probe: f64) -> f64 {
        let of_threads = rows * (TUPLE / self.single_bandwidth + probe) / self.threads;
        of_threads.max(self.published_runtime(rows, table_bytes))
    }
}

/// Returns the difference of a prediction from the measurement, in percent of the measurement.
pub(super) fn error_percent(predicted: f64, measured: f64) -> f64 {
    (predicted / measured - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_model_counts_bytes() {
        let model = ProbeModel {
            single_bandwidth: 4e9,
            bandwidth: 32e9,
            threads: 12.0,
            unit: 256.0,
            cache_bytes: 32e6,
        };
        // A table in the cache: the probe side alone.
        assert_eq!(model.published_runtime(4e9, 1e6), 1.0);
        // A table of twice the cache: half of the probes miss.
        assert_eq!(model.published_runtime(4e9, 64e6), 17.0);
        // Threads that wait longer than the bandwidth explains, and threads that do not.
        assert_eq!(model.runtime(4e9, 1e6, 10e-9), 4e9 * 12e-9 / 12.0);
        assert_eq!(model.runtime(4e9, 64e6, 1e-9), 17.0);
        assert!((error_percent(1.1, 1.0) - 10.0).abs() < 1e-9);
    }
}
